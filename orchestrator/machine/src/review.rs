//! Reviews: an agent reads the work that the checks accept. What that uses counts to the limits of the run.

use ralph_orchestrator_contract::{Usage, Usd};

use super::input::{ReviewEnd, ReviewStart};
use super::record::Record;
use super::state::{RunningReview, State};
use super::transition::Transition;

/// Records that a review begins, before anything is spent on it.
pub(super) fn started(next: &mut Transition, start: ReviewStart) {
    if !next.state.is_between_iterations() {
        return;
    }
    let ReviewStart { validator, agent, reservation } = start;
    let (iteration, runtime_ms) = (next.state.iterations, next.runtime_ms());
    next.record(Record::ReviewStarted { iteration, validator, agent, reservation, runtime_ms });
}

/// Records what a review used, whatever becomes of the validation.
pub(super) fn ended(next: &mut Transition, end: ReviewEnd) {
    if !next.state.is_between_iterations() {
        return;
    }
    let Some(review) = &next.state.validation.review else { return };
    let ReviewEnd { validator, agent, usage, is_cost_missing } = end;
    let minimum = if is_cost_missing { review.reservation } else { Usd::ZERO };
    let cost_usd = usage.cost.unwrap_or(minimum);
    let (iteration, runtime_ms) = (next.state.iterations, next.runtime_ms());
    next.record(Record::ReviewEnded { iteration, validator, agent, usage, cost_usd, runtime_ms });
}

impl State {
    /// Applies the begin or the end of a review.
    pub(super) fn reviewed(&mut self, record: &Record) {
        match record {
            Record::ReviewStarted { validator, agent, reservation, .. } => {
                self.validation.reviews.insert(validator.clone());
                let (agent, reservation) = (agent.clone(), *reservation);
                self.validation.review = Some(RunningReview { agent, reservation });
            }
            Record::ReviewEnded { agent, usage, cost_usd, .. } => {
                self.validation.review = None;
                self.charge(agent, *usage, *cost_usd);
            }
            _ => {}
        }
    }

    /// Charges a review whose end is not known, since the orchestrator ended before it.
    pub(super) fn charge_lost_review(&mut self) {
        if let Some(RunningReview { agent, reservation }) = self.validation.review.take() {
            self.charge(&agent, Usage::default(), reservation);
        }
    }

    /// Counts what an agent used.
    pub(super) fn charge(&mut self, agent: &str, usage: Usage, cost_usd: Usd) {
        let of_agent = self.agent.used.entry(agent.to_owned()).or_default();
        of_agent.attempts = of_agent.attempts.saturating_add(1);
        of_agent.cost_usd += cost_usd;
        of_agent.tokens += usage.tokens.unwrap_or_default();
        // What is charged by a reservation counts.
        let is_uncounted = usage.cost.is_none() && cost_usd == Usd::ZERO;
        of_agent.unreported_costs += u64::from(is_uncounted);
        of_agent.unreported_tokens += u64::from(usage.tokens.is_none());
        let budget = &mut self.budget;
        budget.cost_charged += cost_usd;
        budget.cost_estimated |= usage.estimated;
        budget.cost_reported |= usage.cost.is_some();
        budget.tokens_used += usage.tokens.unwrap_or_default();
    }
}
