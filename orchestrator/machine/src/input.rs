//! Inputs and effects of the machine.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{Budget, CancelReason, Claim, NearMiss, Survivor, Usage, Usd};

use super::changes::Changes;
use super::control::{Control, ControlOrigin};
use super::evidence::ObservedEvidence;
use super::hook::HookEnd;
use super::outcome::IterationOutcome;
use super::path_identities::FileIdentity;
use super::rate_window::RateWindow;
use super::record::{LaunchDigests, Record, RunStarted, Trigger};
use super::state::{ContextUsage, ExplainedCompletion};
use super::stop::StopReason;
use super::verdict::{Validation, ValidatorVerdict};

/// Choices of this start of the orchestrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOptions {
    /// What to write if the run is a new one; agent and limits also if it is not.
    pub fresh: RunStarted,
}

/// The time, as the driver measures it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The run's runtime in milliseconds, earlier starts included.
    pub runtime_ms: u64,
    /// The wall clock, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

/// An observation of the workspace between iterations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Near misses: what was nearly a claim.
    pub near_misses: Vec<NearMiss>,
    /// Digest of the tree.
    pub tree: String,
    /// The same without artefacts, if there are any.
    pub work: Option<String>,
    /// The files in the evidence folders.
    pub evidence: ObservedEvidence,
    /// What the iteration changed, if that is known.
    pub changes: Option<Changes>,
    /// What the initializer has still to produce; `None` if nothing was looked for.
    pub missing_products: Option<Vec<String>>,
}

/// The end of an iteration, as reported by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterationEnd {
    /// How it ended. Recorded as `StoppedEarly` if the machine had cancelled it.
    pub outcome: IterationOutcome,
    /// What the agent used.
    pub usage: Usage,
    /// The agent promises to report what it costs.
    pub promises_cost: bool,
    /// The agent's final text speaks of being done.
    pub says_done: bool,
    /// It says so of the whole task.
    pub says_all_done: bool,
    /// How many tools the agent called, if its adapter counts them.
    pub tool_calls: Option<u64>,
    /// Names of processes that the agent left behind and that were killed.
    pub left_behind: Vec<String>,
    /// Processes that could not be killed.
    pub survived: Vec<Survivor>,
}

impl IterationEnd {
    /// An end of which nothing but the outcome is known.
    #[must_use]
    pub fn new(outcome: IterationOutcome) -> Self {
        Self {
            outcome,
            usage: Usage::default(),
            promises_cost: false,
            says_done: false,
            says_all_done: false,
            tool_calls: None,
            left_behind: Vec::new(),
            survived: Vec::new(),
        }
    }
}

/// A control, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedControl {
    /// Where it came from.
    pub origin: ControlOrigin,
    /// What it asks for.
    pub control: Control,
}

/// The result of running the checks once before any work is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaselineCheck {
    /// The verdicts of the required validators that run something, in order.
    pub verdicts: Vec<ValidatorVerdict>,
    /// The tree after the last one.
    pub tree: String,
    /// Digests of the files in the evidence folders then.
    pub evidence: Vec<String>,
    /// New files that each validator left.
    pub artefacts: BTreeMap<String, Vec<String>>,
    /// Warnings to the user about what validators did to the workspace.
    pub warnings: Vec<String>,
    /// Those that cannot run whatever the work is, each with why.
    pub unable: Vec<String>,
    /// Why nothing can be accepted whatever the work is: what is checked does not stay as it is meanwhile.
    pub hopeless: Vec<String>,
    /// Broken off by a request to stop: the verdicts do not count.
    pub interrupted: bool,
    /// Broken off by `limits.max_runtime`: the verdicts do not count.
    pub out_of_time: bool,
}

/// What became of an order to save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveResult {
    /// The id of the checkpoint.
    pub checkpoint: Option<String>,
    /// The id of the commit.
    pub commit: Option<String>,
    /// Files that were not stored, and why.
    pub skipped: Vec<String>,
    /// Why there is no checkpoint or no commit, and what else a person is to know of what was stored.
    pub problems: Vec<String>,
    /// Why there is no commit, as the next agent is told.
    pub commit_problem: Option<String>,
    /// The tree is another than before, since the commit ran hooks.
    pub tree_changed: bool,
}

/// The end of the setup, as reported by the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupEnd {
    /// Why it failed, for the agent.
    pub problem: Option<String>,
    /// The tree as it left it; `None` if that could not be observed.
    pub tree: Option<String>,
    /// Ended by a request to stop.
    pub interrupted: bool,
    /// Ended by `limits.max_runtime`.
    pub out_of_time: bool,
}

