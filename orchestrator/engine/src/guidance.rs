//! Guidance that people send while an agent runs, on its way to that agent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_contract::Guidance;
use tokio::sync::Notify;

/// Guidance for the running agent, shared by the session, which offers it, and the agent's sink, by which the
/// adapter takes it.
#[derive(Clone, Default)]
pub(super) struct GuidanceQueue {
    shared: Arc<(Mutex<Queue>, Notify)>,
}

#[derive(Default)]
struct Queue {
    offered: Vec<Guidance>,
    /// Taken, and not recorded yet.
    taken: Vec<Guidance>,
}

impl GuidanceQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what may be taken, apart from what was taken just now.
    pub(super) fn offer(&self, guidance: impl Iterator<Item = Guidance>) {
        let mut queue = self.lock();
        let offered = guidance.filter(|guidance| !queue.taken.contains(guidance)).collect();
        queue.offered = offered;
    }

    /// Takes all that is offered, for the agent.
    pub(super) fn take(&self) -> Vec<Guidance> {
        let mut queue = self.lock();
        let taken = std::mem::take(&mut queue.offered);
        if !taken.is_empty() {
            queue.taken.extend(taken.iter().cloned());
            self.shared.1.notify_one();
        }
        taken
    }

    /// Returns what the agent has taken and is not recorded.
    pub(super) fn unrecorded(&self) -> Vec<Guidance> {
        self.lock().taken.clone()
    }

    /// Notes that this is recorded.
    pub(super) fn forget(&self, recorded: &[Guidance]) {
        self.lock().taken.retain(|guidance| !recorded.contains(guidance));
    }

    /// Resolves when the agent has taken guidance. Nothing is lost if the future is dropped.
    pub(super) async fn taken(&self) {
        self.shared.1.notified().await;
    }
}
