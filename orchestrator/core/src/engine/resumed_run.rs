//! A run that is resumed, beside the configuration as it is now.

use super::existing_run::StoredPolicy;
use crate::store::StoredRun;
use ralph_orchestrator_config::LoadedConfig;

/// A run that is resumed, and the policy that it began with, if that can still be built.
pub(super) struct ResumedRun {
    pub(super) found: StoredRun,
    pub(super) frozen: Option<StoredPolicy>,
}

impl ResumedRun {
    /// Returns a note if the plan of the task allows more iterations than when the run began: the agent can edit it.
    pub(super) fn raised_limit(&self, loaded: &LoadedConfig) -> Option<String> {
        const KEY: &str = "limits.max_iterations";
        let most = |loaded: &LoadedConfig| loaded.config.limits.max_iterations.unwrap_or(u64::MAX);
        let before = &self.frozen.as_ref()?.loaded;
        let by_plan = loaded.task().is_some() && !loaded.is_given_outside_files(KEY);
        (by_plan && most(loaded) > most(before)).then(|| {
            format!(
                "{KEY} is {} now ({}); the run began with {}",
                most_text(loaded),
                loaded.origin(KEY).unwrap_or_default(),
                most_text(before)
            )
        })
    }

    /// Keeps the prompt of a run whose task was given on the command line, where now only the file's is
    /// known. Returns the note on that.
    pub(super) fn keep_task(&self, loaded: &mut LoadedConfig) -> Option<String> {
        let text = &self.frozen.as_ref()?.loaded.config.run.prompt_text;
        let run = &mut loaded.config.run;
        if run.prompt_text.is_some() || text.is_none() {
            return None;
        }
        run.prompt_text.clone_from(text);
        Some(format!(
            "run {} began with a task on the command line and goes on with that; `run --restart` begins \
             the one of the configuration",
            self.found.run
        ))
    }
}

fn most_text(loaded: &LoadedConfig) -> String {
    loaded.config.limits.max_iterations.map_or_else(|| "none".to_owned(), |most| most.to_string())
}
