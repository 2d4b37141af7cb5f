//! The facts of a run, as they stand in the journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::changes::Changes;
use super::limits::{Limits, StopReason};
use super::pins::{FilePin, Pins};
use ralph_orchestrator_contract::{
    CancelReason, Claim, EvidenceFile, NearMiss, Survivor, Usage, Usd, Verdict,
};

/// Whether a rejected claim stays pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterRejection {
    /// It stays pending and is validated again after each iteration.
    #[default]
    Keep,
    /// It is dropped; a new claim has to be made.
    RequireNewClaim,
}

/// What makes the validators run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionTrigger {
    /// A claim.
    #[default]
    Claimed,
    /// A claim, or an iteration that changed something.
    Proved,
}

/// What follows from checks that accept before any work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineMode {
    /// They are not run before the first iteration.
    #[default]
    Off,
    /// The user is warned.
    Warn,
    /// The run does not begin.
    MustFail,
}

/// A validator as it was when the run started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorInfo {
    /// Its name, unique in the run.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Whether completion needs its acceptance.
    pub required: bool,
    /// Whether it runs something, so that its verdict rests on more than what the agent wrote.
    #[serde(default = "yes")]
    pub runs_check: bool,
}

const fn yes() -> bool {
    true
}

/// What is frozen when the run starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The validators, in the order in which they run.
    pub validators: Vec<ValidatorInfo>,
    /// Digest of everything that decides about completion.
    pub digest: String,
    /// Whether a claim may be accepted without any required validator.
    pub trust_agent: bool,
    /// What becomes of a rejected claim.
    pub after_rejection: AfterRejection,
    /// What makes the validators run.
    #[serde(default)]
    pub when: CompletionTrigger,
    /// For detectors and validators that are no part of this program: digests of their code, by the
    /// names in the configuration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub code: BTreeMap<String, String>,
}

impl Policy {
    /// Whether a completion under this policy was really checked.
    #[must_use]
    pub fn validates(&self) -> bool {
        self.validators.iter().any(|validator| validator.required)
    }

    /// Whether a completion under this policy rests only on what the agent wrote: no required
    /// validator runs anything.
    #[must_use]
    pub fn is_evidence_only(&self) -> bool {
        let mut required = self.validators.iter().filter(|validator| validator.required);
        self.validates() && required.all(|validator| !validator.runs_check)
    }

    /// Whether both decide about completion in the same way. What an older journal does not say
    /// makes no difference.
    #[must_use]
    pub fn decides_like(&self, other: &Self) -> bool {
        let plain = |policy: &Self| {
            let mut policy = policy.clone();
            policy.validators.iter_mut().for_each(|validator| validator.runs_check = true);
            policy
        };
        plain(self) == plain(other)
    }
}

/// A validator's verdict under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedVerdict {
    /// The validator's name.
    pub validator: String,
    /// Whether completion needs its acceptance.
    pub required: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What it said.
    pub verdict: Verdict,
}

/// Why an iteration is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The first one.
    Initial,
    /// The previous one ended well and nothing was claimed.
    Continued,
    /// A claim was rejected.
    Rejected,
    /// The previous one failed.
    Failed,
    /// The orchestrator was started again.
    Resumed,
}

/// How an iteration ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    /// The agent ended well.
    Succeeded,
    /// The agent ended badly.
    Failed {
        /// The class of the failure, one word.
        class: String,
        /// For people.
        message: String,
    },
    /// The provider refuses requests for now: the iteration will be tried again.
    Deferred {
        /// The class of the failure, one word.
        class: String,
        /// For people.
        message: String,
        /// When it is worth trying again, in milliseconds since the Unix epoch, if it was said.
        until_ms: Option<u64>,
    },
    /// The orchestrator ended it.
    Cut {
        /// Why.
        reason: CancelReason,
    },
    /// The agent's own bound on turns or budget ended it.
    Bounded {
        /// For people.
        message: String,
    },
    /// The orchestrator itself was gone before the end was known.
    Lost,
}

/// The first record of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Version of the journal's format.
    pub version: u32,
    /// The adapter's name.
    pub agent: String,
    /// The names of those that take over, in this order, when an agent cannot go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// The workspace.
    pub workspace: String,
    /// What is frozen.
    pub policy: Policy,
    /// The limits; may be others after a restart.
    pub limits: Limits,
    /// Digest of the workspace tree.
    pub tree: String,
    /// Digests of what already lay in the evidence folders.
    pub evidence: Vec<String>,
    /// Not all of that is known.
    #[serde(default)]
    pub evidence_overflowed: bool,
    /// What follows from checks that accept before any work is done.
    #[serde(default)]
    pub baseline: BaselineMode,
    /// Stop after one iteration.
    pub once: bool,
    /// What the workspace and the prompt are, whatever is put in their place.
    #[serde(default)]
    pub pins: Pins,
}

/// What the agent of an iteration is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Digest over the fields.
    pub fingerprint: String,
    /// Digests, by field.
    pub fields: BTreeMap<String, String>,
    /// The agent's name.
    pub agent: String,
    /// What it said of its version.
    pub version: Option<String>,
    /// The model that is asked for, if one is configured.
    pub model: Option<String>,
}

impl Given {
    /// The field for what follows the prompt: how to claim completion.
    pub const INSTRUCTIONS: &'static str = "instructions";
}

