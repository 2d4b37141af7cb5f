//! The state of a run: the fold of its journal.

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_contract::{
    CancelReason, Claim, ClaimKind, ErrorClass, EvidenceFile, Guidance, NearMiss, Survivor, Tokens,
    Usage, Usd,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::changes::Changes;
use super::claim_stats::ClaimStats;
use super::control::{ControlOrigin, LimitOverrides};
use super::escalation::{EscalationPlan, EscalationState, EscalationStep};
use super::evidence::EvidenceHistory;
use super::hook::HookState;
use super::limits::{BudgetUse, Limit, RunLimits};
use super::outcome::IterationOutcome;
use super::path_identities::PathIdentities;
use super::policy::{BaselineMode, CompletionTrigger, FrozenPolicy};
use super::rate_window::{RateWindow, RateWindows};
use super::record::{RunStarted, SaveMode};
use super::stop::Stop;
use super::verdict::{ValidatorVerdict, is_unchecked};

/// How far the completion has come. Moves forward only, but for a claim that has to be made anew
/// under [`AfterRejection::RequireNewClaim`](super::AfterRejection::RequireNewClaim).
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
    /// Whether any required validator accepted it.
    pub validated: bool,
    /// The verdicts.
    pub verdicts: Vec<ValidatorVerdict>,
}

/// What made the checks of a completion green, as far as it was tried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedCompletion {
    /// In sentences, for people.
    pub summary: String,
    /// Each part of the work, and what checks without it showed.
    pub explanation: Value,
}

/// The last rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Why, for the agent.
    pub reasons: Vec<String>,
    /// The verdicts.
    pub verdicts: Vec<ValidatorVerdict>,
    /// Digests of the tree and the evidence that were rejected.
    pub work: (String, String),
    /// How often this same work was rejected.
    pub times: u32,
}

impl Rejection {
    /// Whether validators reached no verdict, so that nothing is said of the work.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        is_unchecked(&self.verdicts, &self.reasons)
    }
}

/// The iteration that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningIteration {
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
    /// Why the orchestrator is stopping it, if it is.
    pub cancelling: Option<CancelReason>,
    /// How many notes it left.
    pub notes: u32,
    /// It is one of the initializer.
    pub is_initializer: bool,
    /// The name of its agent, if the record says it.
    pub agent: String,
}

/// A note that an iteration left for those after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The iteration.
    pub iteration: u64,
    /// The note.
    pub text: String,
}

/// A human's answer to the agent, or guidance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The agent's question; `None` if none was open.
    pub question: Option<String>,
    /// The answer.
    pub text: String,
    /// Who sent it; not known where `run` asked on the terminal.
    pub origin: Option<ControlOrigin>,
    /// The last iteration whose agent was given it.
    pub delivered_in: Option<u64>,
    /// An iteration that was given it has ended well.
    pub is_seen: bool,
}

/// How full the context of an iteration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ContextUsage {
    /// Tokens in it.
    pub used: u64,
    /// Tokens it can hold, if known.
    pub window: Option<u64>,
}

/// A change from one agent to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentChange {
    /// The agent that could not continue.
    pub from: String,
    /// The agent that took over.
    pub to: String,
    /// Why.
    pub reason: String,
}

/// A wait that the provider asked for, or for the reset of a rate window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderWait {
    /// Until when, in milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// For people.
    pub reason: String,
    /// How long it was to be; 0 if that is not known.
    pub wait_ms: u64,
}

/// The last failure of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// Its class.
    pub class: ErrorClass,
    /// For people.
    pub message: String,
}

