//! Those who give verdicts, and what they may look at.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{CancelSignal, Claim, Reviewer, Verdict};

/// What became of a protected path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there when the run began.
    Added,
    /// Its content, type or mode is another.
    Modified,
    /// It is gone.
    Removed,
    /// A path that the validator goes through leads elsewhere, over a link on its way.
    Redirected,
}

impl ChangeKind {
    /// Says what became of the path, as it follows its name in parentheses.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Removed => "removed",
            Self::Redirected => "leads elsewhere",
        }
    }
}

/// Returns what is to be done about changes of protected paths: what was added is removed, the rest restored.
#[must_use]
pub fn describe_remedy(kinds: impl IntoIterator<Item = ChangeKind>) -> &'static str {
    let (added, others): (Vec<_>, Vec<_>) =
        kinds.into_iter().partition(|kind| *kind == ChangeKind::Added);
    match (added.is_empty(), others.is_empty()) {
        (false, true) => "remove what was added",
        (false, false) => "restore what was changed, and remove what was added",
        (true, _) => "restore what was changed",
    }
}

/// How a reason begins that says of a protected path that it is not as it was when the run began: advice after a stop
/// recognises it by that.
pub const PROTECTED_CHANGED: &str = "protected path";

/// How a reason begins that names, up to [`HIDDEN_END`], files that a check needs and does not see: advice after a stop
/// recognises it by that.
pub const NEEDS_HIDDEN: &str = "green only with ";
/// What follows the names, which are separated by `, `.
pub const HIDDEN_END: &str = ", which git ignores";
/// The same after the name of git's own folder.
pub const GIT_END: &str = " as it is now";

/// A protected path that is not as it was when the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What became of it.
    pub kind: ChangeKind,
}

/// A folder in whose place processes see the merged contents of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayeredFolder {
    /// The folder: absolute, without links.
    pub target: PathBuf,
    /// Whose contents are seen, top first; the target itself may be one.
    pub layers: Vec<PathBuf>,
    /// The folder that receives what is written.
    pub upper: PathBuf,
    /// A folder beside it that whoever merges them needs.
    pub work: PathBuf,
}

/// Receives what the check of a validator prints, all of it and as it comes.
pub trait CheckOutput: fmt::Debug + Send + Sync {
    /// Takes what it writes to standard output.
    fn read_stdout(&self, bytes: &[u8]);

    /// Takes what it writes to standard error.
    fn read_stderr(&self, bytes: &[u8]);
}

/// What a validator may use to come to its verdict.
#[derive(Clone, Copy, Debug)]
pub struct ValidationContext<'a> {
    /// The run's id.
    pub run: &'a str,
    /// The iteration that just ended; 0 before the first.
    pub iteration: u64,
    /// The claim under examination.
    pub claim: &'a Claim,
    /// Where the agent works: absolute, without links.
    pub workspace: &'a Path,
    /// The iteration whose end first showed the present workspace tree; 0 if it is as at the start.
    pub tree_since: u64,
    /// For each content seen in this validator's [`evidence_dirs`](EvidenceValidator::evidence_dirs),
    /// by BLAKE3 in hexadecimal: the last iteration that wrote a file with it; 0 for good if it was
    /// there before the run.
    pub written_in: &'a BTreeMap<String, u64>,
    /// Whether [`written_in`](Self::written_in) lists everything. If not, a content that it does not
    /// list may have been there before the run.
    pub evidence_listed: bool,
    /// Paths matching this validator's [`protects`](EvidenceValidator::protects) that changed since
    /// the run began.
    pub protected_changes: &'a [Change],
    /// The environment for processes.
    pub env: &'a BTreeMap<String, String>,
    /// What processes that examine the work are to see in the place of these folders; nothing where they see it as it is.
    pub checkout: &'a [LayeredFolder],
    /// What is to receive the output of the check, if anything is: the tests that ran are counted by it.
    pub output: Option<&'a dyn CheckOutput>,
}

/// How old a piece of evidence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceAge {
    /// Its content was there before the run, or may have been: it proves nothing.
    BeforeRun,
    /// Last written in this iteration.
    Iteration(u64),
    /// Written since the iteration ended, as by another validator.
    New,
}

impl ValidationContext<'_> {
    /// Returns how old the content with this BLAKE3 digest (in hexadecimal) is.
    #[must_use]
    pub fn evidence_age(&self, digest: &str) -> EvidenceAge {
        match self.written_in.get(digest) {
            Some(0) => EvidenceAge::BeforeRun,
            Some(iteration) => EvidenceAge::Iteration(*iteration),
            None if self.evidence_listed => EvidenceAge::New,
            None => EvidenceAge::BeforeRun,
        }
    }

    /// Whether the content with this BLAKE3 digest proves nothing about the work as it is now: it was
    /// there before the run, or was last written before the work was last changed.
    #[must_use]
    pub fn is_stale(&self, digest: &str) -> bool {
        match self.evidence_age(digest) {
            EvidenceAge::BeforeRun => true,
            EvidenceAge::Iteration(iteration) => iteration < self.tree_since,
            EvidenceAge::New => false,
        }
    }
}

