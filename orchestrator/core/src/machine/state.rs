//! The state of a run: the fold of its journal.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::limits::{Limits, StopReason};
use super::record::{AfterRejection, NamedVerdict, Outcome, Policy, Record, RunStarted};
use crate::contract::{
    CancelReason, Claim, ClaimKind, ClaimSource, EvidenceFile, NearMiss, Tokens, Usage, Usd,
};

/// How far the completion has come. Moves forward only, but for a claim that has to be made anew
/// under [`AfterRejection::Reclaim`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Latch {
    /// Nothing is claimed.
    #[default]
    Open,
    /// A claim is pending.
    Claimed {
        /// The claim.
        claim: Claim,
        /// The iteration in or after which it was seen.
        iteration: u64,
    },
    /// Complete, for good.
    Completed(Completion),
}

/// An accepted completion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The claim that was accepted.
    pub claim: Claim,
    /// The last iteration.
    pub iteration: u64,
    /// Digest of the tree.
    pub tree: String,
    /// The evidence.
    pub evidence: Vec<EvidenceFile>,
    /// Digest of the policy.
    pub policy: String,
    /// Digest of the prompt, claims aside.
    pub task: String,
    /// Whether any required validator looked at it.
    pub validated: bool,
    /// The verdicts.
    pub verdicts: Vec<NamedVerdict>,
}

/// The last rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Why, for the agent.
    pub reasons: Vec<String>,
    /// The verdicts.
    pub verdicts: Vec<NamedVerdict>,
    /// The tree and evidence that were rejected.
    pub work: (String, String),
    /// How often this same work was rejected.
    pub times: u32,
}

/// The iteration that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// Its number.
    pub iteration: u64,
    /// From 1.
    pub attempt: u32,
    /// What it used so far.
    pub usage: Usage,
    /// What it is charged at least.
    pub reservation: Usd,
    /// The orchestrator is ending it.
    pub cancelling: Option<CancelReason>,
}

/// Why and how the run ended, or ended for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// For people.
    pub message: String,
}

/// A wait that the provider asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Until when, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// For people.
    pub reason: String,
}

/// The last failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// Its class, one word.
    pub class: String,
    /// For people.
    pub message: String,
}

