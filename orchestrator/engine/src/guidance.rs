//! Guidance that people send while an agent runs, on its way to that agent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_contract::Guidance;
use ralph_orchestrator_machine::Input;
use tokio::sync::Notify;

use super::error::EngineError;
use super::iteration_watch::IterationWatch;
use super::session::Session;

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
    fn offer(&self, guidance: impl Iterator<Item = Guidance>) {
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

    /// Resolves when the agent has taken guidance. Nothing is lost if the future is dropped.
    pub(super) async fn taken(&self) {
        self.shared.1.notified().await;
    }
}

impl Session {
    /// Keeps what the agent is given, as what it repeats of that is no claim. Redacted as its final message will be.
    pub(super) fn keep_sent_prompt(&mut self, prompt: &[u8]) {
        let prompt = String::from_utf8_lossy(prompt);
        self.sent_prompt = Some(self.redactor.text(&prompt).into_owned());
    }

    /// Offers the running agent what people sent and it was not given.
    pub(super) fn offer_guidance(&self, watch: &IterationWatch) {
        watch.guidance.offer(self.state.undelivered_guidance());
    }

    /// Records what the running agent has taken.
    pub(super) fn record_guidance(&mut self, watch: &IterationWatch) -> Result<(), EngineError> {
        let taken = watch.guidance.lock().taken.clone();
        if taken.is_empty() {
            return Ok(());
        }
        if let Some(sent) = &mut self.sent_prompt {
            for guidance in &taken {
                sent.push('\n');
                sent.push_str(&self.redactor.text(&guidance.text));
            }
        }
        let ids = taken.iter().map(|guidance| guidance.id.clone()).collect();
        self.feed(Input::GuidanceTaken(ids), watch)?;
        watch.guidance.lock().taken.retain(|guidance| !taken.contains(guidance));
        Ok(())
    }
}
