//! The kept transcript of an iteration.

use ralph_orchestrator_core::store::Layout;

/// The events of an iteration. Without a file nothing was printed.
pub(crate) fn read(layout: &Layout, run: &str, number: u64) -> std::io::Result<Vec<u8>> {
    match std::fs::read(layout.iteration(run, number).join("transcript.jsonl")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}
