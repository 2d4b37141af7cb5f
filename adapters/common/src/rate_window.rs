//! Reports of how much of a provider's rate window is used.

use ralph_orchestrator_contract::Event;

/// Returns the event for a window that is reset at this second since the Unix epoch, if that is known.
pub(crate) fn rate_window(name: String, used: f64, resets_at: Option<u64>) -> Event {
    let resets_at_ms = resets_at.and_then(|at| at.checked_mul(1000));
    Event::RateWindow { name, used, resets_at_ms }
}

/// Writes each event on a line of its own.
#[cfg(test)]
pub(crate) fn describe(events: &[Event]) -> Vec<String> {
    let windows = events.iter().map(|event| match event {
        Event::RateWindow { name, used, resets_at_ms } => {
            format!("{name} {used:.2} {resets_at_ms:?}")
        }
        other => format!("{other:?}"),
    });
    windows.collect()
}