/// The state of a run. Built by [`State::apply`] from records, and by nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The first record, once there is one.
    pub started: Option<RunStarted>,
    /// The digest of the task with which it began, whatever a person has made of that since.
    pub first_task: String,
    /// Which files the paths of the run stand for.
    pub identities: PathIdentities,
    /// The limits in force.
    pub limits: RunLimits,
    /// Iterations begun.
    pub iterations: u64,
    /// How often the last iteration was begun.
    pub attempt: u32,
    /// The iteration that is running.
    pub running: Option<RunningIteration>,
    /// How the last iteration ended.
    pub last_outcome: Option<IterationOutcome>,
    /// The agent in use.
    pub agent: AgentState,
    /// What was used of the limits on money, tokens and time.
    pub budget: BudgetUse,
    /// How far the completion has come.
    pub latch: Latch,
    /// What agents claimed, or nearly did.
    pub claims: ClaimState,
    /// What validators decided.
    pub validation: ValidationState,
    /// The workspace as last observed.
    pub workspace: WorkspaceState,
    /// What counts as progress, and how long there was none.
    pub progress: ProgressState,
    /// What was stored in git.
    pub saves: SaveState,
    /// What the last iteration changed, if that is known.
    pub last_changes: Option<Changes>,
    /// How far the initializer has come, if there is one.
    pub initializer: InitializerState,
    /// How far the setup of the workspace has come.
    pub setup: SetupState,
    /// Which commands of the user have run, and which are due.
    pub hooks: HookState,
    /// Answers of a human, and guidance, until some time after an iteration that was given them has ended
    /// well.
    pub answers: Vec<Answer>,
    /// What people asked of the run.
    pub controls: ControlState,
    /// Notes for the next iteration.
    pub notes: Vec<Note>,
    /// A wait that the provider asked for.
    pub waiting: Option<ProviderWait>,
    /// What concerns this process of the orchestrator only.
    pub process: ProcessState,
    /// Why the run stopped.
    pub stop: Option<Stop>,
    /// What made the checks green, once that was tried out.
    pub explained: Option<ExplainedCompletion>,
}

/// The agent in use, and the agents that can take over from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentState {
    /// The adapter's name, or the name of the agent that took over.
    pub name: String,
    /// The agents that can still take over, in this order.
    pub fallback: Vec<String>,
    /// Which stronger agents take over when, and how far that has come.
    pub escalation: Option<EscalationState>,
    /// What each agent has used in iterations that are over, by its name.
    pub used: BTreeMap<String, AgentUse>,
    /// The last change since the orchestrator was started.
    pub last_change: Option<AgentChange>,
    /// Another agent took over: the iteration is begun again.
    pub retrying: bool,
    /// Consecutive failed iterations.
    pub failures: u32,
    /// The last failure.
    pub last_error: Option<LastError>,
    /// Consecutive refusals by the provider.
    pub deferrals: u32,
    /// How long the waits after them were together, in milliseconds.
    pub waited_ms: u64,
    /// The last session did something of which the run knows: it called a tool, or the work was another one after it.
    pub has_worked: bool,
    /// The model that the agent reported last; it is none of an agent before it.
    pub reported_model: Option<String>,
    /// The model that the last iteration asked for, if one is configured.
    pub asked_model: Option<String>,
    /// How full the context of the last iteration is, if the agent reports it.
    pub context: Option<ContextUsage>,
    /// How many tokens its context can hold, as reported last.
    pub window: Option<u64>,
    /// How much of its provider's rate windows is used, as reported last; one may have been reset since.
    pub rate_windows: RateWindows,
    /// What the last session that ended by itself had left running, and what was ended then.
    pub left_behind: Vec<String>,
    /// Processes of the last iteration that could not be ended then.
    pub survivors: Vec<Survivor>,
}

/// What an agent has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentUse {
    /// Its attempts at iterations.
    pub attempts: u64,
    /// What it is charged.
    pub cost_usd: Usd,
    /// Its tokens.
    pub tokens: Tokens,
    /// Sessions whose cost it did not report.
    #[serde(skip)]
    pub unreported_costs: u64,
    /// Sessions whose tokens it did not report.
    #[serde(skip)]
    pub unreported_tokens: u64,
}

impl AgentUse {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            attempts: self.attempts.saturating_add(other.attempts),
            cost_usd: self.cost_usd + other.cost_usd,
            tokens: self.tokens + other.tokens,
            unreported_costs: self.unreported_costs.saturating_add(other.unreported_costs),
            unreported_tokens: self.unreported_tokens.saturating_add(other.unreported_tokens),
        }
    }
}

impl AgentState {
    /// Returns the step with which a start goes on: that of the agent that worked, if it is still one of the plan's.
    #[must_use]
    pub fn resumed_step(&self, plan: Option<&EscalationPlan>) -> Option<EscalationStep> {
        let mut escalation = self.escalation.clone()?;
        escalation.adopt(plan?);
        escalation.step().cloned()
    }

