//! A run that is resumed, beside the configuration as it is now.

use std::collections::BTreeSet;
use std::path::Path;

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_machine::{Limit, LimitValue};
use ralph_orchestrator_store::StoredRun;

use super::existing_run::StoredPolicy;
use super::location;
use super::prompt::PromptSource;
use super::request::RunPart;

/// Returns the limits that the command line of this start states.
pub(super) fn stated_limits(loaded: &LoadedConfig) -> BTreeSet<Limit> {
    let limits = Limit::budgets().map(|(limit, _)| limit);
    limits.filter(|limit| loaded.is_given_on_command_line(limit.key())).collect()
}

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

    /// Keeps what the run began with where this start says nothing else. Returns notes on that, and on limits that are others
    /// than they seem.
    pub(super) fn keep_beginning(
        &self,
        loaded: &mut LoadedConfig,
        part: Option<&RunPart>,
    ) -> Vec<String> {
        let task = self.keep_task(loaded);
        self.keep_limits(loaded);
        // The limits of one of several runs at once are its share, which changes by itself.
        let is_share = part.is_some_and(|part| part.is_lane);
        let changed = if is_share { Vec::new() } else { self.changed_limits(loaded) };
        let ignored = self.ignored_limits(loaded, part.is_some());
        task.into_iter().chain(changed).chain(ignored).collect()
    }

    /// Keeps the limits of a run that was begun without a file, where this start states no others.
    fn keep_limits(&self, loaded: &mut LoadedConfig) {
        let Some(frozen) = self.frozen.as_ref().filter(|_| loaded.configuration().is_none()) else {
            return;
        };
        for (limit, row) in Limit::budgets() {
            if !loaded.set_by_user(limit.key()) {
                let kept = limit.configured(&frozen.loaded.config.limits);
                row.configure(&mut loaded.config.limits, kept.map(LimitValue::amount));
            }
        }
    }

    /// Returns a note for each limit that the files of the configuration change from what it was at the last start.
    fn changed_limits(&self, loaded: &LoadedConfig) -> Vec<String> {
        let before = &self.found.state.controls.configured_limits;
        // One that a person has set by `limits` holds, whatever the configuration says.
        let set = &self.found.state.controls.limits;
        let note = |limit: Limit| {
            let (key, before) = (limit.key(), before.value(limit));
            let now = limit.configured(&loaded.config.limits);
            let is_changed =
                now != before && !loaded.is_given_outside_files(key) && set.origin(limit).is_none();
            is_changed.then(|| {
                let text = |max: Option<LimitValue>| {
                    max.map_or_else(|| "none".to_owned(), |max| max.to_string())
                };
                let origin = loaded.origin(key).unwrap_or_default();
                format!(
                    "{key} is {} now ({origin}); it was {} at the last start",
                    text(now),
                    text(before)
                )
            })
        };
        Limit::budgets().filter_map(|(limit, _)| note(limit)).collect()
    }

    /// Returns notes on limits that this start names, and that hold as `limits` has set them. A backlog's next items have
    /// those of the start all the same.
    fn ignored_limits(&self, loaded: &LoadedConfig, is_part: bool) -> Vec<String> {
        let set = &self.found.state.controls.limits;
        let is_ignored = |limit: &Limit| {
            let (key, now) = (limit.key(), limit.configured(&loaded.config.limits));
            let is_kept = loaded.is_given_on_command_line(key) && set.yields_to(*limit, now);
            set.origin(*limit).is_some() && loaded.is_given_outside_files(key) && !is_kept
        };
        let effect = if is_part { "does not hold for this item" } else { "has no effect" };
        let note = |limit: Limit| {
            format!(
                "{} of this command {effect}: the limit was set by `limits`, and `limits --clear` ends that",
                limit.key()
            )
        };
        Limit::budgets().map(|(limit, _)| limit).filter(is_ignored).map(note).collect()
    }

    /// Keeps the prompt of a run whose task was given on the command line, where now only the file's is
    /// known. Returns the note on that.
    fn keep_task(&self, loaded: &mut LoadedConfig) -> Option<String> {
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
