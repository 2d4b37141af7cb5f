//! The run that has started this process.

use std::path::Path;

use ralph_orchestrator_store::{Layout, Lock, SeriesLock, state_dirs};
use ralph_orchestrator_supervisor::ancestors;

/// Returns the process that holds one of these states and has started this one.
pub fn find_run_above(layouts: &[Layout]) -> Option<i32> {
    let above = ancestors();
    let mut pids = layouts.iter().flat_map(holders);
    pids.find(|pid| above.iter().any(|process| process.id.pid == *pid))
}

/// Returns the process that holds any run of these states and has started this one.
pub fn find_any_run_above(states: &Path) -> Option<i32> {
    let layouts = state_dirs(states).into_iter().map(|state| state.layout);
    find_run_above(&layouts.collect::<Vec<_>>())
}

/// Returns the processes that hold the run.
pub fn holders(layout: &Layout) -> Vec<i32> {
    let holders = [SeriesLock::holder(layout), Lock::holder(layout)].into_iter().flatten();
    holders.filter_map(|holder| i32::try_from(holder.pid).ok()).collect()
}
