//! What the machine is told and what it wants done.

use std::collections::BTreeMap;

use super::changes::Changes;
use super::evidence::ObservedEvidence;
use super::limits::StopReason;
use super::pins::FilePin;
use super::record::{Given, NamedVerdict, Outcome, Record, RunStarted, Trigger};
use super::state::Context;
use ralph_orchestrator_contract::{
    Budget, CancelReason, Claim, EvidenceFile, NearMiss, Survivor, Usage, Usd,
};

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

/// What was seen in the workspace between iterations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What was nearly a claim.
    pub near_misses: Vec<NearMiss>,
    /// Digest of the tree.
    pub tree: String,
    /// The same without artefacts, if there are any.
    pub work: Option<String>,
    /// What lies in the evidence folders.
    pub evidence: ObservedEvidence,
    /// What the iteration changed, if that is known.
    pub changes: Option<Changes>,
}

/// How the agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How. A cancellation that the machine asked for is told as `Cut`, whatever the agent says.
    pub outcome: Outcome,
    /// Its figures.
    pub usage: Usage,
    /// Its text speaks of being done.
    pub says_done: bool,
    /// It says so of the whole task.
    pub says_all_done: bool,
    /// How many tools it called, if its adapter can tell.
    pub tool_calls: Option<u64>,
    /// Names of processes that were left and ended.
    pub left_behind: Vec<String>,
    /// Processes that could not be ended.
    pub survived: Vec<Survivor>,
}

/// The outcome of running all validators once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// All verdicts, in order.
    pub verdicts: Vec<NamedVerdict>,
    /// The tree before the first validator.
    pub tree_before: String,
    /// The tree after the last one, without what became of artefacts.
    pub tree_after: String,
    /// The tree after the last one.
    pub tree_left: String,
    /// What each validator left that was not there before.
    pub artefacts: BTreeMap<String, Vec<String>>,
    /// What the user should know of what validators did to the workspace.
    pub warnings: Vec<String>,
    /// What was done to protected paths meanwhile, for the agent: nothing is accepted then.
    pub tampering: Vec<String>,
    /// Accepted evidence, kept safe already.
    pub evidence: Vec<EvidenceFile>,
    /// Digest of the prompt, claims aside.
    pub task: String,
    /// It was broken off by a signal: says nothing.
    pub interrupted: bool,
    /// It was broken off by `limits.max_runtime`: says nothing.
    pub out_of_time: bool,
}

/// The outcome of running the checks once before any work is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaselineCheck {
    /// The verdicts of the required validators that run something, in order.
    pub verdicts: Vec<NamedVerdict>,
    /// The tree after the last one.
    pub tree: String,
    /// Digests of what lies in the evidence folders then.
    pub evidence: Vec<String>,
    /// What each validator left that was not there before.
    pub artefacts: BTreeMap<String, Vec<String>>,
    /// What the user should know of what validators did to the workspace.
    pub warnings: Vec<String>,
    /// It was broken off by a signal: says nothing.
    pub interrupted: bool,
    /// It was broken off by `limits.max_runtime`: says nothing.
    pub out_of_time: bool,
}

/// A time that has come while the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// `limits.iteration_timeout`.
    IterationTimeout,
    /// `limits.idle_timeout`.
    Idle,
    /// `limits.max_runtime`.
    MaxRuntime,
    /// Time to note how much time has passed.
    Tick,
}

/// What the driver tells the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)]
pub enum Input {
    /// The orchestrator was started on this run, new or not.
    Started(StartOptions),
    /// The claims that stand or were made in the final message: before anything slow begins.
    ClaimsFound(Vec<Claim>),
    /// The workspace was gone, and this empty folder was made in its place.
    WorkspaceMade(FilePin),
    /// The workspace was looked at.
    Looked(Look),
    /// The run was asked to stop, or its time was used up, before the workspace was looked at.
    NotLooked,
    /// A claim was seen while the agent runs.
    ClaimSeen(Claim),
    /// The iteration's sums so far.
    Used(Usage),
    /// How full the running iteration's context is.
    ContextSeen(Context),
    /// The agent told which model it uses.
    ModelSeen(String),
    /// The agent left a note.
    Noted(String),
    /// The agent asked what would become of its work, and this is the answer.
    Judged {
        /// Every required validator accepted.
        accepted: bool,
        /// Why not, for the agent.
        reasons: Vec<String>,
    },
    /// What validators left whose end nobody saw.
    ArtefactsFound(Vec<String>),
    /// The agent cannot even begin, for this reason; another one has to.
    AgentOut(String),
    /// The agent has ended and its process tree is gone.
    Ended(Ended),
    /// The checks have run before any work was done.
    BaselineChecked(BaselineCheck),
    /// Processes of the agent live on and cannot be ended, which ones in words for people: the answer to
    /// [`Effect::Look`] where it cannot be given.
    Survived(String),
    /// The validators have run.
    Validated(Validation),
    /// A pause or wait is over.
    Rested,
    /// The prompt for this iteration is read.
    Prepared {
        /// As it came with [`Effect::Prepare`].
        start: StartIteration,
        /// Digest of the prompt file's content.
        prompt: String,
        /// What the agent is given.
        given: Given,
    },
    /// A time has come.
    Timer(Timer),
    /// The user or the system wants the run to end.
    Signal,
    /// Something the user should know later too.
    Warn(String),
}

/// What an iteration is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartIteration {
    /// Its number.
    pub iteration: u64,
    /// From 1.
    pub attempt: u32,
    /// Why.
    pub trigger: Trigger,
    /// What may still be spent.
    pub budget: Budget,
    /// What it is charged at least if its end is never known.
    pub reservation: Usd,
}

/// What the machine wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)]
pub enum Effect {
    /// Append to the journal; safely, if the record is a barrier.
    Append(Record),
    /// Bring the latch file up to date.
    Latch,
    /// Look at the workspace: answer with [`Input::Looked`].
    Look,
    /// Run the required validators that run something: answer with [`Input::BaselineChecked`].
    CheckBaseline,
    /// Run the validators on this claim: answer with [`Input::Validated`].
    Validate(Claim),
    /// Read the prompt: answer with [`Input::Prepared`].
    Prepare(StartIteration),
    /// Start the agent: answer with [`Input::Ended`] after any number of other inputs.
    Start(StartIteration),
    /// End the agent early.
    Cancel(CancelReason),
    /// Wait between two iterations, longer after failures, then answer with [`Input::Rested`].
    Pause {
        /// Consecutive failed iterations.
        failures: u32,
    },
    /// Wait until that time, in milliseconds since the Unix epoch, then [`Input::Rested`].
    WaitUntil(u64),
    /// The run is over, or over for now.
    Finish {
        /// Why.
        reason: StopReason,
        /// For people.
        message: String,
    },
}
