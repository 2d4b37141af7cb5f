//! How each record changes the state.

use super::limits::{Limits, StopReason};
use super::record::{AfterRejection, Outcome, Record, RunStarted};
use super::state::{
    AgentChange, Completion, Context, Current, LastError, Latch, Note, Rejection, State, Stop, Wait,
};
use crate::contract::{CancelReason, Claim, ClaimKind, ClaimSource, Usage, Usd};

/// Most notes that the next iteration is told.
const MOST_TOLD: usize = 16;

impl State {
    /// The fold of a journal.
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut state = Self::default();
        for record in records {
            state.apply(record);
        }
        state
    }

    /// Takes one fact in.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::RunStarted(started) => self.run_started(started),
            Record::RunResumed { agent, fallback, limits, once } => {
                agent.clone_into(&mut self.agent);
                fallback.clone_into(&mut self.fallback);
                self.run_resumed(limits.clone(), *once);
            }
            Record::Tick { runtime_ms } => self.runtime(*runtime_ms),
            Record::IterationStarted { iteration, attempt, reservation, runtime_ms, .. } => {
                self.runtime(*runtime_ms);
                self.iteration_started(*iteration, *attempt, *reservation);
            }
            Record::Usage { usage, runtime_ms } => {
                self.runtime(*runtime_ms);
                if let Some(current) = &mut self.current {
                    current.usage = current.usage.max(*usage);
                }
            }
            Record::Context { used, window } => {
                self.context = Some(Context { used: *used, window: *window });
            }
            Record::Model { model, .. } => self.model = Some(model.clone()),
            Record::Note { iteration, text } => self.noted(*iteration, text),
            // It decides nothing, so it changes nothing.
            Record::Judged { runtime_ms, .. } => self.runtime(*runtime_ms),
            Record::AgentChanged { from, to, reason } => self.agent_changed(from, to, reason),
            Record::Claimed { iteration, claim } => self.claimed(*iteration, claim),
            Record::Withdrawn { detector } => {
                self.standing.remove(detector);
            }
            Record::Cancelling { reason } => self.cancelling(*reason),
            Record::IterationEnded { outcome, usage, cost_usd, says_done, runtime_ms, .. } => {
                self.runtime(*runtime_ms);
                self.iteration_ended(outcome, *usage, *cost_usd, *says_done);
            }
            Record::Looked { .. } => self.looked(record),
            Record::Validated { runtime_ms, .. } => {
                self.runtime(*runtime_ms);
                self.validated(record);
            }
            Record::Completed { runtime_ms, .. } => {
                self.runtime(*runtime_ms);
                self.completed(record);
            }
            Record::Waiting { until_ms, reason } => {
                self.waiting = Some(Wait { until_ms: *until_ms, reason: reason.clone() });
            }
            Record::Answered { text } => {
                self.answers.push(text.clone());
                self.human = None;
            }
            Record::Stopped { reason, message, runtime_ms } => {
                self.runtime(*runtime_ms);
                self.stop = Some(Stop { reason: *reason, message: message.clone() });
            }
            Record::Warning { .. } => {}
        }
    }

    fn runtime(&mut self, runtime_ms: u64) {
        self.runtime_ms = self.runtime_ms.max(runtime_ms);
    }

    fn run_started(&mut self, started: &RunStarted) {
        self.limits = started.limits.clone();
        self.agent.clone_from(&started.agent);
        self.fallback.clone_from(&started.fallback);
        self.once = started.once;
        self.tree.clone_from(&started.tree);
        self.trees_seen.insert(started.tree.clone());
        self.first_seen.extend(started.evidence.iter().map(|digest| (digest.clone(), 0)));
        self.started = Some(started.clone());
    }

    fn run_resumed(&mut self, limits: Limits, once: bool) {
        self.limits = limits;
        self.changed = None;
        self.again = false;
        self.once = once;
        self.ended_here = 0;
        self.stopping = false;
        // Whoever starts a run again that stopped for a human has looked into it. A run that was
        // killed before it could say so still has to.
        if self.stop.take().is_some_and(|stop| stop.reason == StopReason::NeedsHuman) {
            self.human = None;
        }
        self.resumed = true;
    }

    fn iteration_started(&mut self, iteration: u64, attempt: u32, reservation: Usd) {
        self.iterations = self.iterations.max(iteration);
        self.attempt = attempt;
        self.again = false;
        self.context = None;
        self.current = Some(Current {
            iteration,
            attempt,
            usage: Usage::default(),
            reservation,
            cancelling: None,
            notes: 0,
        });
        self.waiting = None;
        self.resumed = false;
        self.progress = false;
        self.answers.clear();
        self.near_misses.clear();
    }

    /// Newer notes are worth more than older ones.
    fn noted(&mut self, iteration: u64, text: &str) {
        if let Some(current) = &mut self.current {
            current.notes = current.notes.saturating_add(1);
        }
        self.notes.push(Note { iteration, text: text.to_owned() });
        let excess = self.notes.len().saturating_sub(MOST_TOLD);
        self.notes.drain(..excess);
    }

    /// Whoever takes over answers for its own failures only.
    fn agent_changed(&mut self, from: &str, to: &str, reason: &str) {
        to.clone_into(&mut self.agent);
        self.fallback.retain(|name| name != to);
        self.again = self.ended_here > 0;
        (self.failures, self.deferrals, self.stagnant) = (0, 0, 0);
        self.waiting = None;
        self.changed = Some(AgentChange {
            from: from.to_owned(),
            to: to.to_owned(),
            reason: reason.to_owned(),
        });
    }

    fn claimed(&mut self, iteration: u64, claim: &Claim) {
        if claim.source == ClaimSource::State {
            self.standing.insert(claim.detector.clone(), claim.kind);
        }
        self.says_done = 0;
        match claim.kind {
            ClaimKind::NeedsHuman => self.human = Some(claim.clone()),
            ClaimKind::Complete => {
                if self.completion().is_none() {
                    self.latch = Latch::Claimed { claim: claim.clone(), iteration };
                }
            }
        }
    }

    fn cancelling(&mut self, reason: CancelReason) {
        if reason == CancelReason::Signal {
            self.stopping = true;
        }
        if let Some(current) = &mut self.current {
            current.cancelling.get_or_insert(reason);
        }
    }

    fn iteration_ended(&mut self, outcome: &Outcome, usage: Usage, cost: Usd, says_done: bool) {
        let Some(current) = self.current.take() else { return };
        let usage = current.usage.max(usage);
        self.charged += cost;
        self.largest_charge = self.largest_charge.max(cost);
        self.used += usage.tokens.unwrap_or_default();
        self.estimated |= usage.estimated;
        self.cost_told |= usage.cost.is_some();
        self.ended_here = self.ended_here.saturating_add(1);
        if says_done {
            self.says_done = self.says_done.saturating_add(1);
        }
        self.count_failure(outcome);
        if matches!(outcome, Outcome::Succeeded | Outcome::Bounded { .. }) {
            // It has read the older ones, and left what the next one has to know.
            self.notes.retain(|note| note.iteration == current.iteration);
        }
        self.unlooked = counts_for_stagnation(outcome);
        self.worked |= self.unlooked;
        self.last_outcome = Some(outcome.clone());
    }

    fn count_failure(&mut self, outcome: &Outcome) {
        let failure = match outcome {
            Outcome::Failed { class, message } => Some((class.clone(), message.clone())),
            Outcome::Cut { reason: CancelReason::Timeout } => {
                Some(("timed_out".into(), "limits.iteration_timeout was reached".into()))
            }
            Outcome::Cut { reason: CancelReason::Idle } => {
                Some(("timed_out".into(), "nothing was heard for limits.idle_timeout".into()))
            }
            _ => None,
        };
        if let Some((class, message)) = failure {
            self.failures = self.failures.saturating_add(1);
            self.last_error = Some(LastError { class, message });
        } else if matches!(outcome, Outcome::Succeeded | Outcome::Bounded { .. }) {
            self.failures = 0;
        }
        self.deferrals = match outcome {
            Outcome::Deferred { .. } => self.deferrals.saturating_add(1),
            _ => 0,
        };
    }

    fn looked(&mut self, record: &Record) {
        let Record::Looked { iteration, tree, new_evidence, evidence, near_misses, runtime_ms } =
            record
        else {
            return;
        };
        self.runtime(*runtime_ms);
        if self.tree != *tree {
            self.tree.clone_from(tree);
            self.tree_since = *iteration;
        }
        let novel = self.trees_seen.insert(tree.clone()) || !new_evidence.is_empty();
        for digest in new_evidence {
            self.first_seen.entry(digest.clone()).or_insert(*iteration);
        }
        self.evidence.clone_from(evidence);
        if *iteration == 0 {
            self.own_misses.clone_from(near_misses);
        } else {
            self.near_misses.clone_from(near_misses);
        }
        self.progress |= novel;
        self.count_stagnation();
    }

    /// An iteration counts as stagnant as soon as it was looked at, and no more as soon as anything
    /// new turns up after it, such as a better verdict.
    fn count_stagnation(&mut self) {
        if self.progress {
            self.stagnant = 0;
        } else if self.unlooked {
            self.stagnant = self.stagnant.saturating_add(1);
        }
        self.unlooked = false;
    }

    fn validated(&mut self, record: &Record) {
        let Record::Validated { accepted, tree, verdicts, reasons, .. } = record else { return };
        let good = verdicts.iter().filter(|verdict| verdict.verdict.is_accepted()).count();
        if good > self.best_verdicts {
            self.best_verdicts = good;
            self.progress = true;
            self.stagnant = 0;
        }
        let verdicts = verdicts.clone();
        if *accepted {
            self.rejection = None;
            self.accepted_verdicts = verdicts;
            return;
        }
        let work = (tree.clone(), self.evidence.clone());
        let times = match &self.rejection {
            // Looking again, after a restart, does not make the same work worse.
            Some(last) if last.work == work => last.times.saturating_add(u32::from(self.worked)),
            _ => 1,
        };
        self.worked = false;
        self.rejections = self.rejections.saturating_add(1);
        self.rejection = Some(Rejection { reasons: reasons.clone(), verdicts, work, times });
        let reclaim = self.policy().map(|policy| policy.after_rejection);
        if reclaim == Some(AfterRejection::Reclaim) {
            self.latch = Latch::Open;
        }
    }

    fn completed(&mut self, record: &Record) {
        let Record::Completed { iteration, tree, evidence, policy, task, validated, .. } = record
        else {
            return;
        };
        let Latch::Claimed { claim, .. } = &self.latch else { return };
        self.latch = Latch::Completed(Completion {
            claim: claim.clone(),
            iteration: *iteration,
            tree: tree.clone(),
            evidence: evidence.clone(),
            policy: policy.clone(),
            task: task.clone(),
            validated: *validated,
            verdicts: std::mem::take(&mut self.accepted_verdicts),
        });
        self.stop =
            Some(Stop { reason: StopReason::Completed, message: "the work is proved done".into() });
    }
}

const fn counts_for_stagnation(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Deferred { .. } | Outcome::Lost)
}
