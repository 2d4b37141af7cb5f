//! A complete run whose end was not followed up when the orchestrator was killed: the next start runs what is due.

use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_contract::NeverCancelled;
use ralph_orchestrator_machine::{Effect, HookEnd, Input, Now, StopReason, step};
use ralph_orchestrator_store::{Disk, Layout, StateError, Store, StoredRun};

use super::clock;
use super::error::EngineError;
use super::hooks::{HookCall, Hooks, describe_event, hook_id, run_commands};
use super::redact::Redactor;
use super::request::Request;

/// What a complete run is followed up with.
pub(super) struct FollowUp {
    hooks: Arc<dyn Hooks>,
    disk: Disk,
    redactor: Redactor,
    workspace: PathBuf,
    item: Option<String>,
}

impl FollowUp {
    /// Returns it, if the user has commands and this start is to do something.
    pub(super) fn from_request(request: &Request<'_>) -> Option<Self> {
        let hooks = request.registry.hooks().filter(|_| !request.dry_run)?;
        let config = &request.loaded.config;
        Some(Self {
            hooks: Arc::clone(hooks),
            disk: request.disk.clone(),
            redactor: Redactor::new(&config.env, &request.vars),
            workspace: config.run.workspace.clone(),
            item: request.part.as_ref().and_then(|part| part.item.clone()),
        })
    }

    /// Runs what is due of a complete run, and records it. Whoever holds the state does that itself.
    pub(super) async fn perform(
        &self,
        found: Box<StoredRun>,
        layout: &Layout,
    ) -> Result<Box<StoredRun>, EngineError> {
        let reason = StopReason::Completed;
        let finish = Effect::Finish { reason, message: String::new() };
        if found.state.due_hook(&finish).is_none() {
            return Ok(found);
        }
        let Ok(mut store) = Store::open_with_disk(self.disk.clone(), layout.clone()) else {
            return Ok(found);
        };
        let again = store.resume()?.filter(|again| again.run == found.run);
        let Some(StoredRun { run, mut state, .. }) = again else { return Ok(found) };
        let folder = layout.run(&run);
        self.hooks.begin(&folder).map_err(StateError::io("write", &folder))?;
        while let Some(due) = state.due_hook(&finish) {
            let id = hook_id(&run, &state, due.event);
            let input = describe_event((&run, &self.workspace, self.item.as_deref()), &state, &due);
            let (event, run) = (due.event, run.as_str());
            let call = HookCall { event, index: 0, run, folder: &folder, id: &id, input: &input };
            let commands = run_commands(&*self.hooks, call, &NeverCancelled).await;
            let end = HookEnd { event, commands, interrupted: false, out_of_time: false };
            let input = Input::HookFinished(end, Box::new(finish.clone()));
            let now = Now { runtime_ms: state.budget.runtime_ms, unix_ms: clock::unix_ms() };
            let (next, effects) = step(state, self.redactor.input(input), now);
            for effect in effects {
                if let Effect::Append(record) = effect {
                    store.append(&record)?;
                }
            }
            state = next;
        }
        Ok(Box::new(StoredRun { state, ..*found }))
    }
}
