//! The facts of a run, as recorded in the journal.

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_contract::{
    CancelReason, Claim, EvidenceFile, NearMiss, Survivor, Usage, Usd,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::changes::Changes;
use super::control::{Control, ControlOrigin};
use super::escalation::EscalationPlan;
use super::hook::{HookCommand, HookEvent};
use super::limits::{RunLimits, is_false};
use super::outcome::IterationOutcome;
use super::path_identities::{FileIdentity, PathIdentities};
use super::policy::{BaselineMode, FrozenPolicy};
use super::rate_window::RateWindow;
use super::stop::StopReason;
use super::verdict::ValidatorVerdict;

/// Why an iteration is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The first one.
    Initial,
    /// The previous one ended well, and nothing was claimed or what was claimed could not be checked.
    Continued,
    /// A claim was rejected.
    Rejected,
    /// The previous one failed.
    Failed,
    /// The orchestrator was started again.
    Resumed,
}

/// The first record of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Version of the journal's format.
    pub version: u32,
    /// The adapter's name.
    pub agent: String,
    /// The agents that take over, in this order, when one cannot continue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// The workspace.
    pub workspace: String,
    /// The frozen policy.
    pub policy: FrozenPolicy,
    /// The limits; a restart may change them.
    pub limits: RunLimits,
    /// Digest of the workspace tree.
    pub tree: String,
    /// Digests of the files that were in the evidence folders.
    pub evidence: Vec<String>,
    /// Not all of these files are listed.
    #[serde(default)]
    pub evidence_overflowed: bool,
    /// What happens if the checks accept before any work is done.
    #[serde(default)]
    pub baseline: BaselineMode,
    /// What is stored in git.
    #[serde(default, skip_serializing_if = "SaveMode::is_off")]
    pub saves: SaveMode,
    /// Stop after one iteration.
    pub once: bool,
    /// The agent works in a session of its own: only what its work is compared with is recorded now, and each later
    /// start is one iteration.
    #[serde(default, skip_serializing_if = "is_false")]
    pub attached: bool,
    /// Which files the workspace and the prompt are.
    #[serde(default)]
    pub identities: PathIdentities,
    /// Digest of the prompt, claims aside, with which the run begins.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The checks run in a checkout of the work, as it was recorded then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub checkout: bool,
    /// The events for which the user has commands; a restart may change them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hooks: BTreeSet<HookEvent>,
    /// Which stronger agents take over when; a restart may change it. `agent` is one of them then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<EscalationPlan>,
}

/// What is stored in git.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaveMode {
    /// Nothing.
    #[default]
    Off,
    /// A checkpoint after each iteration.
    Checkpoint,
    /// A checkpoint and a commit after each iteration.
    Iteration,
    /// A checkpoint after each iteration, and a commit after one whose context got full.
    Handoff,
}

impl SaveMode {
    /// Whether nothing is stored.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// Whether commits are made.
    #[must_use]
    pub const fn commits(self) -> bool {
        matches!(self, Self::Iteration | Self::Handoff)
    }
}

/// Digests of what the agent of an iteration is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchDigests {
    /// Digest over the fields.
    pub fingerprint: String,
    /// Digests, by field.
    pub fields: BTreeMap<String, String>,
    /// The agent's name.
    pub agent: String,
    /// The version that it reports.
    pub version: Option<String>,
    /// The model that is asked for, if one is configured.
    pub model: Option<String>,
    /// The role whose prompt it is, if roles have prompts.
    pub role: Option<String>,
    /// The file in which that was found, or "built-in".
    pub prompt_file: Option<String>,
    /// Ids of the answers and the guidance in it.
    pub controls: Vec<String>,
}

impl LaunchDigests {
    /// The field for what precedes the prompt, such as why a claim was rejected.
    pub const FEEDBACK: &'static str = "feedback";
    /// The field for what follows the prompt: how to claim completion.
    pub const INSTRUCTIONS: &'static str = "instructions";
}

