//! What the journal says about an iteration.

use ralph_orchestrator_contract::{Usage, Usd};
use ralph_orchestrator_machine::{IterationOutcome, Record};
use ralph_orchestrator_store::JournalEntry;

use crate::trajectory::usage::add_usage;

/// What the journal says about an iteration.
#[derive(Default)]
pub(super) struct IterationFacts {
    pub(super) agent: String,
    pub(super) started: Option<String>,
    pub(super) attempts: u32,
    pub(super) outcome: Option<IterationOutcome>,
    pub(super) usage: Usage,
    pub(super) cost: Usd,
}

impl IterationFacts {
    pub(super) fn from_entries(entries: &[JournalEntry], number: u64) -> Self {
        let mut facts = Self::default();
        let mut agent = String::new();
        for entry in entries {
            match &entry.record {
                Record::RunStarted(started) => agent.clone_from(&started.agent),
                Record::RunResumed { agent: now, .. } | Record::AgentChanged { to: now, .. } => {
                    agent.clone_from(now);
                }
                Record::IterationStarted { iteration, attempt, .. } if *iteration == number => {
                    facts.agent.clone_from(&agent);
                    facts.attempts = *attempt;
                    facts.started.get_or_insert(entry.time.to_string());
                }
                Record::IterationEnded { iteration, outcome, usage, cost_usd, .. }
                    if *iteration == number =>
                {
                    facts.outcome = Some(outcome.clone());
                    facts.usage = add_usage(facts.usage, *usage);
                    facts.cost += *cost_usd;
                }
                _ => {}
            }
        }
        facts
    }
}
