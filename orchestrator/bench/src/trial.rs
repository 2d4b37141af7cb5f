//! What is known of a trial.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::Machine;

use ralph_orchestrator_contract::Usage;

/// The key of a reward file with one number.
pub const REWARD: &str = "reward";

/// The agent that performs the task's own solution.
pub const ORACLE: &str = "oracle";
/// The agent that does nothing.
pub const NOP: &str = "nop";

/// What is compared: an agent, and the variant of the configuration that it runs with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Column {
    /// The agent's name: one of `[agents]`, an adapter's, "oracle" or "nop".
    pub agent: String,
    /// The variant's name; none for the configuration as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variant {
            Some(variant) => write!(f, "{}+{variant}", self.agent),
            None => f.write_str(&self.agent),
        }
    }
}

/// Which trial of a job: a cell of the matrix, and the number of the repetition, from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialKey {
    /// The column.
    #[serde(flatten)]
    pub column: Column,
    /// The task's name.
    pub task: String,
    /// The repetition, from 1.
    pub trial: u32,
}

impl fmt::Display for TrialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}, trial {}", self.column, self.task, self.trial)
    }
}

/// Whose doing it is that a trial did not go as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The agent crashed, hung, or ran out of its time or its context. Its work is verified all the same.
    Agent,
    /// A budget was used up. The work is verified all the same.
    Budget,
    /// The provider of the model: not authenticated, no credit, overloaded, no such model.
    Provider,
    /// The environment of the task could not be made.
    Sandbox,
    /// The verifier left no valid reward.
    Verifier,
    /// Anything else on this machine: no space, no memory, a file that cannot be read.
    Infrastructure,
    /// Somebody stopped it.
    Cancelled,
}

/// Why a trial did not go as it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Whose doing it is.
    pub cause: Cause,
    /// The kind, in words that tools compare: "AgentTimeoutError", "RewardFileNotFoundError".
    pub kind: String,
    /// What happened, for people.
    pub message: String,
}

/// What an agent did to the verification rather than to the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheatKind {
    /// It wrote a reward file.
    WroteReward,
    /// It changed files that the verifier brings along.
    EditedTests,
    /// It removed files that the verifier brings along.
    DeletedTests,
    /// It reached for the folders of the tests or the solution.
    ReachedForSolution,
}

/// Something an agent did to the verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheatFinding {
    /// What it did.
    pub kind: CheatKind,
    /// The path, as the agent saw it.
    pub path: String,
}

/// The workspace as an iteration left it, verified after the trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationReward {
    /// The iteration, from 1.
    pub iteration: u64,
    /// The rewards; none if the verifier left no valid one.
    pub rewards: Option<BTreeMap<String, f64>>,
    /// Cost of the trial up to its end, in US dollars, as far as it is known.
    pub cost_usd: Option<f64>,
    /// Time from the beginning of the first iteration to its end.
    pub elapsed_ms: u64,
}

impl IterationReward {
    /// The reward, by the rule of [`TrialRecord::reward`]. None if the verifier left no valid one.
    #[must_use]
    pub fn reward(&self) -> Option<f64> {
        self.rewards.as_ref().and_then(reduce_rewards)
    }
}

/// Times of the parts of a trial, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Durations {
    /// Making the environment.
    pub setup_ms: u64,
    /// The run: agent and validators.
    pub run_ms: u64,
    /// The verification.
    pub verifier_ms: u64,
}

/// What a task wants of the machine at most, in the unit of its key.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceCeiling {
    /// How much.
    pub amount: f64,
    /// Whether its processes could get no more.
    pub enforced: bool,
}

/// Where the result of a trial comes from that was not performed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReusedTrial {
    /// The id of the job that performed it.
    pub job: String,
    /// The folder of the attempt there.
    pub folder: PathBuf,
}

/// What a verification that was repeated after the trial gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regrading {
    /// When it was repeated.
    pub time: Timestamp,
    /// Digest of the task whose verifier it was, in hexadecimal.
    pub task_digest: String,
    /// What it gave.
    pub rewards: BTreeMap<String, f64>,
}

