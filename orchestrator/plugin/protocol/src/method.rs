//! The methods of instances, their parameters and their results.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_contract::{
    BacklogEdit, BacklogItem, Budget, Change, Claim, DetectorInput, Event, Findings, FormatDefect,
    FormatError, Iteration, Launch, Report, SetupProblem, ValidationContext, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::base64;

/// A method call on an instance, with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Method {
    /// Agents and validators: checks whether it could work. Spends nothing.
    Check {
        /// The environment that a call would get.
        env: BTreeMap<String, String>,
    },
    /// Agents: runs one iteration.
    Run {
        /// The task.
        task: Task,
    },
    /// Detectors: finds claims in an event of the agent.
    Observe {
        /// The event.
        event: Event,
    },
    /// Detectors: finds claims in the workspace and the final message.
    Inspect {
        /// The input.
        input: InspectInput,
    },
    /// Detectors: removes the claims from the prompt.
    StripClaims {
        /// The prompt.
        prompt: String,
    },
    /// Agents: returns what `run` would start. Does nothing.
    Launch {
        /// A task whose prompt and private folder are placeholders, see [`Launch`].
        task: Task,
    },
    /// Validators: finds what the user should know of before the run.
    FindSetupProblems {
        /// Where the agent will work.
        workspace: PathBuf,
        /// The environment for processes.
        env: BTreeMap<String, String>,
    },
    /// Validators: validates a claim.
    Validate {
        /// The context.
        context: Validation,
    },
    /// Formats of backlogs: reads the items of a text.
    ReadBacklog {
        /// The text.
        text: String,
    },
    /// Formats of backlogs: applies edits to a text, one after the other.
    EditBacklog {
        /// The text before them.
        text: String,
        /// The edits.
        edits: Vec<BacklogEdit>,
    },
}

/// The names of the methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodName {
    /// [`Method::Check`]
    Check,
    /// [`Method::Run`]
    Run,
    /// [`Method::Observe`]
    Observe,
    /// [`Method::Inspect`]
    Inspect,
    /// [`Method::StripClaims`]
    StripClaims,
    /// [`Method::Launch`]
    Launch,
    /// [`Method::FindSetupProblems`]
    FindSetupProblems,
    /// [`Method::Validate`]
    Validate,
    /// [`Method::ReadBacklog`]
    ReadBacklog,
    /// [`Method::EditBacklog`]
    EditBacklog,
}

impl MethodName {
    /// Returns the name as written in a frame.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Run => "run",
            Self::Observe => "observe",
            Self::Inspect => "inspect",
            Self::StripClaims => "strip_claims",
            Self::Launch => "launch",
            Self::FindSetupProblems => "find_setup_problems",
            Self::Validate => "validate",
            Self::ReadBacklog => "read_backlog",
            Self::EditBacklog => "edit_backlog",
        }
    }

    /// Returns the key of its result in `done`.
    #[must_use]
    pub const fn answer_key(self) -> &'static str {
        match self {
            Self::Check => "found",
            Self::Run => "report",
            Self::Observe => "claims",
            Self::Inspect => "findings",
            Self::StripClaims => "text",
            Self::Launch => "launch",
            Self::FindSetupProblems => "setup_problems",
            Self::Validate => "verdict",
            Self::ReadBacklog => "backlog",
            Self::EditBacklog => "edited",
        }
    }
}

impl Method {
    /// Returns its name.
    #[must_use]
    pub const fn name(&self) -> MethodName {
        match self {
            Self::Check { .. } => MethodName::Check,
            Self::Run { .. } => MethodName::Run,
            Self::Observe { .. } => MethodName::Observe,
            Self::Inspect { .. } => MethodName::Inspect,
            Self::StripClaims { .. } => MethodName::StripClaims,
            Self::Launch { .. } => MethodName::Launch,
            Self::FindSetupProblems { .. } => MethodName::FindSetupProblems,
            Self::Validate { .. } => MethodName::Validate,
            Self::ReadBacklog { .. } => MethodName::ReadBacklog,
            Self::EditBacklog { .. } => MethodName::EditBacklog,
        }
    }
}