    /// Returns the model that works, as the agent reports it, or else the one that it is asked to use.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.reported_model.as_deref().or(self.asked_model.as_deref())
    }

    /// Takes note of how full the context is.
    pub(super) fn set_context(&mut self, used: u64, window: Option<u64>) {
        self.context = Some(ContextUsage { used, window });
        self.window = window.or(self.window);
    }

    /// Takes note of a rate window as reported last.
    pub(super) fn set_rate_window(&mut self, window: &RateWindow) {
        self.rate_windows.insert(window.name.clone(), window.clone());
    }

    /// Takes note of the model that an iteration asks for: what was reported when it was another one is out of date.
    pub(super) fn ask_for_model(&mut self, model: Option<&str>) {
        if self.asked_model.as_deref() != model {
            self.reported_model = None;
            self.asked_model = model.map(str::to_owned);
        }
    }
}

/// What agents claimed, or nearly did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimState {
    /// The pending request for a human.
    pub human_request: Option<Claim>,
    /// Detectors whose claim stands in a file, with its kind.
    pub standing: BTreeMap<String, ClaimKind>,
    /// Counts of claims and rejections.
    pub stats: ClaimStats,
    /// Iterations whose text spoke of being done, since the last claim.
    pub says_done: u32,
    /// Consecutive iterations whose text said that the whole task is done, without a claim.
    pub says_all_done: u32,
    /// Near misses of the last observation, except for those in the user's own text.
    pub near_misses: Vec<NearMiss>,
    /// Near misses before the first iteration: no agent wrote them.
    pub initial_near_misses: Vec<NearMiss>,
}

/// What validators decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationState {
    /// The last rejection of the pending claim.
    pub rejection: Option<Rejection>,
    /// All rejections of the run; those that say nothing of the work are none.
    pub rejections: u32,
    /// A person has changed the task since the last rejection.
    pub task_changed_since_rejection: bool,
    /// An iteration ended since the last rejection: another rejection of the same work counts.
    pub iterated_since_rejection: bool,
    /// The verdicts of the validation that accepted, until they are part of the completion.
    pub accepted_verdicts: Vec<ValidatorVerdict>,
    /// For each required validator that could not come to a verdict, how often in a row.
    pub errors_in_a_row: BTreeMap<String, u32>,
    /// What happens if the checks accept before any work is done.
    pub baseline_mode: BaselineMode,
    /// Whether all checks accepted before any work was done, if they were run.
    pub baseline_accepted: Option<bool>,
    /// What the checks said before any work was done.
    pub baseline_verdicts: Vec<ValidatorVerdict>,
    /// How long the checks took so far, in milliseconds.
    pub checks_ms: u64,
    /// The validators whose verdicts are reviews of agents, as far as any were made.
    pub reviews: BTreeSet<String>,
    /// The review that is under way.
    pub review: Option<RunningReview>,
}

/// A review that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningReview {
    /// Its agent.
    pub agent: String,
    /// What it is charged at least.
    pub reservation: Usd,
}

/// The workspace as last observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceState {
    /// Digest of the tree.
    pub tree: String,
    /// The iteration after which it was first observed.
    pub tree_since: u64,
    /// Digest of the tree as validators left it, if it is another: the work is the same.
    pub tree_left: Option<String>,
    /// Paths that validators left, relative to the workspace: no part of the work.
    pub artefacts: BTreeSet<String>,
    /// Digest of the evidence folders.
    pub evidence: String,
    /// When the contents in them were written.
    pub evidence_history: EvidenceHistory,
    /// Something was changed since the last validation.
    pub changed_since_validation: bool,
    /// Observed since the last validation.
    pub observed_since_validation: bool,
}

/// What counts as progress, and how long there was none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressState {
    /// Consecutive iterations without progress; an idle one counts more than once.
    pub stagnant: u32,
    /// How many iterations these were.
    pub stagnant_iterations: u32,
    /// There was progress since the last iteration began.
    pub since_iteration_start: bool,
    /// An iteration ended and the workspace was not observed since.
    pub awaiting_observation: bool,
    /// The agent of that iteration called no tool at all.
    pub called_no_tool: bool,
    /// Digests of the trees at the ends of iterations.
    pub trees_seen: BTreeSet<String>,
    /// Digests of all results of validations, normalized.
    pub verdicts_seen: BTreeSet<String>,
}

/// A pause that was requested and has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PauseState {
    /// Who requested it.
    pub origin: ControlOrigin,
    /// The running iteration is cancelled for it.
    pub now: bool,
    /// Nothing goes on any more: the run waits for its end.
    pub in_effect: bool,
}

