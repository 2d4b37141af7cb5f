//! Guards what the agent's code must not change, over every phase in which it may run.
//!
//! An iteration is one such phase. Checks, the setup, and the hooks and filters of git execute what the agent wrote as
//! well, so what is changed while they run counts as the agent's. Nobody can tell a person's edit from theirs meanwhile.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::Config;
use ralph_orchestrator_machine::Effect;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_workspace::{Prompt, PromptError, PromptPlace};

use super::prompt::PromptSource;

/// A phase of a run in which code runs that the agent may have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardedPhase {
    /// The agent itself works.
    Iteration,
    /// The checks run, on a claim or before any work.
    Checks,
    /// The setup runs.
    Setup,
    /// Git runs its hooks and filters.
    Git,
}

/// Guards what belongs to whoever drives the run, such as a backlog.
pub trait PhaseGuard: Send + Sync {
    /// Stores the version before a phase. Returns warnings for people.
    fn begin_phase(&self, run: &str, iteration: u64, phase: GuardedPhase) -> Vec<String>;

    /// Takes back what was changed since and may not be. Returns warnings for people.
    fn end_phase(&self) -> Vec<String>;
}

impl GuardedPhase {
    /// Returns the phase that an effect is; `None` if no code of the agent runs in it.
    pub(super) const fn of(effect: &Effect) -> Option<Self> {
        match effect {
            Effect::Start(_) => Some(Self::Iteration),
            Effect::CheckBaseline | Effect::Validate(_) | Effect::Explain => Some(Self::Checks),
            Effect::Save(order) if order.commit.is_some() => Some(Self::Git),
            _ => None,
        }
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::Iteration => "while the agent worked",
            Self::Checks => "while the checks ran",
            Self::Setup => "while the setup ran",
            Self::Git => "while git ran its hooks and filters",
        }
    }
}

/// A phase that has begun, with the prompts as they were.
pub(super) struct OpenPhase {
    pub(super) phase: GuardedPhase,
    pub(super) prompts: Vec<HeldPrompt>,
}

/// A prompt as it was before a phase.
pub(super) struct HeldPrompt {
    pub(super) place: PromptPlace,
    /// `None` if there was no such file.
    before: Option<Prompt>,
}

impl HeldPrompt {
    /// Returns the file as it was.
    pub(super) fn new(place: &PromptPlace, before: Option<Prompt>) -> Self {
        Self { place: place.clone(), before }
    }

    /// Returns the place, and what was there.
    pub(super) fn into_parts(self) -> (PromptPlace, Option<Prompt>) {
        (self.place, self.before)
    }

    /// Returns the file as it is; `None` if nobody can say what it is.
    pub(super) fn take(place: &PromptPlace) -> Option<Self> {
        let before = read_if_there(place).ok()?;
        Some(Self { place: place.clone(), before })
    }

    /// Restores it if it was changed. Returns what it was changed to, if it was.
    pub(super) fn restore(&self, workspace: &Path) -> Result<Option<Vec<u8>>, PromptError> {
        let now = read_if_there(&self.place);
        match (&now, &self.before) {
            (Ok(None), None) => return Ok(None),
            (Ok(Some(now)), Some(before)) if now.bytes == before.bytes => return Ok(None),
            (_, Some(before)) => self.place.restore(&before.bytes, workspace)?,
            (_, None) => self.place.remove()?,
        }
        Ok(Some(now.ok().flatten().map(|now| now.bytes).unwrap_or_default()))
    }

    /// Says that it was restored.
    pub(super) fn describe(&self, phase: GuardedPhase) -> String {
        let path = self.place.configured().display();
        let done = match self.before {
            Some(_) => "was changed",
            None => "was created",
        };
        format!(
            "{path} {done} {}, so by code that the agent may have written; it was put back as it was",
            phase.describe()
        )
    }
}

/// Reads a file; `None` if there is none, which needs no wait as where one is replaced.
fn read_if_there(place: &PromptPlace) -> Result<Option<Prompt>, PromptError> {
    let found = std::fs::symlink_metadata(place.file());
    if found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    match place.read() {
        Ok(prompt) => Ok(Some(prompt)),
        Err(PromptError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The files that checks must not change, as they were before checks that belong to no run.
pub struct HeldFiles {
    files: Vec<HeldPrompt>,
    workspace: PathBuf,
}

impl HeldFiles {
    /// Reads the prompts, the files of `[memory]`, and the file of the backlog if it can be restored by itself.
    #[must_use]
    pub fn hold(config: &Config, backlog: Option<&Path>) -> Self {
        let workspace = real_path(&config.run.workspace);
        let mut prompts = PromptSource::find(config);
        let mut files = prompts.hold();
        let memory = [&config.memory.progress, &config.memory.errors].into_iter().flatten();
        let others = backlog.into_iter().chain(memory.map(PathBuf::as_path));
        let others = others.map(|path| PromptPlace::locate(&workspace.join(path)));
        files.extend(others.filter_map(|place| HeldPrompt::take(&place)));
        Self { files, workspace }
    }

    /// Restores what was changed. Returns what there is to say about that.
    #[must_use]
    pub fn restore(&self) -> Vec<String> {
        let restore = |held: &HeldPrompt| match held.restore(&self.workspace) {
            Ok(None) => None,
            Ok(Some(_)) => Some(held.describe(GuardedPhase::Checks)),
            Err(error) => Some(error.to_string()),
        };
        self.files.iter().filter_map(restore).collect()
    }
}

impl PromptSource {
    /// Returns all prompt files as they are. From now on a task that may be edited is the one that is there.
    pub(super) fn hold(&mut self) -> Vec<HeldPrompt> {
        let task = self.place().and_then(HeldPrompt::take);
        if let Some(prompt) = task.as_ref().and_then(|task| task.before.clone()) {
            self.accept(prompt);
        }
        task.into_iter().chain(self.role_places().filter_map(HeldPrompt::take)).collect()
    }
}
