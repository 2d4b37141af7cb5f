//! Orphans: processes of agents that a killed start left running.

use std::collections::BTreeSet;

use ralph_orchestrator_store::OrphanReport;
use ralph_orchestrator_supervisor::OrphanCleanup;
use ralph_orchestrator_text::one_line;

/// The variable that marks the processes of a run, so that those that a killed start left are found.
pub const RUN_ID: &str = "RALPH_RUN_ID";

/// Ends the processes that the agents of a run have left. Returns notes for the user.
pub fn end_orphans(run: &str) -> OrphanReport {
    let OrphanCleanup { ended, survived } = ralph_orchestrator_supervisor::end_orphans(RUN_ID, run);
    let survived: Vec<String> = survived.iter().map(ToString::to_string).collect();
    let note = |names: &[String], what: &str| {
        let number = if names.len() == 1 {
            "1 leftover process".to_owned()
        } else {
            format!("{} leftover processes", names.len())
        };
        let distinct = names.iter().map(String::as_str).collect::<BTreeSet<_>>();
        let distinct = distinct.into_iter().collect::<Vec<_>>().join(", ");
        (!names.is_empty())
            .then(|| format!("{what} {number} of an earlier start: {}", one_line(&distinct, 200)))
    };
    let notes = [note(&ended, "killed"), note(&survived, "could not kill")];
    OrphanReport { notes: notes.into_iter().flatten().collect(), survived }
}