/// How far the initializer has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InitializerState {
    /// Its products were found, once and for all.
    pub is_done: bool,
    /// How many of its iterations ended without them.
    pub attempts: u32,
    /// What was missing then.
    pub missing: Vec<String>,
}

/// How far the setup of the workspace has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupState {
    /// It has run, and no iteration has begun since.
    pub is_done: bool,
    /// It has begun, and the workspace was not observed since.
    pub is_unobserved: bool,
    /// Why it failed the last time, for the agent.
    pub problem: Option<String>,
}

/// What was saved so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveState {
    /// What is to be saved.
    pub mode: SaveMode,
    /// The last iteration that was saved; 0 is the start of the run.
    pub iteration: Option<u64>,
    /// The id of the last checkpoint.
    pub checkpoint: Option<String>,
    /// The id of each iteration's checkpoint; 0 is the start of the run.
    pub checkpoints: BTreeMap<u64, String>,
    /// The id of the last commit.
    pub commit: Option<String>,
    /// What went wrong the last time, and what else a person is to know of what was stored.
    pub problems: Vec<String>,
    /// Why there is no commit of the last iteration that was saved.
    pub commit_problem: Option<String>,
    /// A commit was made of the last iteration that was saved.
    pub committed: bool,
}

/// What people asked of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlState {
    /// The ids of all controls: one that is delivered again changes nothing.
    pub received: BTreeSet<String>,
    /// The pause that was requested and has not ended.
    pub pause: Option<PauseState>,
    /// The limits of the configuration, which those that were set here replace.
    pub configured_limits: RunLimits,
    /// The limits that were set here.
    pub limits: LimitOverrides,
}

impl ControlState {
    /// Returns who set the limit that is in force; `None` if it is that of the configuration.
    #[must_use]
    pub fn set_by(&self, limit: Limit) -> Option<&ControlOrigin> {
        let is_beaten = self.limits.is_beaten(limit, &self.configured_limits);
        self.limits.origin(limit).filter(|_| !is_beaten)
    }
}

/// What concerns this process of the orchestrator only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessState {
    /// The run was asked to stop.
    pub stop_requested: bool,
    /// Because the terminal went away.
    pub hung_up: bool,
    /// Stop after one iteration.
    pub once: bool,
    /// The agent works in a session of its own, whose stops are the iterations.
    pub attached: bool,
    /// Iterations that ended since the orchestrator was started.
    pub iterations_ended: u32,
    /// The run was resumed, and no iteration has begun since.
    pub resumed: bool,
}

impl State {
    /// Returns the cost of the run so far, the running iteration included.
    #[must_use]
    pub fn cost(&self) -> Usd {
        let running = self.running.as_ref().and_then(|running| running.usage.cost);
        self.budget.cost_charged + running.unwrap_or_default()
    }

    /// Returns the cost of the run so far; `None` as long as none was reported, and nothing was charged.
    #[must_use]
    pub fn known_cost(&self) -> Option<Usd> {
        let cost = self.cost();
        (self.budget.cost_reported || cost > Usd::ZERO).then_some(cost)
    }

