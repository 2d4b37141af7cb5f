//! The end of the work on a backlog, followed up by the user's commands: as often as a crash needs, and recorded.

use ralph_orchestrator_contract::{CancelReason, CancelSignal};
use ralph_orchestrator_engine::StopRequests;
use ralph_orchestrator_engine::hooks::{HookCall, run_commands};
use ralph_orchestrator_machine::{HookEnd, HookEvent, StopReason};
use ralph_orchestrator_store::StateError;
use serde_json::json;

use crate::driver::BacklogDriver;
use crate::error::DriverError;
use crate::executor::Executor;
use crate::record::SeriesRecord;

/// The version of what commands are told.
const VERSION: u32 = 1;

/// Requests to stop beyond those that there are.
struct FurtherRequests(StopRequests, u32);

#[async_trait::async_trait]
impl CancelSignal for FurtherRequests {
    async fn cancelled(&self) -> CancelReason {
        let mut requests = self.0.clone();
        if requests.wait_for(|request| request.times > self.1).await.is_err() {
            // Nobody is left who could ask.
            std::future::pending::<()>().await;
        }
        CancelReason::Signal
    }
}

impl<E: Executor> BacklogDriver<E> {
    /// Returns the events of this end for which there are commands.
    pub(crate) fn end_hooks(&self, reason: StopReason) -> Vec<HookEvent> {
        let of_end = match reason {
            StopReason::Completed => HookEvent::AfterCompletion,
            _ => HookEvent::AfterStop,
        };
        let Some(hooks) = &self.setup.hooks else { return Vec::new() };
        let events = [of_end, HookEvent::AfterRun].into_iter();
        events.filter(|event| !hooks.commands(*event).is_empty()).collect()
    }

    /// Runs the commands for the last end of the work that have not ended yet.
    pub(crate) async fn follow_up(&self) -> Result<(), DriverError> {
        let Some(hooks) = self.setup.hooks.clone().filter(|_| !self.setup.dry) else {
            return Ok(());
        };
        loop {
            let ledger = self.work.state().ledger.clone();
            let (Some(event), Some((reason, message)), Some(last)) =
                (ledger.due_hooks.first().copied(), ledger.stop, ledger.runs.last())
            else {
                return Ok(());
            };
            let folder = last.layout(&self.setup.layout).run(&last.run);
            hooks.begin(&folder).map_err(StateError::io("write", &folder))?;
            let id = format!("{}:backlog:{}", last.run, ledger.hooks_ended.saturating_add(1));
            let usage = self.work.state().ledger.used_beside(None);
            let input = json!({
                "version": VERSION,
                "hook": event.word(),
                "id": id,
                "run": last.run,
                "workspace": self.setup.workspace.display().to_string(),
                "stop_reason": reason,
                "message": message,
                "iterations": usage.iterations,
                "cost_usd": usage.cost_usd,
                "tokens": usage.tokens.total(),
                "runtime_ms": usage.runtime_ms,
            });
            let run = last.run.as_str();
            let call = HookCall { event, index: 0, run, folder: &folder, id: &id, input: &input };
            let times = self.setup.requests.borrow().times;
            let cancel = FurtherRequests(self.setup.requests.clone(), times);
            let commands = run_commands(&*hooks, call, &cancel).await;
            let commands = self.setup.redactor.redact(commands);
            let end = HookEnd { event, commands, interrupted: false, out_of_time: false };
            if let Some(problem) = end.problem() {
                self.warn(format!("{}: {problem}", event.key()));
            }
            let commands = end.commands;
            self.work.state().append(&SeriesRecord::HookFinished { event, commands })?;
        }
    }
}
