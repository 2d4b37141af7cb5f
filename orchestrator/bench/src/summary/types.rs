//! The figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ralph_orchestrator_contract::Tokens;

use crate::host::Machine;
use crate::statistics::{Estimate, compute_mean, whole_to_f64};
use crate::trial::{Cause, CheatKind, Column};

/// A job in figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The job's name.
    pub job: String,
    /// Trials that the job asks for, whether they have ended or not.
    pub planned: u64,
    /// The confidence level of all intervals, such as 0.95.
    pub level: f64,
    /// Each column, in the order of the job.
    pub columns: Vec<ColumnSummary>,
    /// Each column against the first one.
    pub comparisons: Vec<Comparison>,
    /// The machines that performed the trials, by name, as far as that was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<UsedMachine>,
    /// What may have disturbed the measurement, each once.
    pub warnings: Vec<String>,
}

/// A column in figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSummary {
    /// The column.
    pub column: Column,
    /// Models that its trials named.
    pub models: Vec<String>,
    /// Trials that the job asks for.
    pub planned: u64,
    /// Trials that have ended, each with its last attempt; those that were interrupted have not.
    pub ended: u64,
    /// Trials whose work was judged: only these count for the score.
    pub judged: u64,
    /// Trials with full reward.
    pub solved: u64,
    /// Attempts that were repeated after a fault.
    pub retries: u64,
    /// Mean reward over tasks, clustered by task. None if nothing was judged.
    pub score: Option<Estimate>,
    /// The same without the tasks on which any trial of the job cheated or was shown to be able to.
    pub score_without_cheatable: Option<Estimate>,
    /// Unbiased estimate that at least one of k trials solves a task, mean over the tasks with k judged trials, by k.
    pub pass_at: BTreeMap<u32, Estimate>,
    /// Unbiased estimate that all of k trials solve a task, mean over the tasks with k judged trials, by k.
    pub pass_hat: BTreeMap<u32, Estimate>,
    /// Trials whose last attempt had a fault, by cause, judged or not.
    pub faults: BTreeMap<Cause, u64>,
    /// The same by kind.
    pub fault_kinds: BTreeMap<String, u64>,
    /// Cost of all attempts, those that were repeated included, in US dollars. None if attempts began a run and the cost
    /// of none of them is known.
    pub cost_usd: Option<f64>,
    /// Attempts that began a run and whose cost is not known: the figure above is then a lower bound.
    pub cost_unknown: u64,
    /// Part of the cost was computed from tokens and a price table.
    pub cost_estimated: bool,
    /// Cost for each solved trial, in US dollars: of all attempts, over solved trials. None if nothing was solved, or
    /// no cost is known.
    pub cost_per_solved_usd: Option<f64>,
    /// The interval of it, by a bootstrap over tasks; none with fewer than two tasks, or where solved tasks are so few
    /// that the upper end is not bounded.
    #[serde(default)]
    pub cost_per_solved_interval: Option<(f64, f64)>,
    /// Tokens of all attempts.
    pub tokens: Tokens,
    /// Median time of the runs of judged trials, in milliseconds.
    pub median_run_ms: Option<u64>,
    /// Figures of the loop.
    pub loop_figures: LoopFigures,
    /// Each task, in the order of the job.
    pub tasks: Vec<TaskSummary>,
    /// Trials in which the agent did something to the verification, in any attempt, by what it did.
    pub cheating: BTreeMap<CheatKind, u64>,
}

impl ColumnSummary {
    /// Returns what the score would be if all planned trials that were not judged had the reward 0, and if they had 1. None if all
    /// were judged, or none was planned.
    #[must_use]
    pub fn bound_score(&self) -> Option<(f64, f64)> {
        if self.judged >= self.planned {
            return None;
        }
        let with = |reward: f64| {
            let of_task = |task: &TaskSummary| {
                let judged = whole_to_f64(task.judged);
                let other = whole_to_f64(task.planned.saturating_sub(task.judged));
                (task.mean_reward.unwrap_or_default() * judged + reward * other) / (judged + other)
            };
            let tasks = self.tasks.iter().filter(|task| task.planned + task.judged > 0);
            compute_mean(&tasks.map(of_task).collect::<Vec<_>>())
        };
        with(0.0).zip(with(1.0))
    }
}

/// Figures of the loop around the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopFigures {
    /// Mean iterations of the judged trials.
    pub mean_iterations: Option<f64>,
    /// Median of the first iteration after which the work had the full reward, over the solved trials whose work
    /// was verified after each iteration.
    pub median_iterations_to_solve: Option<f64>,
    /// Mean reward after each iteration, from the first one; a trial that ended earlier keeps its last. Over the
    /// trials whose work was verified after the first iteration, and for the first 1,000 iterations.
    pub reward_by_iteration: Vec<f64>,
    /// Iterations after the work had the full reward, all trials together. None if the work of no trial was verified
    /// after each iteration.
    pub wasted_iterations: Option<u64>,
    /// Completed runs whose work has less than the full reward.
    pub false_completions: u64,
    /// Claims of completion of all trials.
    pub claims: u64,
}

/// A task of a column in figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSummary {
    /// The task's name.
    pub task: String,
    /// Trials that the job asks for.
    pub planned: u64,
    /// Trials whose work was judged.
    pub judged: u64,
    /// Trials with full reward.
    pub solved: u64,
    /// Mean reward of the judged trials.
    pub mean_reward: Option<f64>,
    /// Cost of all attempts, in US dollars, as far as it is known. None if attempts began a run and the cost of none of
    /// them is known.
    pub cost_usd: Option<f64>,
    /// Trials whose last attempt had a fault, by cause.
    pub faults: BTreeMap<Cause, u64>,
    /// A trial cheated on it, or was shown to be able to.
    pub is_cheatable: bool,
}

/// A machine, and what it performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsedMachine {
    /// The machine.
    #[serde(flatten)]
    pub machine: Machine,
    /// Trials whose last attempt was performed there, by column.
    pub trials: BTreeMap<String, u64>,
    /// The mean share of the agents' time in which somebody there waited for a processor, if that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<f64>,
}

/// Two columns on the tasks that both have results for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What the difference is taken from.
    pub baseline: Column,
    /// What is compared with it.
    pub candidate: Column,
    /// Tasks with judged trials in both.
    pub tasks: u64,
    /// Mean over tasks of candidate minus baseline, with the interval of paired differences. None without such
    /// tasks.
    pub difference: Option<Estimate>,
    /// Probability of such a difference if there is none, two-sided.
    pub p_value: Option<f64>,
    /// The same after Holm's correction for all comparisons of the report, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holm_p_value: Option<f64>,
    /// The test that `p_value` is of: "paired t", "McNemar, exact" with one 0/1 trial for each task in both, or
    /// "sign test, exact" where all differences are the same.
    pub test: String,
    /// Tasks on which the candidate is better.
    pub better: u64,
    /// Tasks on which it is worse.
    pub worse: u64,
}

impl Comparison {
    /// Whether the candidate is worse by more than chance explains, at this level of significance, such as 0.05.
    #[must_use]
    pub fn is_regression(&self, significance: f64) -> bool {
        self.difference.as_ref().is_some_and(|difference| difference.value < 0.0)
            && self.p_value.is_some_and(|p| p < significance)
    }
}