/// The state of a run. Built by [`State::apply`] from records, and by nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The first record, once there is one.
    pub started: Option<RunStarted>,
    /// The limits in force.
    pub limits: Limits,
    /// The adapter's name.
    pub agent: String,
    /// Iterations begun.
    pub iterations: u64,
    /// The iteration that is running.
    pub current: Option<Current>,
    /// How the last iteration ended.
    pub last_outcome: Option<Outcome>,
    /// The completion.
    pub latch: Latch,
    /// The last rejection of the pending claim.
    pub rejection: Option<Rejection>,
    /// All rejections of the run.
    pub rejections: u32,
    /// An iteration came to its end since the last rejection: another one counts.
    pub worked: bool,
    /// The verdicts of the validation that accepted, until they are part of the completion.
    pub accepted_verdicts: Vec<NamedVerdict>,
    /// A human is asked for.
    pub human: Option<Claim>,
    /// Detectors whose claim stands in a file, with its kind.
    pub standing: BTreeMap<String, ClaimKind>,
    /// Charged for iterations that are over.
    pub charged: Usd,
    /// The largest charge of an iteration.
    pub largest_charge: Usd,
    /// Tokens of iterations that are over.
    pub used: Tokens,
    /// Some of the cost was computed, not reported.
    pub estimated: bool,
    /// The agent has told what it costs, at least once.
    pub cost_told: bool,
    /// Runtime in milliseconds.
    pub runtime_ms: u64,
    /// Consecutive failed iterations.
    pub failures: u32,
    /// The last failure.
    pub last_error: Option<LastError>,
    /// Refusals by the provider in a row.
    pub deferrals: u32,
    /// Iterations in a row that brought nothing new.
    pub stagnant: u32,
    /// An iteration ended and the workspace was not looked at since.
    pub unlooked: bool,
    /// The tree as last seen.
    pub tree: String,
    /// The iteration whose end first showed it.
    pub tree_since: u64,
    /// The evidence folders as last seen.
    pub evidence: String,
    /// Trees seen at the ends of iterations.
    pub trees_seen: BTreeSet<String>,
    /// For each content of the evidence folders, the iteration in which it was first seen.
    pub first_seen: BTreeMap<String, u64>,
    /// Most validators that ever accepted at once.
    pub best_verdicts: usize,
    /// Something new since the last iteration began.
    pub progress: bool,
    /// Iterations whose text spoke of being done, since the last claim.
    pub says_done: u32,
    /// What was nearly a claim at the last look, but for the user's own text.
    pub near_misses: Vec<NearMiss>,
    /// What was nearly a claim before the first iteration: not the agent's doing.
    pub own_misses: Vec<NearMiss>,
    /// Answers of a human that the agent has not read yet.
    pub answers: Vec<String>,
    /// A wait that the provider asked for.
    pub waiting: Option<Wait>,
    /// The run was asked to stop.
    pub stopping: bool,
    /// Stop after one iteration of this start.
    pub once: bool,
    /// Iterations that ended since the orchestrator was started.
    pub ended_here: u32,
    /// The orchestrator was started again and no iteration has begun since.
    pub resumed: bool,
    /// Why the run ended.
    pub stop: Option<Stop>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_iterations: None,
            max_runtime_ms: None,
            max_cost_usd: None,
            max_tokens: None,
            max_failures: u32::MAX,
            max_stagnant: u32::MAX,
            max_rejections: u32::MAX,
            max_wait_ms: u64::MAX,
            first_reservation: Usd::ZERO,
        }
    }
}

impl State {
    /// The fold of a journal.
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut state = Self::default();
        for record in records {
            state.apply(record);
        }
        state
    }

    /// What the run has cost so far, the running iteration included.
    #[must_use]
    pub fn cost(&self) -> Usd {
        let current = self.current.as_ref().and_then(|current| current.usage.cost);
        self.charged + current.unwrap_or_default()
    }

    /// The tokens used so far, the running iteration included.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        let current = self.current.as_ref().and_then(|current| current.usage.tokens);
        self.used + current.unwrap_or_default()
    }

    /// What is frozen, once the run has started.
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        self.started.as_ref().map(|started| &started.policy)
    }

    /// How often the same work was rejected in a row.
    #[must_use]
    pub fn rejected_in_a_row(&self) -> u32 {
        self.rejection.as_ref().map_or(0, |rejection| rejection.times)
    }

    /// The completion, if the run is complete.
    #[must_use]
    pub const fn completion(&self) -> Option<&Completion> {
        match &self.latch {
            Latch::Completed(completion) => Some(completion),
            Latch::Open | Latch::Claimed { .. } => None,
        }
    }

    /// Takes one fact in.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::RunStarted(started) => self.run_started(started),
            Record::RunResumed { agent, limits, once } => {
                self.run_resumed(agent, limits.clone(), *once);
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
        self.once = started.once;
        self.tree.clone_from(&started.tree);
        self.trees_seen.insert(started.tree.clone());
        self.first_seen.extend(started.evidence.iter().map(|digest| (digest.clone(), 0)));
        self.started = Some(started.clone());
    }

    fn run_resumed(&mut self, agent: &str, limits: Limits, once: bool) {
        self.limits = limits;
        agent.clone_into(&mut self.agent);
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
        self.current = Some(Current {
            iteration,
            attempt,
            usage: Usage::default(),
            reservation,
            cancelling: None,
        });
        self.waiting = None;
        self.resumed = false;
        self.progress = false;
        self.answers.clear();
        self.near_misses.clear();
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
