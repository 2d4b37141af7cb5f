//! Where the prompt comes from.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::Config;
use ralph_orchestrator_machine::PathIdentities;
use ralph_orchestrator_store::TrustStore;
use ralph_orchestrator_workspace::{Prompt, PromptError, PromptPlace};

use super::error::EngineError;
use super::prompt_place;
use super::role_prompts::{RolePrompt, RolePrompts, TemplateVariables};
use super::validation_policy::CompletionPolicy;

/// Stands between the prompt of a role and the task.
const BEFORE_TASK: &[u8] = b"\n---\n\n";

/// A prompt file, or a prompt in the configuration.
#[derive(Clone, Debug)]
pub(super) enum PromptSource {
    /// A file that the agent may or may not edit.
    File { place: PromptPlace, mutable: bool, last: Option<Prompt> },
    /// Text that never changes.
    Text(String),
    /// The prompts of roles, and the task that follows them, if there is one.
    Roles { prompts: RolePrompts, task: Option<Box<PromptSource>> },
}

/// What is known of the iteration whose prompt is read.
#[derive(Clone, Copy)]
pub(super) struct PromptContext<'a> {
    pub(super) is_initializing: bool,
    pub(super) iteration: u64,
    pub(super) max_iterations: Option<u64>,
    pub(super) workspace: &'a Path,
}

/// The prompt of an iteration.
pub(super) struct IterationPrompt {
    pub(super) bytes: Vec<u8>,
    /// Digest of the file's content; of that of the role, if roles have prompts.
    pub(super) digest: String,
    /// The role, if roles have prompts.
    pub(super) role: Option<RolePrompt>,
}

impl IterationPrompt {
    /// Returns it as text; what is not UTF-8 is replaced by U+FFFD.
    pub(super) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Returns it followed by the part of the task that the run works on, if it has one. Without roles the
    /// digest is that of both.
    pub(super) fn followed_by(mut self, part: Option<&str>) -> Self {
        let Some(part) = part else { return self };
        append_part(&mut self.bytes, part);
        if self.role.is_none() {
            self.digest = Prompt::new(self.bytes.clone()).digest;
        }
        self
    }
}

impl PromptSource {
    /// Returns the prompt as it is where no agent is given it: all links to it are followed.
    pub(super) fn find(config: &Config) -> Self {
        Self::new(config, PromptPlace::locate)
    }

    /// Returns the prompt of a run that begins: the user's links to it are followed now and never again.
    pub(super) fn find_for_agent(config: &Config, trust: &TrustStore) -> Self {
        Self::new(config, |configured| prompt_place::locate(trust, configured))
    }

    /// Returns the prompt of a run that has begun, with what was recorded of it; `locate` finds what was not.
    pub(super) fn recorded(
        config: &Config,
        pins: &PathIdentities,
        locate: impl Fn(&Path) -> PromptPlace,
    ) -> Self {
        Self::new(config, |configured| {
            prompt_place::find_recorded_prompt(pins, configured)
                .unwrap_or_else(|| locate(configured))
        })
    }

    fn new(config: &Config, place: impl Fn(&Path) -> PromptPlace) -> Self {
        let run = &config.run;
        let task = match (&run.prompt_text, &run.prompt) {
            (Some(text), _) => Some(Self::Text(text.clone())),
            (None, Some(path)) => {
                Some(Self::File { place: place(path), mutable: run.prompt_editable, last: None })
            }
            (None, None) => None,
        };
        match (&config.prompts, task) {
            (None, task) => task.unwrap_or(Self::Text(String::new())),
            (Some(prompts), task) => Self::Roles {
                prompts: RolePrompts::new(config, prompts, place),
                task: task.map(Box::new),
            },
        }
    }

    /// Returns the task without the prompts of roles, if there is one.
    pub(super) fn task(&self) -> Option<&Self> {
        match self {
            Self::File { .. } | Self::Text(_) => Some(self),
            Self::Roles { task, .. } => task.as_deref(),
        }
    }

    /// Returns the place of the task, if it is a file.
    pub(super) fn place(&self) -> Option<&PromptPlace> {
        match self.task()? {
            Self::File { place, .. } => Some(place),
            Self::Text(_) | Self::Roles { .. } => None,
        }
    }

    /// Takes what the files hold now for whole: see [`PromptPlace::accept_as_whole`].
    pub(super) fn accept_as_whole(&self) {
        self.place().into_iter().chain(self.role_places()).for_each(PromptPlace::accept_as_whole);
    }

    /// Returns the places at which the prompts of roles are looked for.
    pub(super) fn role_places(&self) -> impl Iterator<Item = &PromptPlace> {
        let prompts = match self {
            Self::Roles { prompts, .. } => Some(prompts),
            Self::File { .. } | Self::Text(_) => None,
        };
        prompts.into_iter().flat_map(RolePrompts::places)
    }

