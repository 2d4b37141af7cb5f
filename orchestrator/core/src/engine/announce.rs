//! Telling those who watch a run what happens in it.

use super::notice::Notice;
use super::session::Session;
use crate::machine::{Changes, Latch, Record, RunStarted};
use ralph_orchestrator_contract::NearMiss;

impl Session {
    pub(super) fn notice(&self, notice: &Notice) {
        self.observer.notice(&self.run, notice);
    }

    /// Warns without leaving a record.
    pub(super) fn warn_only(&self, message: &str) {
        let message = self.redactor.text(message).into_owned();
        self.notice(&Notice::Warning { iteration: self.state.iterations, message });
    }

    fn run_started(&self, started: RunStarted) -> Notice {
        Notice::RunStarted {
            agent: started.agent,
            workspace: self.workspace.clone(),
            state_dir: self.layout().root().to_owned(),
            validation_required: started.policy.validates(),
            evidence_only: started.policy.is_evidence_only(),
            max_runtime_ms: started.limits.max_runtime_ms,
            max_cost_usd: started.limits.max_cost_usd,
            validators: started.policy.validators.into_iter().map(|info| info.name).collect(),
        }
    }

    /// Iterations without progress, and how many are allowed.
    fn stagnation(&self) -> (u32, Option<u32>) {
        let max = self.state.limits.max_stagnant;
        (self.state.progress.stagnant, (max < u32::MAX).then_some(max))
    }

    fn announce_changes(&self, changes: Option<Changes>) {
        let Some(changes) = changes else { return };
        let (stagnant, max_stagnant) = self.stagnation();
        self.notice(&Notice::Changes {
            iteration: self.state.iterations,
            changes,
            stagnant,
            max_stagnant,
            claim_pending: matches!(self.state.latch, Latch::Claimed { .. }),
        });
    }

    fn run_resumed(&self, agent: String) -> Notice {
        Notice::RunResumed {
            agent,
            workspace: self.workspace.clone(),
            state_dir: self.layout().root().to_owned(),
            iterations: self.state.iterations,
            cost_usd: self.state.cost(),
            cost_reported: self.state.budget.cost_reported,
            runtime_ms: self.state.budget.runtime_ms,
            max_runtime_ms: self.state.limits.max_runtime_ms,
            max_cost_usd: self.state.limits.max_cost_usd,
        }
    }

    fn tell_near_misses(&self, near_misses: Vec<NearMiss>) {
        let iteration = self.state.iterations;
        for near_miss in near_misses {
            self.notice(&Notice::NearMiss { iteration, near_miss });
        }
    }

    /// Tells those who watch what a record says.
    pub(super) fn tell(&self, record: &Record) {
        let iteration = self.state.iterations;
        let notice = match record.clone() {
            Record::RunStarted(started) => self.run_started(started),
            Record::RunResumed { agent, .. } => self.run_resumed(agent),
            Record::IterationStarted { iteration, attempt, trigger, runtime_ms, .. } => {
                let max_iterations = self.state.limits.max_iterations;
                Notice::IterationStarted { iteration, attempt, trigger, max_iterations, runtime_ms }
            }
            Record::IterationEnded { iteration, outcome, usage, cost_usd, runtime_ms, .. } => {
                Notice::IterationFinished {
                    iteration,
                    outcome,
                    usage,
                    cost_usd,
                    total_cost_usd: self.state.budget.cost_charged,
                    max_cost_usd: self.state.limits.max_cost_usd,
                    duration_ms: runtime_ms.saturating_sub(self.began_ms),
                    agent: self.state.agent.name.clone(),
                }
            }
            Record::Claimed { claim, .. } if claim.is_automatic() => return,
            Record::Claimed { claim, .. } => Notice::Claim { iteration, claim },
            Record::Artefacts { validator, paths, .. } => {
                Notice::Artefacts { iteration, validator, paths }
            }
            Record::Observed { near_misses, changes, .. } => {
                self.announce_changes(changes);
                return self.tell_near_misses(near_misses);
            }
            Record::Validated { accepted, verdicts, reasons, .. } => {
                let (stagnant, max_stagnant) = self.stagnation();
                Notice::Verdict { iteration, accepted, verdicts, reasons, stagnant, max_stagnant }
            }
            Record::Baseline { accepted, verdicts, .. } => Notice::Baseline { accepted, verdicts },
            Record::Note { text, .. } => Notice::Note { iteration, text },
            Record::Previewed { accepted, reasons, .. } => {
                Notice::Previewed { iteration, accepted, reasons }
            }
            Record::AgentChanged { from, to, reason } => {
                Notice::AgentChanged { iteration, from, to, reason }
            }
            Record::Warning { message } => Notice::Warning { iteration, message },
            Record::Usage { usage, .. } => Notice::Usage { iteration, usage },
            Record::Clock { .. }
            | Record::WorkspaceMade { .. }
            | Record::Model { .. }
            | Record::Context { .. }
            | Record::MarkerRemoved { .. }
            | Record::Cancelling { .. }
            | Record::Completed { .. }
            | Record::Waiting { .. }
            | Record::Answered { .. }
            | Record::Stopped { .. } => return,
        };
        self.notice(&notice);
    }
}