/// Names a validator for people and for the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorDescription {
    /// Its kind, as in `[[validator]] kind`.
    pub kind: String,
    /// One line: what it demands, such as `` `cargo test` exits 0 ``. Told to the agent.
    pub demands: String,
}

/// What a validator may look at before a run.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Where the agent will work: absolute, without links. May be made only when the run begins.
    pub workspace: &'a Path,
    /// The environment for processes.
    pub env: &'a BTreeMap<String, String>,
    /// Whether a path, relative to the workspace, has to be as it was when the run began.
    pub is_protected: &'a (dyn Fn(&Path) -> bool + Sync),
}

/// Something in a validator's set-up that the user should know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupProblem {
    /// The keys that lead to its cause, within the validator's table; empty for the table itself.
    #[serde(default)]
    pub key: Vec<String>,
    /// What is wrong and what to do.
    pub message: String,
    /// The validator cannot work: nothing should be started.
    #[serde(default)]
    pub is_fatal: bool,
}

/// Decides whether a claim stands.
#[async_trait]
pub trait EvidenceValidator: Send + Sync {
    /// Kind and demands. Cheap, and always the same.
    fn describe(&self) -> ValidatorDescription;

    /// Folders that hold evidence: absolute. They are no part of the workspace tree's digest, and the
    /// engine keeps track of when each content in them was first seen.
    fn evidence_dirs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Globs, relative to the workspace, of what must be as it was when the run began.
    fn protects(&self) -> Vec<String> {
        Vec::new()
    }

    /// Globs, relative to the workspace, of what would change this validator's verdict by being there,
    /// such as a file that its program would run instead of another. Those that match nothing when the
    /// run begins must match nothing until it ends; what matches them is one of the
    /// [`protected_changes`](ValidationContext::protected_changes).
    fn reserved_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Files outside of the workspace that decide its verdict, such as its program, by absolute paths: what they hold
    /// when the run begins they must hold until it ends; a difference is one of the
    /// [`protected_changes`](ValidationContext::protected_changes). Those in the workspace are left out.
    fn outside_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Paths that it goes through, absolute and as they are written, with `..`: folders, protected files and files
    /// outside of the workspace have to lead where they led when the run began; a difference is one of the
    /// [`protected_changes`](ValidationContext::protected_changes). What is no path does no harm.
    fn passed_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether any change that it makes to the workspace is its error. Otherwise new files that it leaves
    /// are artefacts, no part of the work, and what it changes has to be validated once more.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Whether it runs something, so that its verdict rests on more than what the agent wrote. One that
    /// does not cannot be asked before there is any work.
    fn runs_check(&self) -> bool {
        true
    }

    /// Whether it looks at the work by way of [`ValidationContext::checkout`]. What one that does not says is always about the
    /// workspace itself: to ask it about other work, such as a part of it, means nothing.
    fn sees_checkout(&self) -> bool {
        false
    }

    /// How often in a row it has to accept, at least 1. The protected paths are compared after each time.
    fn passes_required(&self) -> u32 {
        1
    }

    /// Whether fewer tests may run than before any agent worked. Otherwise an acceptance is a rejection where the
    /// [output](ValidationContext::output) of its check names or counts fewer.
    fn allows_fewer_tests(&self) -> bool {
        false
    }

    /// Returns who has the work reviewed by an agent, if this is what it does. It is not [asked](Self::validate) then: once all
    /// other required validators accept, the engine runs the agent, which can write nothing, and takes its answer.
    fn reviewer(&self) -> Option<&dyn Reviewer> {
        None
    }

    /// Looks, before the run, whether it could work at all.
    ///
    /// # Errors
    /// A sentence that says what is missing and what to do.
    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<(), String> {
        Ok(())
    }

    /// Finds, before the run, everything in its set-up that the user should know of: what keeps it
    /// from working at all, and what makes its verdicts worth less. Includes what
    /// [`check`](Self::check) finds.
    async fn find_setup_problems(&self, setup: Setup<'_>) -> Vec<SetupProblem> {
        match self.check(setup.env).await {
            Ok(()) => Vec::new(),
            Err(message) => vec![SetupProblem { key: Vec::new(), message, is_fatal: true }],
        }
    }

    /// Examines the claim. When it returns, every process that it started is gone; once
    /// `cancel.cancelled()` resolves it has to come to an end.
    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict;
}
