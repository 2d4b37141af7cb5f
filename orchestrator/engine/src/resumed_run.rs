//! A run that is resumed, beside the configuration as it is now.

use std::path::Path;

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_machine::Limit;
use ralph_orchestrator_store::StoredRun;

use super::existing_run::StoredPolicy;
use super::location;
use super::prompt::PromptSource;

/// A run that is resumed, and the policy that it began with, if that can still be built.
pub(super) struct ResumedRun {
    pub(super) found: StoredRun,
    pub(super) frozen: Option<StoredPolicy>,
}

impl ResumedRun {
    /// Returns a note if the configuration names another prompt than when it began, wherever its workspace is now.
    pub(super) fn other_prompt(&self, prompt: &PromptSource, workspace: &Path) -> Option<String> {
        let before = Path::new(&self.found.state.started.as_ref()?.workspace);
        location::other_prompt(&self.found.state.identities, prompt, before, workspace)
    }

    /// Returns notes on limits that are others than they seem.
    pub(super) fn limit_notes(&self, loaded: &LoadedConfig) -> Vec<String> {
        [self.raised_limits(loaded), self.ignored_limits(loaded)].concat()
    }

    /// Returns a note for each limit that the files of the configuration raise above what it was at the last start.
    fn raised_limits(&self, loaded: &LoadedConfig) -> Vec<String> {
        let before = &self.found.state.controls.configured_limits;
        // One that a person has set by `limits` holds, whatever the configuration says.
        let set = &self.found.state.controls.limits;
        let note = |limit: Limit| {
            let (key, before) = (limit.key(), before.value(limit)?);
            let now = limit.configured(&loaded.config.limits);
            let is_raised = now.is_none_or(|now| now.amount() > before.amount())
                && !loaded.is_given_outside_files(key)
                && set.origin(limit).is_none();
            is_raised.then(|| {
                let now = now.map_or_else(|| "none".to_owned(), |now| now.to_string());
                let origin = loaded.origin(key).unwrap_or_default();
                format!("{key} is {now} now ({origin}); it was {before} at the last start")
            })
        };
        Limit::budgets().filter_map(|(limit, _)| note(limit)).collect()
    }

    /// Returns notes on limits that this start names, and that were set while the run was active: those hold.
    fn ignored_limits(&self, loaded: &LoadedConfig) -> Vec<String> {
        let set = &self.found.state.controls.limits;
        let is_ignored = |limit: &Limit| {
            set.origin(*limit).is_some() && loaded.is_given_outside_files(limit.key())
        };
        let note = |limit: Limit| {
            format!(
                "{} of this command has no effect: the limit was set by `limits`, and `limits --clear` ends that",
                limit.key()
            )
        };
        Limit::budgets().map(|(limit, _)| limit).filter(is_ignored).map(note).collect()
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