/// A fact. Appended to the journal before anything that follows from it happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The run begins.
    RunStarted(RunStarted),
    /// The orchestrator was started again on this run.
    RunResumed {
        /// The adapter's name.
        agent: String,
        /// The agents that take over when one cannot continue, all of them again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fallback: Vec<String>,
        /// The limits from now on.
        limits: RunLimits,
        /// Stop after one iteration.
        once: bool,
        /// The agent works in a session of its own; the work since the start before is the iteration that follows.
        #[serde(default, skip_serializing_if = "is_false")]
        attached: bool,
        /// What happens if the checks accept before any work is done, from now on.
        #[serde(default)]
        baseline: BaselineMode,
        /// What is stored in git, from now on.
        #[serde(default, skip_serializing_if = "SaveMode::is_off")]
        saves: SaveMode,
        /// Which files the workspace and the prompt are from now on.
        #[serde(default)]
        identities: PathIdentities,
        /// The events for which the user has commands, from now on.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        hooks: BTreeSet<HookEvent>,
        /// Which stronger agents take over when, from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        escalation: Option<EscalationPlan>,
    },
    /// A person changed the prompt: from now on this is the task of the run.
    TaskChanged {
        /// Digest of the prompt, claims aside.
        task: String,
    },
    /// The workspace was deleted, and an empty one was made in its place.
    WorkspaceMade {
        /// The new folder.
        workspace: FileIdentity,
    },
    /// Time has passed.
    Clock {
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// An iteration begins.
    IterationStarted {
        /// Its number.
        iteration: u64,
        /// From 1; more than 1 after the provider refused requests or another agent took over.
        attempt: u32,
        /// Why.
        trigger: Trigger,
        /// Digest of the prompt file's content.
        prompt: String,
        /// Digest of everything that the agent is given: prompt, program, arguments, environment, files.
        fingerprint: String,
        /// The digests over which `fingerprint` is one, by field.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        given: BTreeMap<String, String>,
        /// The agent's name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        agent: String,
        /// The version that it reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The model that is asked for, if one is configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The role whose prompt it is given, if roles have prompts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// The file in which that prompt was found, or "built-in". `prompt` is the digest of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_file: Option<String>,
        /// Ids of the controls whose text it is given.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        controls: Vec<String>,
        /// What it is charged at least if its end never becomes known.
        reservation: Usd,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// What the iteration has used so far.
    Usage {
        /// Sums since its start.
        usage: Usage,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The model that the agent reports, when it is first known or changes.
    Model {
        /// The iteration.
        iteration: u64,
        /// The model.
        model: String,
    },
    /// How full the context of the running iteration is.
    Context {
        /// Tokens in it.
        used: u64,
        /// Tokens it can hold, if known.
        window: Option<u64>,
    },
    /// How much of a rate window of the provider is used.
    RateWindow(RateWindow),
    /// The agent left a note for the iterations after it.
    Note {
        /// The iteration that left it.
        iteration: u64,
        /// The note, possibly cut.
        text: String,
    },
    /// The agent asked for a preview of the validation and got this result. Decides nothing.
    Previewed {
        /// The iteration that asked.
        iteration: u64,
        /// Every required validator accepted, on one tree.
        accepted: bool,
        /// Why not, for the agent.
        reasons: Vec<String>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// An agent cannot continue, or does not get there, and another one takes over.
    AgentChanged {
        /// The adapter's name of the first agent, or the name of the one that took over before.
        from: String,
        /// The name of the one that takes over.
        to: String,
        /// Why, for people.
        reason: String,
        /// It is a stronger one: the agent before it could continue.
        #[serde(default, skip_serializing_if = "is_false")]
        escalated: bool,
    },
    /// A claim, when first seen.
    Claimed {
        /// The iteration in or after which it was seen; 0 before the first.
        iteration: u64,
        /// The claim.
        claim: Claim,
    },
    /// A standing claim is no longer in its file. Cancels nothing.
    MarkerRemoved {
        /// The detector.
        detector: String,
    },
    /// The orchestrator stops the iteration, or whatever else is going on, early.
    Cancelling {
        /// Why.
        reason: CancelReason,
        /// The terminal went away.
        #[serde(default, skip_serializing_if = "is_false")]
        is_hangup: bool,
    },
    /// An iteration is over and its process tree gone.
    IterationEnded {
        /// Its number.
        iteration: u64,
        /// How.
        outcome: IterationOutcome,
        /// What it used, by its last report.
        usage: Usage,
        /// What it is charged.
        cost_usd: Usd,
        /// The agent's final text speaks of being done.
        says_done: bool,
        /// It says so of the whole task.
        #[serde(default)]
        says_all_done: bool,
        /// How many tools it called, if its adapter counts them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_calls: Option<u64>,
        /// Names of processes that it left behind and that were killed.
        left_behind: Vec<String>,
        /// Processes that could not be killed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        survived: Vec<Survivor>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The workspace was observed, before the first iteration or after one.
    Observed {
        /// The last iteration.
        iteration: u64,
        /// Digest of the tree.
        tree: String,
        /// The same without artefacts, if there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<String>,
        /// What was written into the evidence folders since: digests of contents by stamps of files.
        #[serde(default)]
        evidence_written: BTreeMap<String, String>,
        /// All files in the evidence folders are listed.
        #[serde(default)]
        evidence_complete: bool,
        /// Digest over everything in the evidence folders.
        evidence: String,
        /// Near misses: what was nearly a claim.
        near_misses: Vec<NearMiss>,
        /// What the iteration changed, if that is known; not before the first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<Changes>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// What an iteration left was stored in git, as far as that was possible.
    Saved {
        /// The iteration; 0 is the start of the run.
        iteration: u64,
        /// The id of the checkpoint, which is under `refs/ralph/<run>/<iteration>`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<String>,
        /// The id of the commit on the branch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// Files that were not stored, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<String>,
        /// Why there is no checkpoint or no commit, and what else a person is to know of what was stored.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
        /// Why there is no commit, as the next agent is told: the next commit takes what this one would have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit_problem: Option<String>,
    },
    /// All products of the initializer are there: it is never started again in this run.
    Initialized {
        /// The last iteration; 0 if they were there before.
        iteration: u64,
    },
    /// An iteration of the initializer did not produce all that it has to.
    ProductsMissing {
        /// The iteration.
        iteration: u64,
        /// What is missing, and why.
        missing: Vec<String>,
    },
    /// The setup of the workspace begins. What it changes is no work.
    SetupStarted {
        /// The iteration that it is for.
        iteration: u64,
    },
    /// The setup of the workspace has ended.
    SetupFinished {
        /// The iteration that it is for.
        iteration: u64,
        /// Why it failed, for the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
        /// The tree as it left it; `None` if that could not be observed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The commands of the user for an event have ended.
    HookFinished {
        /// The event.
        event: HookEvent,
        /// The last iteration.
        iteration: u64,
        /// Those that were run, in order.
        commands: Vec<HookCommand>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// An agent begins to review the work that the checks accept.
    ReviewStarted {
        /// The last iteration.
        iteration: u64,
        /// The validator whose verdict it is.
        validator: String,
        /// The agent that reviews.
        agent: String,
        /// What it is charged at least if its end never becomes known.
        reservation: Usd,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The review has ended. Its verdict is in the record of the validation.
    ReviewEnded {
        /// The last iteration.
        iteration: u64,
        /// The validator whose verdict it is.
        validator: String,
        /// The agent that reviewed.
        agent: String,
        /// What it used, by its last report.
        usage: Usage,
        /// What it is charged.
        cost_usd: Usd,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The checks were run once before any work was done.
    Baseline {
        /// All of them accepted.
        accepted: bool,
        /// The tree as they left it.
        tree: String,
        /// Digests of what they left in the evidence folders.
        evidence: Vec<String>,
        /// Their verdicts.
        verdicts: Vec<ValidatorVerdict>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// Validators left new files. From now on they are no part of the work.
    Artefacts {
        /// The last iteration.
        iteration: u64,
        /// The validator, if it is known which one it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validator: Option<String>,
        /// Files, and folders with all that is in them, relative to the workspace. Bytes that are not
        /// UTF-8 as `\xNN`, a backslash doubled.
        paths: Vec<String>,
    },
    /// The pending claim was validated.
    Validated {
        /// The last iteration.
        iteration: u64,
        /// Every required validator accepted, on one tree.
        accepted: bool,
        /// The tree it was done on.
        tree: String,
        /// The tree as the validators left it, if it is not as the agent left it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree_left: Option<String>,
        /// All verdicts, in order.
        verdicts: Vec<ValidatorVerdict>,
        /// Why it was not accepted, for the agent.
        reasons: Vec<String>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The run is complete, for good.
    Completed {
        /// The last iteration.
        iteration: u64,
        /// Digest of the tree that was accepted.
        tree: String,
        /// The evidence that was accepted.
        evidence: Vec<EvidenceFile>,
        /// Digest of the policy under which it was accepted.
        policy: String,
        /// Digest of the prompt, claims aside, which identifies the task.
        task: String,
        /// Whether any required validator accepted it.
        validated: bool,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// What made the checks of the completion green, as far as it was tried out. Decides nothing.
    Explained {
        /// In sentences, for people.
        summary: String,
        /// Each part of the work, and what checks without it showed.
        explanation: Value,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The provider refuses requests, a rate window is nearly used up, or the budget of all runs of the user is: waiting.
    Waiting {
        /// Until when, in milliseconds since the Unix epoch.
        until_ms: u64,
        /// For people.
        reason: String,
        /// How long that is.
        #[serde(default)]
        wait_ms: u64,
    },
    /// A human answered.
    Answered {
        /// The answer.
        text: String,
        /// Who sent it; missing where `run` asked on the terminal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<ControlOrigin>,
    },
    /// A person asked something of the run. An answer has a record of its own, unless it was refused.
    ControlReceived {
        /// Who, and when.
        origin: ControlOrigin,
        /// What.
        control: Control,
        /// Why it cannot take effect.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// The running agent was given guidance.
    GuidanceDelivered {
        /// Its number.
        iteration: u64,
        /// Ids of the controls that sent it.
        ids: Vec<String>,
    },
    /// A pause that was requested is in effect: nothing goes on until it ends.
    Paused {
        /// Runtime of the run so far, in milliseconds. It stands still from now on.
        runtime_ms: u64,
    },
    /// The run stopped, for good or until it is resumed.
    Stopped {
        /// Why.
        reason: StopReason,
        /// For people.
        message: String,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// A warning to the user.
    Warning {
        /// The message.
        message: String,
    },
}

impl Record {
    /// Whether it ends a phase in which code of the agent may have run: what changes after the last of them is a person's.
    #[must_use]
    pub const fn ends_work(&self) -> bool {
        matches!(
            self,
            Self::IterationEnded { .. }
                | Self::Validated { .. }
                | Self::Baseline { .. }
                | Self::SetupFinished { .. }
                | Self::HookFinished { .. }
                | Self::Saved { .. }
        )
    }

    /// Whether it has to be synced to disk before anything follows.
    #[must_use]
    pub const fn is_barrier(&self) -> bool {
        !matches!(
            self,
            Self::Baseline { .. }
                | Self::SetupStarted { .. }
                | Self::SetupFinished { .. }
                | Self::Clock { .. }
                | Self::Usage { .. }
                | Self::Model { .. }
                | Self::Context { .. }
                | Self::RateWindow(_)
                | Self::Note { .. }
                | Self::Previewed { .. }
                | Self::Explained { .. }
                | Self::Artefacts { .. }
                | Self::MarkerRemoved { .. }
                | Self::Cancelling { .. }
                | Self::Observed { .. }
                | Self::Waiting { .. }
                | Self::Warning { .. }
        )
    }

    /// Returns the runtime of the run when it was recorded, if it says so.
    #[must_use]
    pub const fn runtime_ms(&self) -> Option<u64> {
        match self {
            Self::Clock { runtime_ms }
            | Self::IterationStarted { runtime_ms, .. }
            | Self::Usage { runtime_ms, .. }
            | Self::Previewed { runtime_ms, .. }
            | Self::IterationEnded { runtime_ms, .. }
            | Self::Observed { runtime_ms, .. }
            | Self::Baseline { runtime_ms, .. }
            | Self::SetupFinished { runtime_ms, .. }
            | Self::HookFinished { runtime_ms, .. }
            | Self::ReviewStarted { runtime_ms, .. }
            | Self::ReviewEnded { runtime_ms, .. }
            | Self::Validated { runtime_ms, .. }
            | Self::Completed { runtime_ms, .. }
            | Self::Explained { runtime_ms, .. }
            | Self::Paused { runtime_ms }
            | Self::Stopped { runtime_ms, .. } => Some(*runtime_ms),
            _ => None,
        }
    }

    /// Returns where the control came from that it records, if it records one.
    #[must_use]
    pub const fn control_origin(&self) -> Option<&ControlOrigin> {
        match self {
            Self::ControlReceived { origin, .. } => Some(origin),
            Self::Answered { origin, .. } => origin.as_ref(),
            _ => None,
        }
    }

    /// Returns why the control that this record holds cannot take effect, if it cannot.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::ControlReceived { refused, .. } => refused.as_deref(),
            _ => None,
        }
    }
}