    /// Returns the tokens used so far, the running iteration included.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        let running = self.running.as_ref().and_then(|running| running.usage.tokens);
        self.budget.tokens_used + running.unwrap_or_default()
    }

    /// Returns the frozen policy, once the run has started.
    #[must_use]
    pub fn policy(&self) -> Option<&FrozenPolicy> {
        self.started.as_ref().map(|started| &started.policy)
    }

    /// Whether validators run without a claim.
    #[must_use]
    pub fn needs_no_claim(&self) -> bool {
        self.policy().is_some_and(|policy| policy.when == CompletionTrigger::Proved)
    }

    /// Whether a validation was due, or running, when the orchestrator ended.
    #[must_use]
    pub fn is_validation_due(&self) -> bool {
        let claimed = matches!(self.latch, Latch::Claimed { .. });
        self.workspace.observed_since_validation && (claimed || self.is_baseline_due())
    }

    /// Returns how often the same work was rejected in a row.
    #[must_use]
    pub fn rejected_in_a_row(&self) -> u32 {
        self.validation.rejection.as_ref().map_or(0, |rejection| rejection.times)
    }

    /// Whether the last iteration is begun again: it was cancelled for a pause, or it ended before its agent did
    /// anything, because the provider refused requests or another agent took over. A session that worked has used its
    /// iteration, whatever its agent says of its end: else an agent could have any number of them.
    #[must_use]
    pub const fn repeats_iteration(&self) -> bool {
        self.was_cancelled_by_pause() || (!self.agent.has_worked && self.could_not_work())
    }

    /// Whether the agent of the last iteration says, or showed, that it could not work.
    const fn could_not_work(&self) -> bool {
        self.agent.retrying || matches!(self.last_outcome, Some(IterationOutcome::Deferred { .. }))
    }

    /// Whether a claim is pending, or was rejected and has to be made again: only evidence and
    /// verdicts are progress then.
    #[must_use]
    pub const fn is_claimed(&self) -> bool {
        matches!(self.latch, Latch::Claimed { .. }) || self.validation.rejection.is_some()
    }

    /// Returns the completion, if the run is complete.
    #[must_use]
    pub const fn completion(&self) -> Option<&Completion> {
        match &self.latch {
            Latch::Completed(completion) => Some(completion),
            Latch::Open | Latch::Claimed { .. } => None,
        }
    }

    /// Whether the run is complete for the task with this digest: the one that was accepted, or the last one that a person
    /// gave it, which agents may edit on the way.
    pub fn has_completed(&self, task: &str) -> bool {
        let given = self.started.as_ref().map(|started| started.task.as_str());
        self.completion().is_some_and(|completion| completion.task == task)
            || (self.completion().is_some() && given == Some(task))
    }

    /// Whether a person gave the run the task with this digest, when it began or last.
    #[must_use]
    pub fn was_given(&self, task: &str) -> bool {
        let last = self.started.as_ref().map(|started| started.task.as_str());
        !task.is_empty() && (self.first_task == task || last == Some(task))
    }

    /// Whether the run has stopped, for good or until it is resumed.
    pub(super) const fn is_stopped(&self) -> bool {
        self.stop.is_some() || self.completion().is_some()
    }

    /// Whether the run has started, has not stopped, and no iteration is running.
    pub(super) const fn is_between_iterations(&self) -> bool {
        self.started.is_some() && self.running.is_none() && !self.is_stopped()
    }

    /// Whether no further iteration may be started for now.
    #[must_use]
    pub const fn is_pause_requested(&self) -> bool {
        self.controls.pause.is_some()
    }

    /// Returns the answers and the guidance that the next agent is given: no iteration that was given them
    /// has ended well yet.
    pub fn open_answers(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(|answer| !answer.is_seen)
    }

    /// Returns the guidance that the running agent was not given yet. Answers to questions are for the next
    /// prompt, which has the question.
    pub fn undelivered_guidance(&self) -> impl Iterator<Item = Guidance> {
        let iteration = self.running.as_ref().map(|running| running.iteration);
        let answers = self.open_answers().filter(move |answer| {
            iteration.is_some() && answer.question.is_none() && answer.delivered_in != iteration
        });
        answers.filter_map(|answer| {
            let id = answer.origin.as_ref()?.id.clone();
            Some(Guidance { id, text: answer.text.clone() })
        })
    }

    /// Whether the last iteration was cancelled for a pause: it is begun again.
    #[must_use]
    pub const fn was_cancelled_by_pause(&self) -> bool {
        matches!(
            self.last_outcome,
            Some(IterationOutcome::StoppedEarly { reason: CancelReason::Pause })
        )
    }

    /// Whether the checks have to be run before the first iteration.
    #[must_use]
    pub fn is_baseline_due(&self) -> bool {
        let Some(started) = &self.started else { return false };
        let accepted = self.validation.baseline_accepted;
        let is_open = match self.validation.baseline_mode {
            BaselineMode::Off => false,
            BaselineMode::Warn => accepted.is_none(),
            // The user may have fixed the check before resuming the run.
            BaselineMode::MustFail => accepted != Some(false),
        };
        let policy = &started.policy;
        is_open && self.iterations == 0 && policy.validates() && !policy.is_evidence_only()
    }
}

impl WorkspaceState {
    /// Whether this is the tree as the agent left it, or as validators left it afterwards.
    #[must_use]
    pub fn is_same_tree(&self, tree: &str) -> bool {
        self.tree == tree || self.tree_left.as_deref() == Some(tree)
    }
}