    /// Returns the paths of all files, as configured and without links.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let places = self.place().into_iter().chain(self.role_places());
        places.flat_map(|place| [place.configured(), place.file()])
    }

    /// Returns the path in the configuration, if it is a file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.place().map(PromptPlace::configured)
    }

    /// Returns the path of the file without links.
    pub(super) fn file(&self) -> Option<&Path> {
        self.place().map(PromptPlace::file)
    }

    /// Returns the text as it is now, if it can be read.
    pub(super) fn read_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::File { place, .. } => place.read().ok().map(|prompt| prompt.text),
            Self::Roles { task: Some(task), .. } => task.read_text(),
            Self::Roles { prompts, task: None } => prompts.working_text(),
        }
    }

    /// Returns the text as it was read last, whatever has become of the file since.
    pub(super) fn last_text(&self) -> Option<String> {
        match self {
            Self::File { last: Some(prompt), .. } => Some(prompt.text.clone()),
            Self::Roles { task: Some(task), .. } => task.last_text(),
            Self::Roles { prompts, task: None } => prompts.last_working_text(),
            _ => self.read_text(),
        }
    }

    /// Takes this for the task that is there, if it is one that may be edited.
    pub(super) fn accept(&mut self, prompt: Prompt) {
        match self {
            Self::File { mutable: true, last, .. } => *last = Some(prompt),
            Self::Roles { task: Some(task), .. } => task.accept(prompt),
            _ => {}
        }
    }

    /// Returns the text as it is at this moment, finished or not: what is found in it costs a validation at
    /// most. `None` if it cannot be read.
    pub(super) fn glance(&self) -> Option<String> {
        let bytes = self.place()?.read_now()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Removes claims that stand in the file before a run begins whose task they cannot be about. Returns
    /// what was done. A file that the agent may not edit holds none of its claims.
    pub(super) async fn remove_claims(
        &self,
        policy: &CompletionPolicy,
        workspace: &Path,
    ) -> Result<Option<String>, PromptError> {
        let task = match self {
            Self::Roles { task: Some(task), .. } => task,
            other => other,
        };
        let Self::File { place, mutable: true, .. } = task else { return Ok(None) };
        let prompt = place.read()?;
        let stripped = policy.strip_claims(&prompt.text).await;
        if stripped == prompt.text || prompt.text.as_bytes() != prompt.bytes {
            return Ok(None);
        }
        place.restore(stripped.as_bytes(), workspace)?;
        let path = place.configured().display();
        Ok(Some(format!("{path}: claims that stood there from before this run were removed")))
    }

    /// Reads what an iteration is given, and says what is wrong with it or was changed.
    pub(super) fn read_for(
        &mut self,
        now: PromptContext<'_>,
    ) -> Result<(IterationPrompt, Vec<String>), EngineError> {
        let (task, warning) = self.read(now.workspace)?;
        let Self::Roles { prompts, .. } = self else {
            let prompt = IterationPrompt { bytes: task.bytes, digest: task.digest, role: None };
            return Ok((prompt, warning.into_iter().collect()));
        };
        let role = prompts.role(now.is_initializing);
        let variables = TemplateVariables {
            role: role.word(),
            iteration: now.iteration,
            max_iterations: now.max_iterations,
            workspace: now.workspace.display().to_string(),
            task: &task.text,
        };
        let (prompt, changed) = prompts.read(role, &variables, now.workspace)?;
        let mut bytes = prompt.bytes.clone();
        if !task.bytes.is_empty() && !prompt.has_task {
            if !bytes.ends_with(b"\n") {
                bytes.push(b'\n');
            }
            bytes.extend_from_slice(BEFORE_TASK);
            bytes.extend_from_slice(&task.bytes);
        }
        let digest = prompt.found.prompt.digest.clone();
        let prompt = IterationPrompt { bytes, digest, role: Some(prompt) };
        Ok((prompt, warning.into_iter().chain(changed).collect()))
    }

    /// Reads the task as it is now; nothing without one. A file that the agent deleted, put a link in the place of, or edited
    /// though it may not, is restored; the second value says so.
    pub(super) fn read(
        &mut self,
        workspace: &Path,
    ) -> Result<(Prompt, Option<String>), PromptError> {
        let (place, mutable, last) = match self {
            Self::Text(text) => return Ok((Prompt::new(text.clone().into_bytes()), None)),
            Self::Roles { task: Some(task), .. } => return task.read(workspace),
            Self::Roles { task: None, .. } => return Ok((Prompt::new(Vec::new()), None)),
            Self::File { place, mutable, last } => (place, *mutable, last),
        };
        let (prompt, why) = match (place.read(), last.as_ref()) {
            (Ok(prompt), Some(before)) if !mutable && prompt.bytes != before.bytes => {
                (before.clone(), "was edited, which run.prompt_editable = false forbids")
            }
            (Ok(prompt), _) => {
                *last = Some(prompt.clone());
                return Ok((prompt, None));
            }
            (Err(error), Some(before)) => (before.clone(), reason(&error)),
            (Err(error), None) => return Err(error),
        };
        place.restore(&prompt.bytes, workspace)?;
        let path: PathBuf = place.configured().to_owned();
        Ok((prompt, Some(format!("{} {why}; it was restored", path.display()))))
    }
}

/// Adds the part of the task that a run works on to the prompt of the role or of the configuration.
fn append_part(bytes: &mut Vec<u8>, part: &str) {
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    bytes.push(b'\n');
    bytes.extend_from_slice(part.as_bytes());
}

/// The same for the text of a prompt.
pub(super) fn with_part(prompt: String, part: Option<&str>) -> String {
    let Some(part) = part else { return prompt };
    let mut bytes = prompt.into_bytes();
    append_part(&mut bytes, part);
    String::from_utf8_lossy(&bytes).into_owned()
}

const fn reason(error: &PromptError) -> &'static str {
    match error {
        PromptError::Link { .. } => "is a link now, which is not followed",
        PromptError::HardLink { .. } => "is another file's hard link now, which is not read",
        _ => "could not be read any more",
    }
}