/// The result of a method, under the key that belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Of `check`: what was found, such as a version. May be empty.
    Found(String),
    /// Of `run`.
    Report(Report),
    /// Of `observe`.
    Claims(Vec<Claim>),
    /// Of `inspect`.
    Findings(Findings),
    /// Of `strip_claims`.
    Text(String),
    /// Of `launch`; none if nothing is started, or that is not known.
    Launch(Option<Launch>),
    /// Of `find_setup_problems`.
    SetupProblems(Vec<SetupProblem>),
    /// Of `validate`.
    Verdict(Verdict),
    /// Of `read_backlog`.
    Backlog(ReadBacklog),
    /// Of `edit_backlog`.
    Edited(EditedBacklog),
}

impl Answer {
    /// Returns the method that it is a result of.
    #[must_use]
    pub const fn method(&self) -> MethodName {
        match self {
            Self::Found(_) => MethodName::Check,
            Self::Report(_) => MethodName::Run,
            Self::Claims(_) => MethodName::Observe,
            Self::Findings(_) => MethodName::Inspect,
            Self::Text(_) => MethodName::StripClaims,
            Self::Launch(_) => MethodName::Launch,
            Self::SetupProblems(_) => MethodName::FindSetupProblems,
            Self::Verdict(_) => MethodName::Validate,
            Self::Backlog(_) => MethodName::ReadBacklog,
            Self::Edited(_) => MethodName::EditBacklog,
        }
    }
}

/// The result of `read_backlog`: the items of a valid text, or what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadBacklog {
    /// The items in the order of the file.
    pub items: Vec<BacklogItem>,
    /// All that is wrong; empty if the text is valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<FormatDefect>,
}

impl ReadBacklog {
    /// Returns the items.
    ///
    /// # Errors
    /// The defects, if there are any.
    pub fn into_items(self) -> Result<Vec<BacklogItem>, FormatError> {
        let Self { items, defects } = self;
        if defects.is_empty() { Ok(items) } else { Err(FormatError::Defects(defects)) }
    }
}

/// The result of `edit_backlog`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditedBacklog {
    /// The text after the edits.
    Text(String),
    /// What the format cannot hold, such as "a priority".
    NotStorable(String),
    /// What is wrong with an item to be added, and what to do.
    InvalidItem(String),
}

impl EditedBacklog {
    /// Returns the text.
    ///
    /// # Errors
    /// Why there is none.
    pub fn into_text(self) -> Result<String, FormatError> {
        match self {
            Self::Text(text) => Ok(text),
            Self::NotStorable(what) => Err(FormatError::NotStorable(what)),
            Self::InvalidItem(problem) => Err(FormatError::InvalidItem(problem)),
        }
    }
}

/// The task of one iteration, see [`Iteration`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The run's id.
    pub run: String,
    /// The iteration's number, from 1.
    pub number: u64,
    /// The prompt, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The prompt, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_base64: Option<String>,
    /// The agent's working directory: absolute, without symlinks.
    pub workspace: PathBuf,
    /// The complete environment for the agent's processes.
    pub env: BTreeMap<String, String>,
    /// What it may spend; the host enforces it too.
    #[serde(default)]
    pub budget: Budget,
    /// An existing private folder for this iteration, outside the workspace.
    pub scratch: PathBuf,
}

/// Why a task has no usable prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// Neither key is present.
    #[error("the task has neither `prompt` nor `prompt_base64`")]
    NoPrompt,
    /// The text is not Base64.
    #[error("`prompt_base64` of the task is not Base64")]
    NotBase64,
}

impl From<Iteration> for Task {
    fn from(task: Iteration) -> Self {
        let Iteration { run, number, prompt, workspace, env, budget, scratch } = task;
        let (prompt, prompt_base64) = match String::from_utf8(prompt) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(base64::encode(error.as_bytes()))),
        };
        Self { run, number, prompt, prompt_base64, workspace, env, budget, scratch }
    }
}

impl TryFrom<Task> for Iteration {
    type Error = TaskError;

