//! The state of all of the work of which a run is a part.

use std::borrow::Cow;

use ralph_orchestrator_driver::read_ledger;
use ralph_orchestrator_machine::{Latch, State, Stop, StopReason};
use ralph_orchestrator_store::{Layout, StoredRun};

/// Returns the state that says how all of the work stands. Where the run is the last of a backlog that is not
/// complete, that its own item is complete, or blocked, is not the end.
pub fn whole_state<'a>(layout: &Layout, found: &'a StoredRun) -> Cow<'a, State> {
    let state = Cow::Borrowed(&found.state);
    let Ok(Some(ledger)) = read_ledger(layout) else { return state };
    let last = ledger.runs.last().filter(|last| last.run == found.run);
    let is_over = last.is_some_and(|last| last.is_over || found.state.completion().is_some());
    if !is_over || matches!(ledger.stop, Some((StopReason::Completed, _))) {
        return state;
    }
    let stop = ledger.stop.map(|(reason, message)| Stop { reason, message });
    Cow::Owned(State { stop, latch: Latch::Open, ..found.state.clone() })
}