/// One fact. Appended to the journal before anything that follows from it happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The run begins.
    RunStarted(RunStarted),
    /// The orchestrator was started again on this run.
    RunResumed {
        /// The adapter's name.
        agent: String,
        /// The names of those that take over when an agent cannot go on, all of them again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fallback: Vec<String>,
        /// The limits from now on.
        limits: Limits,
        /// Stop after one iteration.
        once: bool,
        /// What follows from checks that accept before any work is done, from now on.
        #[serde(default)]
        baseline: BaselineMode,
        /// What the workspace and the prompt are from now on.
        #[serde(default)]
        pins: Pins,
    },
    /// The workspace was deleted, and an empty one was made in its place.
    WorkspaceMade {
        /// The new folder.
        workspace: FilePin,
    },
    /// Time has passed.
    Tick {
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
        /// Digests of what the agent is given, by field, over which `fingerprint` is one.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        given: BTreeMap<String, String>,
        /// The agent's name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        agent: String,
        /// What it said of its version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The model that is asked for, if one is configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// What it is charged at least, should its end never be known.
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
    /// The model that the agent uses, when first told or another than before.
    Model {
        /// The iteration that told.
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
    /// The agent left a note for the iterations after it.
    Note {
        /// The iteration that left it.
        iteration: u64,
        /// The note, possibly cut.
        text: String,
    },
    /// The agent asked what would become of its work, and was told. Decides nothing.
    Judged {
        /// The iteration that asked.
        iteration: u64,
        /// Every required validator accepted, on one tree.
        accepted: bool,
        /// Why not, for the agent.
        reasons: Vec<String>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// An agent cannot go on, and another one takes over.
    AgentChanged {
        /// The adapter's name of the first agent, or the name of the one that took over before.
        from: String,
        /// The name of the one that takes over.
        to: String,
        /// Why, for people.
        reason: String,
    },
    /// A claim, when first seen.
    Claimed {
        /// The iteration in or after which it was seen; 0 before the first.
        iteration: u64,
        /// The claim.
        claim: Claim,
    },
    /// A claim that stood in a file is no longer there. Cancels nothing.
    Withdrawn {
        /// The detector.
        detector: String,
    },
    /// The orchestrator ends the iteration, or whatever else goes on, early.
    Cancelling {
        /// Why.
        reason: CancelReason,
    },
    /// An iteration is over and its process tree gone.
    IterationEnded {
        /// Its number.
        iteration: u64,
        /// How.
        outcome: Outcome,
        /// What it used, by its last word.
        usage: Usage,
        /// What it is charged.
        cost_usd: Usd,
        /// The agent's text speaks of being done.
        says_done: bool,
        /// It says so of the whole task.
        #[serde(default)]
        says_all_done: bool,
        /// How many tools it called, if its adapter can tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_calls: Option<u64>,
        /// Names of processes that were left and ended.
        left_behind: Vec<String>,
        /// Processes that could not be ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        survived: Vec<Survivor>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The workspace was looked at, before the first iteration or after one.
    Looked {
        /// The last iteration.
        iteration: u64,
        /// Digest of the tree.
        tree: String,
        /// The same without artefacts, if there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<String>,
        /// What was written into the evidence folders since they were last observed: digests of the
        /// contents by the stamps of their files.
        #[serde(default)]
        evidence_written: BTreeMap<String, String>,
        /// Everything that lies in the evidence folders is known.
        #[serde(default)]
        evidence_complete: bool,
        /// Digest over everything in the evidence folders.
        evidence: String,
        /// What was nearly a claim.
        near_misses: Vec<NearMiss>,
        /// What the iteration changed, if that is known; not before the first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<Changes>,
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
        verdicts: Vec<NamedVerdict>,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// Validators left files that were not there before. From now on they are no part of the work.
    Artefacts {
        /// The last iteration.
        iteration: u64,
        /// The validator; none if it is not known which one it was.
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
        verdicts: Vec<NamedVerdict>,
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
        /// Digest of the prompt, claims aside: what the task was.
        task: String,
        /// Whether any required validator looked at it.
        validated: bool,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// The provider refuses requests: waiting.
    Waiting {
        /// Until when, in milliseconds since the Unix epoch.
        until_ms: u64,
        /// For people.
        reason: String,
    },
    /// A human answered.
    Answered {
        /// The answer.
        text: String,
    },
    /// The run ended, or ended for now.
    Stopped {
        /// Why.
        reason: StopReason,
        /// For people.
        message: String,
        /// Runtime of the run so far, in milliseconds.
        runtime_ms: u64,
    },
    /// Something the user should know later too.
    Warning {
        /// The message.
        message: String,
    },
}

impl Record {
    /// Whether nothing may happen after it before it is safely on disk.
    #[must_use]
    pub const fn is_barrier(&self) -> bool {
        !matches!(
            self,
            Self::Tick { .. }
                | Self::Usage { .. }
                | Self::Model { .. }
                | Self::Context { .. }
                | Self::Note { .. }
                | Self::Judged { .. }
                | Self::Artefacts { .. }
                | Self::Withdrawn { .. }
                | Self::Cancelling { .. }
                | Self::Looked { .. }
                | Self::Waiting { .. }
                | Self::Warning { .. }
        )
    }
}

#[cfg(test)]
mod tests;