/// A review that begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewStart {
    /// The validator whose verdict it is.
    pub validator: String,
    /// The agent that reviews.
    pub agent: String,
    /// What it is charged at least if its end never becomes known.
    pub reservation: Usd,
}

/// A review that has ended, however it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewEnd {
    /// The validator whose verdict it is.
    pub validator: String,
    /// The agent that reviewed.
    pub agent: String,
    /// What it used.
    pub usage: Usage,
    /// The agent costs something, and did not come to an end by which its cost would be known.
    pub is_cost_missing: bool,
}

/// A timer that expired while the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// `limits.iteration_timeout`.
    IterationTimeout,
    /// `limits.idle_timeout`.
    Idle,
    /// `limits.max_runtime`.
    MaxRuntime,
    /// The iteration has to be handed off.
    Handoff,
    /// Time to record the clock.
    Clock,
}

/// Until when a provider accepts no requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it said, for people.
    pub reason: String,
    /// When it accepts requests again, in milliseconds since the Unix epoch.
    pub until_ms: u64,
}

/// A report of the driver to the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)]
pub enum Input {
    /// The orchestrator was started on this run, new or not.
    Started(StartOptions),
    /// The standing claims and those of the final message, before anything slow begins.
    ClaimsFound(Vec<Claim>),
    /// The workspace was gone, and this empty folder was made in its place.
    WorkspaceMade(FileIdentity),
    /// A person has changed the prompt since the last iteration: the digest of what it asks for now.
    TaskChanged(String),
    /// The workspace was observed.
    Observed(Observation),
    /// The run was asked to stop, or its time was used up, before the workspace was observed, or while git
    /// was at work on it.
    ObservationSkipped,
    /// What the last iteration left was stored in git, or could not be.
    Saved(SaveResult),
    /// The setup of the workspace begins.
    SetupStarted,
    /// The setup of the workspace has ended, before the effect that needs it was performed. That is ordered again.
    SetupFinished(SetupEnd),
    /// The commands of the user that [`State::due_hook`](super::State::due_hook) names have ended, before the effect that is
    /// performed after them. That is ordered again.
    HookFinished(HookEnd, Box<Effect>),
    /// The agent claimed something while it runs.
    Claimed(Claim),
    /// The iteration's sums so far.
    Usage(Usage),
    /// How full the running iteration's context is.
    Context(ContextUsage),
    /// How much of a rate window is used.
    RateWindow(RateWindow),
    /// The model that the agent reports.
    Model(String),
    /// The agent left a note.
    Note(String),
    /// The agent asked for a preview of the validation and got this result.
    Previewed {
        /// Every required validator accepted.
        accepted: bool,
        /// Why not, for the agent.
        reasons: Vec<String>,
    },
    /// Files that appeared during a validation whose end was not recorded.
    Artefacts(Vec<String>),
    /// The agent cannot be used, for this reason; the next one takes over.
    AgentUnavailable(String),
    /// The agent has ended and its process tree is gone.
    IterationEnded(IterationEnd),
    /// The checks have run before any work was done.
    Baseline(BaselineCheck),
    /// Processes of the agent survive and cannot be killed; a message that names them. Answers
    /// [`Effect::Observe`] instead of an observation.
    ProcessesSurvived(String),
    /// An agent begins to review the work, beside a validation.
    ReviewStarted(ReviewStart),
    /// The review has ended. Its verdict is one of the validation.
    ReviewEnded(ReviewEnd),
    /// The validators have run.
    Validated(Validation),
    /// What made the checks of the completion green was tried out; `None` if that was broken off, or there is nothing to say.
    Explained(Option<ExplainedCompletion>),
    /// A pause or wait is over.
    WaitFinished,
    /// The budget of all runs of the user has no room for an iteration. Answers [`Effect::Prepare`] instead of a prompt.
    UserBudgetReached {
        /// Which limit is reached, for people.
        reason: String,
        /// When its period ends, in milliseconds since the Unix epoch.
        until_ms: u64,
    },
    /// The agent's provider has refused requests of another run. Answers [`Effect::Prepare`] instead of a prompt.
    ProviderRefused(Refusal),
    /// A person asks something of the run.
    Control(ReceivedControl),
    /// The running agent is given the guidance with these ids.
    GuidanceTaken(Vec<String>),
    /// The pause of the run has ended, or has to end: it was asked to stop, or a limit is reached.
    HoldFinished,
    /// The prompt for this iteration is read.
    Prepared {
        /// As ordered by [`Effect::Prepare`].
        start: StartIteration,
        /// Digest of the prompt file's content.
        prompt: String,
        /// Digests of what the agent is given.
        given: LaunchDigests,
    },
    /// A timer expired.
    Timer(Timer),
    /// The user or the system asks the run to stop.
    Signal,
    /// The run has to stop because its terminal went away.
    Hangup,
    /// A warning to record.
    Warning(String),
}

