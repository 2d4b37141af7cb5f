//! What a killed start left running.

use std::collections::BTreeSet;

use ralph_orchestrator_core::store::OrphanCleanup;
use ralph_orchestrator_supervisor::Remains;

use crate::render::text::one_line;

/// What tells the processes of a run, in their environment.
const RUN_ID: &str = "RALPH_RUN_ID";

/// Ends what the agents of a run have left, if nobody did.
pub(crate) fn end_orphans(run: &str) -> OrphanCleanup {
    let Remains { ended, survived } = ralph_orchestrator_supervisor::end_remains(RUN_ID, run);
    let survived: Vec<String> = survived.iter().map(ToString::to_string).collect();
    let say = |names: &[String], what: &str| {
        let count = names.len();
        let names = names.iter().map(String::as_str).collect::<BTreeSet<_>>();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        (count > 0).then(|| {
            format!("{count} processes of a killed start {what}: {}", one_line(&names, 200))
        })
    };
    let notes = [say(&ended, "were left, and were ended"), say(&survived, "could not be ended")];
    OrphanCleanup { notes: notes.into_iter().flatten().collect(), survived }
}
