//! What the runs of one start know together of the agents' providers: what one of them was refused, no other asks for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_machine::{Input, Record, Refusal, State};

/// What is known of the providers, by the names of the agents that use them. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ProviderLimits(Arc<Mutex<BTreeMap<String, Refusal>>>);

/// The same as one run sees it.
#[derive(Default)]
pub(super) struct RunProviders {
    shared: ProviderLimits,
    /// Until when this run has waited or will, by itself or for others, whatever clocks say.
    heeded: BTreeMap<String, u64>,
}

impl RunProviders {
    pub(super) fn new(shared: ProviderLimits) -> Self {
        Self { shared, heeded: BTreeMap::new() }
    }

    /// Takes what a record of this run says of the provider of its agent.
    pub(super) fn learn(&mut self, state: &State, record: &Record, now_ms: u64) {
        let found = match record {
            Record::Waiting { until_ms, reason, .. } => Some((*until_ms, reason.clone())),
            Record::RateWindow(_) => state.used_up_wait(now_ms),
            Record::IterationEnded { outcome, .. } => {
                let message = outcome.deferral().map(ToOwned::to_owned);
                outcome.retry_at_ms().zip(message)
            }
            _ => None,
        };
        let Some((until_ms, reason)) = found.filter(|(until_ms, _)| *until_ms > now_ms) else {
            return;
        };
        let agent = &state.agent.name;
        self.heed(agent, until_ms);
        let mut known = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_later = known.get(agent).is_none_or(|known| known.until_ms < until_ms);
        if is_later {
            known.insert(agent.clone(), Refusal { until_ms, reason });
        }
    }

    fn heed(&mut self, agent: &str, until_ms: u64) {
        let heeded = self.heeded.entry(agent.to_owned()).or_default();
        *heeded = until_ms.max(*heeded);
    }

    /// Returns what another run was refused and this one has not waited for.
    pub(super) fn find_refusal(&mut self, agent: &str, now_ms: u64) -> Option<Input> {
        let known =
            self.shared.0.lock().unwrap_or_else(PoisonError::into_inner).get(agent).cloned();
        let heeded = self.heeded.get(agent).copied().unwrap_or_default();
        let found = known.filter(|known| known.until_ms > now_ms && known.until_ms > heeded)?;
        self.heed(agent, found.until_ms);
        Some(Input::ProviderRefused(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: &str = "429";

    fn with_agent(name: &str) -> State {
        let mut state = State::default();
        state.agent.name = name.to_owned();
        state
    }

    fn waiting(until_ms: u64) -> Record {
        Record::Waiting { until_ms, reason: REASON.to_owned(), wait_ms: 0 }
    }

    #[test]
    fn what_one_run_was_refused_another_waits_for_once() {
        let shared = ProviderLimits::default();
        let [mut one, mut other] = [(); 2].map(|()| RunProviders::new(shared.clone()));
        one.learn(&with_agent("claude"), &waiting(1000), 0);
        assert_eq!(one.find_refusal("claude", 0), None, "it waits by itself");
        assert_eq!(other.find_refusal("codex", 0), None);
        let refused = Refusal { reason: REASON.to_owned(), until_ms: 1000 };
        let refused = Input::ProviderRefused(refused);
        assert_eq!(other.find_refusal("claude", 0), Some(refused));
        assert_eq!(other.find_refusal("claude", 0), None, "whatever the clock says after the wait");
        one.learn(&with_agent("claude"), &waiting(500), 0);
        assert_eq!(other.find_refusal("claude", 0), None, "it is no later");
        one.learn(&with_agent("claude"), &waiting(2000), 0);
        assert!(other.find_refusal("claude", 1999).is_some());
        assert_eq!(RunProviders::new(shared).find_refusal("claude", 2000), None, "it is over");
    }
}
