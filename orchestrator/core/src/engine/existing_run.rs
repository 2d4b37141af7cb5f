//! The run that a start finds: is it resumed, is it complete, or has its task changed?

use std::collections::BTreeMap;
use std::path::Path;

use super::construction::build_context;
use super::prompt::PromptSource;
use super::validation_policy::CompletionPolicy;
use crate::registry::Registry;
use crate::store::{Layout, StateError, StoredRun, read_completed_run};
use ralph_orchestrator_config::{self as config, LoadedConfig, Sources};
use ralph_orchestrator_contract::BuildContext;
use ralph_orchestrator_safe_fs::real_path;

const OTHER_TASK: &str = "the prompt changed since completion: this is a new run";
const OTHER_TEXT: &str = "the task is another one than that of the last run: this is a new run";

/// What becomes of the run that was found.
pub(super) enum ExistingRun {
    /// It is complete, and its task is still the same.
    Complete(Box<StoredRun>),
    /// It is resumed.
    Resumes(Box<StoredRun>),
    /// A new one begins; why, for people.
    OtherTask(String),
}

/// The configuration that a start is given, and what builds its parts.
#[derive(Clone, Copy)]
pub(super) struct RunSetup<'a> {
    pub(super) loaded: &'a LoadedConfig,
    pub(super) layout: &'a Layout,
    pub(super) registry: &'a Registry,
    pub(super) context: &'a BuildContext,
    /// The orchestrator's own environment.
    pub(super) vars: &'a BTreeMap<String, String>,
}

/// The configuration that was stored when a run began, and the policy built from it.
pub(super) struct StoredPolicy {
    pub(super) loaded: LoadedConfig,
    pub(super) policy: CompletionPolicy,
}

impl RunSetup<'_> {
    /// Returns the completed run of this workspace if its task is still the same. A damaged state
    /// counts as none here; it is reported by [`open`](super::open()).
    pub(super) async fn find_completed(self) -> Option<StoredRun> {
        let found = read_completed_run(self.layout).ok()??;
        let workspace = real_path(&self.loaded.config.run.workspace);
        verify_workspace(&found, &workspace, self.layout).ok()?;
        self.is_same_task(&found).await.then_some(found)
    }

    /// Decides what becomes of a run, given this configuration.
    pub(super) async fn classify(self, found: StoredRun) -> ExistingRun {
        if found.state.completion().is_some() {
            return if self.is_same_task(&found).await {
                ExistingRun::Complete(Box::new(found))
            } else {
                ExistingRun::OtherTask(OTHER_TASK.to_owned())
            };
        }
        if self.is_other_text(&found) {
            return ExistingRun::OtherTask(format!(
                "{OTHER_TEXT}; run {} is kept as it is",
                found.run
            ));
        }
        ExistingRun::Resumes(Box::new(found))
    }

    /// Builds the policy that was frozen when the run began. `None` if its configuration is gone or
    /// cannot be built any more.
    pub(super) async fn load_frozen_policy(self, run: &str) -> Option<StoredPolicy> {
        let loaded = load_frozen_config(self.layout, run)?;
        // What validators find in their PATH is as frozen as they are.
        let path = build_context(&loaded, self.vars).path;
        let context = BuildContext { path, ..self.context.clone() };
        let policy = CompletionPolicy::build(&loaded, self.registry, &context).await.ok()?;
        Some(StoredPolicy { loaded, policy })
    }

    /// Returns whether the prompt still asks for what was completed. In doubt it does.
    async fn is_same_task(self, found: &StoredRun) -> bool {
        let task = found.state.completion().map(|completion| completion.task.as_str());
        let Some(task) = task.filter(|task| !task.is_empty()) else { return true };
        // The task is compared as the detectors of that run saw it, whatever is configured now.
        let frozen = self.load_frozen_policy(&found.run).await;
        let prompt =
            PromptSource::recorded(&self.loaded.config.run, &found.state.identities).read_text();
        match (frozen, prompt.filter(|text| !text.trim().is_empty())) {
            (Some(frozen), Some(prompt)) => frozen.policy.task_digest(&prompt).await == task,
            _ => true,
        }
    }

    /// Returns whether a run without a configuration file began with another text of its task: then it
    /// is another run. Whoever edits a file may correct the prompt of a run that is resumed.
    fn is_other_text(self, found: &StoredRun) -> bool {
        if self.loaded.configuration().is_some() {
            return false;
        }
        let frozen = load_frozen_config(self.layout, &found.run);
        let before = frozen.and_then(|frozen| frozen.config.run.prompt_text);
        match (&self.loaded.config.run.prompt_text, before) {
            (Some(now), Some(before)) => now.trim() != before.trim(),
            _ => false,
        }
    }
}

/// Refuses the journal of another workspace.
pub(super) fn verify_workspace(
    found: &StoredRun,
    workspace: &Path,
    layout: &Layout,
) -> Result<(), StateError> {
    let started = found.state.started.as_ref().map(|started| started.workspace.as_str());
    if started.is_some_and(|started| Path::new(started) != workspace) {
        let problem = format!(
            "belongs to the workspace {}, not to {}; begin a new run with `run --restart`",
            started.unwrap_or_default(),
            workspace.display()
        );
        return Err(StateError::Damaged { path: layout.root().to_owned(), problem });
    }
    Ok(())
}

fn load_frozen_config(layout: &Layout, run: &str) -> Option<LoadedConfig> {
    let sources = Sources { file: layout.config(run), ..Sources::default() };
    config::load(&sources).ok()
}