impl Input {
    /// Returns its name for the log, the same as of the record that it leads to, if it leads to one.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::ClaimsFound(_) => "claims_found",
            Self::WorkspaceMade(_) => "workspace_made",
            Self::TaskChanged(_) => "task_changed",
            Self::Observed(_) => "observed",
            Self::ObservationSkipped => "observation_skipped",
            Self::Saved(_) => "saved",
            Self::SetupStarted => "setup_started",
            Self::SetupFinished(_) => "setup_finished",
            Self::HookFinished(..) => "hook_finished",
            Self::Claimed(_) => "claimed",
            Self::Usage(_) => "usage",
            Self::Context(_) => "context",
            Self::RateWindow(_) => "rate_window",
            Self::Model(_) => "model",
            Self::Note(_) => "note",
            Self::Previewed { .. } => "previewed",
            Self::Artefacts(_) => "artefacts",
            Self::AgentUnavailable(_) => "agent_unavailable",
            Self::IterationEnded(_) => "iteration_ended",
            Self::Baseline(_) => "baseline",
            Self::ProcessesSurvived(_) => "processes_survived",
            Self::ReviewStarted(_) => "review_started",
            Self::ReviewEnded(_) => "review_ended",
            Self::Validated(_) => "validated",
            Self::Explained(_) => "explained",
            Self::WaitFinished => "wait_finished",
            Self::UserBudgetReached { .. } => "user_budget_reached",
            Self::ProviderRefused(_) => "provider_refused",
            Self::Control(_) => "control_received",
            Self::GuidanceTaken(_) => "guidance_delivered",
            Self::HoldFinished => "hold_finished",
            Self::Prepared { .. } => "prepared",
            Self::Timer(_) => "timer",
            Self::Signal | Self::Hangup => "signal",
            Self::Warning(_) => "warning",
        }
    }
}

/// The parameters of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartIteration {
    /// Its number.
    pub iteration: u64,
    /// From 1.
    pub attempt: u32,
    /// Why it is started.
    pub trigger: Trigger,
    /// What may still be spent.
    pub budget: Budget,
    /// What it is charged at least if its end never becomes known.
    pub reservation: Usd,
}

/// An order to save what an iteration left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveOrder {
    /// The iteration; 0 is the start of the run.
    pub iteration: u64,
    /// The message of the commit, if one is to be made beside the checkpoint.
    pub commit: Option<String>,
}

/// An order of the machine to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)]
pub enum Effect {
    /// Append to the journal; synced to disk if the record is a barrier.
    Append(Record),
    /// Bring the latch file up to date.
    Latch,
    /// Observe the workspace: answer with [`Input::Observed`].
    Observe,
    /// Store in git what the last iteration left: answer with [`Input::Saved`].
    Save(SaveOrder),
    /// Run the required validators that run something: answer with [`Input::Baseline`].
    CheckBaseline,
    /// Run the validators on this claim: answer with [`Input::Validated`].
    Validate(Claim),
    /// Find out what made the checks of the completion green: answer with [`Input::Explained`].
    Explain,
    /// Read the prompt: answer with [`Input::Prepared`].
    Prepare(StartIteration),
    /// Start the agent: answer with [`Input::IterationEnded`] after any number of other inputs.
    Start(StartIteration),
    /// Stop the agent early.
    Cancel(CancelReason),
    /// Wait between two iterations, longer after failures, then answer with [`Input::WaitFinished`].
    Pause {
        /// Consecutive failed iterations.
        failures: u32,
    },
    /// Wait until that time, in milliseconds since the Unix epoch, then [`Input::WaitFinished`].
    WaitUntil(u64),
    /// Wait, without using up runtime, until the pause of the run ends: answer with [`Input::HoldFinished`].
    Hold,
    /// The run has stopped, for good or until it is resumed.
    Finish {
        /// Why.
        reason: StopReason,
        /// For people.
        message: String,
    },
}
