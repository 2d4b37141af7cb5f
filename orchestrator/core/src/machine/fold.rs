//! How each record changes the state.

use super::limits::StopReason;
use super::record::{Outcome, Record, RunStarted};
use super::state::{
    AgentChange, Answer, Completion, Context, Current, LastError, Latch, Note, State, Stop, Wait,
};
use ralph_orchestrator_contract::{CancelReason, Claim, ClaimKind, ClaimSource, Usage, Usd};

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
            Record::RunResumed { .. } => self.run_resumed(record),
            Record::WorkspaceMade { workspace } => self.pins.workspace = Some(*workspace),
            Record::Tick { runtime_ms } => self.runtime(*runtime_ms),
            Record::IterationStarted { iteration, attempt, reservation, runtime_ms, .. } => {
                self.runtime(*runtime_ms);
                self.iteration_started(*iteration, *attempt, *reservation, *runtime_ms);
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
            Record::IterationEnded { runtime_ms, .. } => {
                self.runtime(*runtime_ms);
                self.note_survivors(record);
                self.iteration_ended(record);
            }
            Record::Baseline { runtime_ms, .. } => {
                self.runtime(*runtime_ms);
                self.baseline_checked(record);
            }
            Record::Looked { .. } => self.looked(record),
            Record::Artefacts { paths, .. } => self.artefacts.extend(paths.iter().cloned()),
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
                let question = self.human.take().map(|claim| claim.text);
                self.answers.push(Answer { question, text: text.clone() });
                self.reset_stagnation();
            }
            Record::Stopped { reason, message, runtime_ms } => {
                self.runtime(*runtime_ms);
                self.stop = Some(Stop { reason: *reason, message: message.clone() });
            }
            Record::Warning { .. } => {}
        }
    }

    pub(super) fn runtime(&mut self, runtime_ms: u64) {
        self.runtime_ms = self.runtime_ms.max(runtime_ms);
    }

    fn run_started(&mut self, started: &RunStarted) {
        self.limits = started.limits.clone();
        self.agent.clone_from(&started.agent);
        self.fallback.clone_from(&started.fallback);
        self.once = started.once;
        self.baseline = started.baseline;
        self.pins.clone_from(&started.pins);
        self.tree.clone_from(&started.tree);
        self.trees_seen.insert(started.tree.clone());
        self.evidence_history.begin(&started.evidence, started.evidence_overflowed);
        self.started = Some(started.clone());
    }

    fn run_resumed(&mut self, record: &Record) {
        let Record::RunResumed { agent, fallback, limits, once, baseline, pins } = record else {
            return;
        };
        self.pins.clone_from(pins);
        agent.clone_into(&mut self.agent);
        fallback.clone_into(&mut self.fallback);
        limits.clone_into(&mut self.limits);
        (self.once, self.baseline) = (*once, *baseline);
        self.changed = None;
        self.again = false;
        self.ended_here = 0;
        self.stopping = false;
        // Whoever starts a run again that stopped for this has looked into it. A run that was killed
        // before it could say so still has to.
        match self.stop.take().map(|stop| stop.reason) {
            Some(StopReason::NeedsHuman) => self.check_errors.clear(),
            Some(StopReason::Failures | StopReason::AgentUnavailable) => self.failures = 0,
            Some(StopReason::Stagnation) => {
                self.reset_stagnation();
                self.says_all_done = 0;
            }
            _ => {}
        }
        self.resumed = true;
    }

    fn iteration_started(&mut self, iteration: u64, attempt: u32, reservation: Usd, began_ms: u64) {
        self.iterations = self.iterations.max(iteration);
        self.attempt = attempt;
        self.again = false;
        self.context = None;
        self.current = Some(Current {
            iteration,
            attempt,
            usage: Usage::default(),
            reservation,
            began_ms,
            cancelling: None,
            notes: 0,
        });
        self.waiting = None;
        self.resumed = false;
        self.unvalidated = false;
        self.progress = false;
        // Only in a journal of an older version does one begin while a question is open.
        self.human = None;
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
        (self.failures, self.deferrals) = (0, 0);
        self.reset_stagnation();
        self.waiting = None;
        self.changed = Some(AgentChange {
            from: from.to_owned(),
            to: to.to_owned(),
            reason: reason.to_owned(),
        });
    }

    fn claimed(&mut self, iteration: u64, claim: &Claim) {
        if claim.source == ClaimSource::State && !claim.is_automatic() {
            self.standing.insert(claim.detector.clone(), claim.kind);
        }
        (self.says_done, self.says_all_done) = (0, 0);
        match claim.kind {
            ClaimKind::NeedsHuman => self.human = Some(claim.clone()),
            ClaimKind::Complete => {
                if self.completion().is_none() {
                    if !claim.is_automatic() {
                        self.tally.count_claim();
                    }
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

    fn iteration_ended(&mut self, record: &Record) {
        let Record::IterationEnded { outcome, usage, cost_usd, tool_calls, .. } = record else {
            return;
        };
        let Some(current) = self.current.take() else { return };
        let usage = current.usage.max(*usage);
        self.charged += *cost_usd;
        self.largest_charge = self.largest_charge.max(*cost_usd);
        self.used += usage.tokens.unwrap_or_default();
        self.estimated |= usage.estimated;
        self.cost_told |= usage.cost.is_some();
        self.ended_here = self.ended_here.saturating_add(1);
        self.count_words(record);
        self.called_no_tool = *tool_calls == Some(0);
        self.count_failure(outcome);
        if matches!(outcome, Outcome::Succeeded | Outcome::Bounded { .. }) {
            // It has read the older ones, and left what the next one has to know.
            self.notes.retain(|note| note.iteration == current.iteration);
            self.answers.clear();
        }
        self.unlooked = counts_for_stagnation(outcome);
        self.worked |= self.unlooked;
        self.last_outcome = Some(outcome.clone());
    }

    fn note_survivors(&mut self, record: &Record) {
        if let Record::IterationEnded { survived, .. } = record {
            self.survived.clone_from(survived);
        }
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
