//! A run that is resumed, beside the configuration as it is now.

use std::path::Path;
use std::time::Duration;

use ralph_orchestrator_config::{Limits, LoadedConfig, duration_text};
use ralph_orchestrator_machine::{Limit, LimitValue};
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
    /// Returns notes on a prompt that is another one than when it began.
    pub(super) async fn prompt_notes(
        run: Option<&Self>,
        prompt: &PromptSource,
        workspace: &Path,
    ) -> Vec<String> {
        let Some(run) = run else { return Vec::new() };
        let (path, task) = (run.other_prompt(prompt, workspace), run.other_task(prompt).await);
        path.into_iter().chain(task).collect()
    }

    /// Returns a note if the configuration names another prompt than when it began, wherever its workspace is now.
    fn other_prompt(&self, prompt: &PromptSource, workspace: &Path) -> Option<String> {
        let before = Path::new(&self.found.state.started.as_ref()?.workspace);
        location::other_prompt(&self.found.state.identities, prompt, before, workspace)
    }

    /// Returns a note if the prompt asks for something else than when it began, as on another branch; what detectors look for
    /// in it does not count. The run goes on with the prompt as it is now.
    async fn other_task(&self, prompt: &PromptSource) -> Option<String> {
        let before = &self.found.state.started.as_ref()?.task;
        let (frozen, path, text) = (self.frozen.as_ref()?, prompt.path()?, prompt.read_text()?);
        let is_other = !before.is_empty() && *before != frozen.policy.task_digest(&text).await;
        is_other.then(|| {
            format!(
                "{} asks for something else than when run {} began, which goes on with it as it is now; \
                 `run --restart` begins a run of its own",
                path.display(),
                self.found.run
            )
        })
    }

    /// Returns notes on limits that are others than they seem.
    pub(super) fn limit_notes(&self, loaded: &LoadedConfig) -> Vec<String> {
        [self.raised_limits(loaded), self.ignored_limits(loaded)].concat()
    }

    /// Returns a note for each limit that the files of the configuration raise above what it was at the last start.
    fn raised_limits(&self, loaded: &LoadedConfig) -> Vec<String> {
        let before = &self.found.state.controls.configured_limits;
        let note = |now: Bound| {
            let limit = Limit::ALL.into_iter().find(|limit| limit.key() == now.key)?;
            let before = before.value(limit)?;
            let is_higher = now.most.is_none_or(|now| now > u128::from(before.amount()));
            let is_raised =
                is_higher && !loaded.is_given_outside_files(now.key) && !self.is_set(now.key);
            is_raised.then(|| {
                let (key, text) = (now.key, now.text);
                let origin = loaded.origin(key).unwrap_or_default();
                format!(
                    "{key} is {text} now ({origin}); it was {} at the last start",
                    value_text(before)
                )
            })
        };
        bounds(&loaded.config.limits).into_iter().filter_map(note).collect()
    }

    /// Whether a person has set this limit by `limits`: then that one holds, whatever the configuration says.
    fn is_set(&self, key: &str) -> bool {
        let set = &self.found.state.controls.limits;
        Limit::ALL.iter().any(|limit| limit.key() == key && set.origin(*limit).is_some())
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
        let all = [Limit::Iterations, Limit::Runtime, Limit::Cost, Limit::Tokens];
        all.into_iter().filter(is_ignored).map(note).collect()
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

/// A limit on what a run may use.
struct Bound {
    key: &'static str,
    /// `None` if it is off.
    most: Option<u128>,
    text: String,
}

fn value_text(value: LimitValue) -> String {
    match value {
        LimitValue::Count(count) => count.to_string(),
        LimitValue::Duration(ms) => duration_text(Duration::from_millis(ms)),
        LimitValue::Money(usd) => usd.to_string(),
    }
}

fn bounds(limits: &Limits) -> [Bound; 4] {
    let text = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let count = |key, most: Option<u64>| Bound {
        key,
        most: most.map(u128::from),
        text: text(most.map(|most| most.to_string())),
    };
    let (runtime, cost) = (limits.max_runtime, limits.max_cost_usd);
    [
        count("limits.max_iterations", limits.max_iterations),
        count("limits.max_tokens", limits.max_tokens),
        Bound {
            key: "limits.max_runtime",
            most: runtime.map(|most| most.as_millis()),
            text: text(runtime.map(duration_text)),
        },
        Bound {
            key: "limits.max_cost_usd",
            most: cost.map(|most| u128::from(most.nanos())),
            text: text(cost.map(|most| most.to_string())),
        },
    ]
}
