//! A run as it was read.

use jiff::Timestamp;
use ralph_orchestrator_store::{Holder, Layout, StoredRun};

/// A run as it was read.
pub struct SelectedRun {
    /// The state directory.
    pub layout: Layout,
    /// What was read of it.
    pub found: StoredRun,
    /// The process that works on it.
    pub holder: Option<Holder>,
    /// When its runtime was last recorded.
    measured: Option<Timestamp>,
}

impl SelectedRun {
    /// Returns a run as it was read, with the time at which its runtime was last recorded.
    pub const fn new(
        layout: Layout,
        found: StoredRun,
        holder: Option<Holder>,
        measured: Option<Timestamp>,
    ) -> Self {
        Self { layout, found, holder, measured }
    }

    /// Whether a process works on it.
    pub const fn is_running(&self) -> bool {
        self.holder.is_some()
    }

    /// Returns the runtime until now: that of a run that goes on grows between its records.
    pub fn runtime_ms(&self) -> u64 {
        let recorded = self.found.state.budget.runtime_ms;
        let Some(holder) = &self.holder else { return recorded };
        let state = &self.found.state;
        let is_paused = state.controls.pause.as_ref().is_some_and(|pause| pause.in_effect);
        // A wait for the provider is no runtime either.
        if is_paused || state.waiting.is_some() {
            return recorded;
        }
        // Between two starts no time passes.
        let since = self.measured.max(holder.started);
        let passed = since.map_or(0, |since| Timestamp::now().duration_since(since).as_millis());
        recorded.saturating_add(u64::try_from(passed).unwrap_or(0))
    }
}
