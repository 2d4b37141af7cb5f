//! The state of a run: the fold of its journal.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::evidence::EvidenceHistory;
use super::limits::{Limits, StopReason};
use super::pins::Pins;
use super::record::{BaselineMode, CompletionTrigger, NamedVerdict, Outcome, Policy, RunStarted};
use super::tally::ClaimTally;
use ralph_orchestrator_contract::{
    CancelReason, Claim, ClaimKind, EvidenceFile, NearMiss, Survivor, Tokens, Usage, Usd,
};

/// How far the completion has come. Moves forward only, but for a claim that has to be made anew
/// under [`AfterRejection::RequireNewClaim`](super::record::AfterRejection::RequireNewClaim).
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
    /// Runtime of the run when it began, in milliseconds.
    pub began_ms: u64,
    /// The orchestrator is ending it.
    pub cancelling: Option<CancelReason>,
    /// How many notes it left.
    pub notes: u32,
}

/// A note that an iteration left for those after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The iteration.
    pub iteration: u64,
    /// The note.
    pub text: String,
}

/// What a human told the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The agent's question; `None` if none was open.
    pub question: Option<String>,
    /// The answer.
    pub text: String,
}

/// How full the context of an iteration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Context {
    /// Tokens in it.
    pub used: u64,
    /// Tokens it can hold, if known.
    pub window: Option<u64>,
}

/// Another agent that took over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentChange {
    /// Who could not go on.
    pub from: String,
    /// Who took over.
    pub to: String,
    /// Why.
    pub reason: String,
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
    /// What the workspace and the prompt are.
    pub pins: Pins,
    /// The limits in force.
    pub limits: Limits,
    /// The adapter's name, or the name of the agent that took over.
    pub agent: String,
    /// Those that can still take over.
    pub fallback: Vec<String>,
    /// The last agent that took over since the orchestrator was started, and why.
    pub changed: Option<AgentChange>,
    /// Another agent took over: the iteration is begun again.
    pub again: bool,
    /// Iterations begun.
    pub iterations: u64,
    /// How often the last iteration was begun.
    pub attempt: u32,
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
    /// A human is asked for, and has not answered.
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
    /// How many iterations these were; an idle one counts more than once.
    pub stagnant_iterations: u32,
    /// An iteration ended and the workspace was not looked at since.
    pub unlooked: bool,
    /// The agent of that iteration called no tool at all.
    pub called_no_tool: bool,
    /// The tree as last seen.
    pub tree: String,
    /// The iteration whose end first showed it.
    pub tree_since: u64,
    /// The tree as validators left it, if it is another: the work is the same.
    pub tree_left: Option<String>,
    /// Paths that validators left, relative to the workspace: no part of the work.
    pub artefacts: BTreeSet<String>,
    /// Something was changed since the last validation.
    pub work_changed: bool,
    /// The workspace was observed, and nothing was validated since.
    pub unvalidated: bool,
    /// The evidence folders as last seen.
    pub evidence: String,
    /// When the contents in them were written.
    pub evidence_history: EvidenceHistory,
    /// Trees seen at the ends of iterations.
    pub trees_seen: BTreeSet<String>,
    /// Digests of everything that validations have said, but for what differs by chance.
    pub verdicts_seen: BTreeSet<String>,
    /// For each required validator that could not come to a verdict, how often in a row.
    pub check_errors: BTreeMap<String, u32>,
    /// What follows from checks that accept before any work is done.
    pub baseline: BaselineMode,
    /// Whether all checks accepted before any work was done, if they were run.
    pub baseline_accepted: Option<bool>,
    /// Something new since the last iteration began.
    pub progress: bool,
    /// What became of the claims.
    pub tally: ClaimTally,
    /// Iterations whose text spoke of being done, since the last claim.
    pub says_done: u32,
    /// Iterations in a row whose text said that the whole task is done, without a claim.
    pub says_all_done: u32,
    /// What was nearly a claim at the last look, but for the user's own text.
    pub near_misses: Vec<NearMiss>,
    /// What was nearly a claim before the first iteration: not the agent's doing.
    pub own_misses: Vec<NearMiss>,
    /// Answers of a human that no iteration which ended well has read yet.
    pub answers: Vec<Answer>,
    /// Notes for the next iteration.
    pub notes: Vec<Note>,
    /// The model that was used last, if its agent says so.
    pub model: Option<String>,
    /// How full the context of the last iteration is, if its agent says so.
    pub context: Option<Context>,
    /// A wait that the provider asked for.
    pub waiting: Option<Wait>,
    /// Processes of the last iteration that could not be ended then.
    pub survived: Vec<Survivor>,
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

    /// Whether this is the tree as the agent left it, or as the validators left it then.
    #[must_use]
    pub fn is_same_tree(&self, tree: &str) -> bool {
        self.tree == tree || self.tree_left.as_deref() == Some(tree)
    }

    /// Whether validators run without a claim.
    #[must_use]
    pub fn needs_no_claim(&self) -> bool {
        self.policy().is_some_and(|policy| policy.when == CompletionTrigger::Proved)
    }

    /// Whether validators were to be run when the orchestrator went away.
    #[must_use]
    pub fn is_validation_due(&self) -> bool {
        let claimed = matches!(self.latch, Latch::Claimed { .. });
        self.unvalidated && (claimed || super::baseline::is_due(self))
    }

    /// How often the same work was rejected in a row.
    #[must_use]
    pub fn rejected_in_a_row(&self) -> u32 {
        self.rejection.as_ref().map_or(0, |rejection| rejection.times)
    }

    /// The last iteration is begun again: the provider refused requests, or another agent took over.
    #[must_use]
    pub const fn repeats(&self) -> bool {
        self.again || matches!(self.last_outcome, Some(Outcome::Deferred { .. }))
    }

    /// Whether a claim is pending, or was rejected and has to be made again: only what validators say
    /// and are shown is progress then.
    #[must_use]
    pub const fn is_claimed(&self) -> bool {
        matches!(self.latch, Latch::Claimed { .. }) || self.rejection.is_some()
    }

    /// The completion, if the run is complete.
    #[must_use]
    pub const fn completion(&self) -> Option<&Completion> {
        match &self.latch {
            Latch::Completed(completion) => Some(completion),
            Latch::Open | Latch::Claimed { .. } => None,
        }
    }
}