/// A verification that was repeated after the trial, and what the trial itself had come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regraded {
    /// When it was repeated.
    pub time: Timestamp,
    /// Digest of the task whose verifier it was, in hexadecimal.
    pub task_digest: String,
    /// What the verifier of the trial gave; empty if it left no valid reward.
    pub first_rewards: BTreeMap<String, f64>,
    /// The fault of the trial, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_fault: Option<Fault>,
}

/// One attempt at a trial, as it ended. An attempt that failed for reasons of the machine or the provider is
/// followed by another; all are kept, and the last one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Which trial.
    #[serde(flatten)]
    pub key: TrialKey,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Digest of the task, in hexadecimal.
    pub task_digest: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
    /// What the verifier gave: empty if the work was not judged.
    #[serde(default)]
    pub rewards: BTreeMap<String, f64>,
    /// Why it did not go as it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The engine's run, if one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Why that run stopped, as `run --json` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The version of the agent, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The model, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The earlier job that performed it, if this one did not: its cost was paid there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<ReusedTrial>,
    /// The verification that `rewards` are of, if it was repeated after the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regraded: Option<Regraded>,
    /// Tokens and cost of the attempt.
    pub usage: Usage,
    /// Iterations of the run.
    pub iterations: u64,
    /// Claims of completion that its agent made.
    pub claims: u64,
    /// The run completed, so by a claim that its validators accepted or that was trusted.
    pub completed: bool,
    /// Times of its parts.
    pub durations: Durations,
    /// The work after each iteration, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<IterationReward>,
    /// What the agent did to the verification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cheating: Vec<CheatFinding>,
    /// The machine that performed it, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The share of the agent's time in which somebody on the machine waited for a processor, if that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<f64>,
    /// What the task wants of the machine at most: "cpus", "memory_mb", "storage_mb".
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ResourceCeiling>,
    /// What may have disturbed the measurement, for people: a busy machine, a limit that could not be set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl TrialRecord {
    /// Whether the work can be verified again: it was, or only the verifier is at fault that it was not.
    #[must_use]
    pub fn can_be_regraded(&self) -> bool {
        let is_of_verifier = |fault: &Fault| fault.cause == Cause::Verifier;
        self.reused.is_none()
            && (self.is_judged() || self.fault.as_ref().is_some_and(is_of_verifier))
    }

    /// Returns the record with the rewards of another verification.
    #[must_use]
    pub fn with_regrading(mut self, regrading: Regrading) -> Self {
        let Regrading { time, task_digest, rewards } = regrading;
        let first_rewards = std::mem::replace(&mut self.rewards, rewards);
        let first_fault = self.fault.clone();
        // What the agent ran out of, it ran out of.
        self.fault = self.fault.filter(|fault| fault.cause != Cause::Verifier);
        self.regraded = Some(Regraded { time, task_digest, first_rewards, first_fault });
        self
    }

    /// The reward: the one named "reward", else the mean of all. None if the work was not judged.
    #[must_use]
    pub fn reward(&self) -> Option<f64> {
        reduce_rewards(&self.rewards)
    }

    /// Returns the digest of the task whose verifier gave the rewards, in hexadecimal.
    #[must_use]
    pub fn verifier_digest(&self) -> &str {
        self.regraded.as_ref().map_or(&self.task_digest, |regraded| &regraded.task_digest)
    }

    /// Whether somebody stopped it, so that it is repeated.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| fault.cause == Cause::Cancelled)
    }

    /// Whether the work was judged, so that the trial counts.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        !self.rewards.is_empty()
    }

    /// Whether the reward is full.
    #[must_use]
    pub fn is_solved(&self) -> bool {
        self.reward().is_some_and(|reward| reward >= 1.0)
    }

    /// Whether the run completed although the verifier gives less than the full reward.
    #[must_use]
    pub fn is_false_completion(&self) -> bool {
        self.completed && self.is_judged() && !self.is_solved()
    }
}

/// Returns the reward named "reward", else the mean of all; none of nothing.
#[must_use]
pub fn reduce_rewards(rewards: &BTreeMap<String, f64>) -> Option<f64> {
    if let Some(reward) = rewards.get(REWARD) {
        return Some(*reward);
    }
    let count = u32::try_from(rewards.len()).ok().filter(|count| *count > 0)?;
    Some(rewards.values().sum::<f64>() / f64::from(count))
}