    fn try_from(task: Task) -> Result<Self, TaskError> {
        let Task { run, number, prompt, prompt_base64, workspace, env, budget, scratch } = task;
        let prompt = match (prompt, prompt_base64) {
            (Some(text), _) => text.into_bytes(),
            (None, Some(text)) => base64::decode(&text).ok_or(TaskError::NotBase64)?,
            (None, None) => return Err(TaskError::NoPrompt),
        };
        Ok(Self { run, number, prompt, workspace, env, budget, scratch })
    }
}

/// The input of `inspect`, see [`DetectorInput`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectInput {
    /// The agent's working directory.
    pub workspace: PathBuf,
    /// The prompt file, if the prompt is one.
    #[serde(default)]
    pub prompt_path: Option<PathBuf>,
    /// The prompt as on disk now.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The final message of the iteration that just succeeded.
    #[serde(default)]
    pub final_text: Option<String>,
    /// All input of the agent in that iteration: text that occurs in it verbatim is an echo.
    #[serde(default)]
    pub given: Option<String>,
}

impl From<DetectorInput<'_>> for InspectInput {
    fn from(input: DetectorInput<'_>) -> Self {
        Self {
            workspace: input.workspace.to_owned(),
            prompt_path: input.prompt_path.map(ToOwned::to_owned),
            prompt: input.prompt.map(ToOwned::to_owned),
            final_text: input.final_text.map(ToOwned::to_owned),
            given: input.given.map(ToOwned::to_owned),
        }
    }
}

impl InspectInput {
    /// Returns a borrowed view of it.
    #[must_use]
    pub fn as_detector_input(&self) -> DetectorInput<'_> {
        DetectorInput {
            workspace: &self.workspace,
            prompt_path: self.prompt_path.as_deref(),
            prompt: self.prompt.as_deref(),
            final_text: self.final_text.as_deref(),
            given: self.given.as_deref(),
        }
    }
}

/// The context of a validation, see [`ValidationContext`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// The run's id.
    pub run: String,
    /// The iteration that just ended; 0 before the first.
    pub iteration: u64,
    /// The claim to validate.
    pub claim: Claim,
    /// The agent's working directory: absolute, without symlinks.
    pub workspace: PathBuf,
    /// The iteration whose end first showed the present workspace tree; 0 if it is as at the start.
    pub tree_since: u64,
    /// For each content seen in the validator's folders of evidence, by BLAKE3 in hexadecimal: the last
    /// iteration that wrote a file with it; 0 for good if it was there before the run.
    #[serde(default)]
    pub written_in: BTreeMap<String, u64>,
    /// Whether `written_in` lists everything. If not, a content that it does not list may have been there
    /// before the run.
    #[serde(default = "yes")]
    pub evidence_listed: bool,
    /// Protected paths that changed since the run began.
    #[serde(default)]
    pub protected_changes: Vec<Change>,
    /// The environment for processes.
    pub env: BTreeMap<String, String>,
}

const fn yes() -> bool {
    true
}

impl From<ValidationContext<'_>> for Validation {
    fn from(context: ValidationContext<'_>) -> Self {
        Self {
            run: context.run.to_owned(),
            iteration: context.iteration,
            claim: context.claim.clone(),
            workspace: context.workspace.to_owned(),
            tree_since: context.tree_since,
            written_in: context.written_in.clone(),
            evidence_listed: context.evidence_listed,
            protected_changes: context.protected_changes.to_vec(),
            env: context.env.clone(),
        }
    }
}

impl Validation {
    /// Returns a borrowed view of it.
    #[must_use]
    pub fn as_context(&self) -> ValidationContext<'_> {
        ValidationContext {
            checkout: &[],
            output: None,
            run: &self.run,
            iteration: self.iteration,
            claim: &self.claim,
            workspace: &self.workspace,
            tree_since: self.tree_since,
            written_in: &self.written_in,
            evidence_listed: self.evidence_listed,
            protected_changes: &self.protected_changes,
            env: &self.env,
        }
    }
}
