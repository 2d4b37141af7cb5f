//! What a job asks for.

use std::collections::{BTreeMap, BTreeSet};

use super::attempts::Trial;
use crate::trial::Column;

/// The matrix of a job: columns, tasks and trials in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedJob {
    /// Each column; the others are compared with the first one.
    pub columns: Vec<PlannedColumn>,
}

/// A column of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedColumn {
    /// The column.
    pub column: Column,
    /// Its tasks.
    pub tasks: Vec<PlannedTask>,
}

/// A cell of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// The task's name.
    pub task: String,
    /// Its trials.
    pub trials: u64,
}

impl PlannedJob {
    /// Returns the full matrix: every column with every task, as many trials each.
    #[must_use]
    pub fn from_matrix(columns: &[Column], tasks: &[String], trials: u32) -> Self {
        let tasks: Vec<PlannedTask> = tasks
            .iter()
            .map(|task| PlannedTask { task: task.clone(), trials: u64::from(trials) })
            .collect();
        let columns = columns
            .iter()
            .map(|column| PlannedColumn { column: column.clone(), tasks: tasks.clone() })
            .collect();
        Self { columns }
    }

    /// Returns the plan with the columns and tasks of these trials that it lacks, with no trial planned.
    pub(super) fn with_trials(&self, trials: &[Trial<'_>]) -> Self {
        let mut plan = self.clone();
        let mut missing: BTreeMap<&Column, BTreeSet<&str>> = BTreeMap::new();
        for key in trials.iter().map(Trial::key) {
            missing.entry(&key.column).or_default().insert(&key.task);
        }
        for column in &mut plan.columns {
            let mut tasks = missing.remove(&column.column).unwrap_or_default();
            for task in &column.tasks {
                tasks.remove(task.task.as_str());
            }
            column.tasks.extend(tasks.into_iter().map(PlannedTask::from_unplanned));
        }
        plan.columns.extend(missing.into_iter().map(|(column, tasks)| PlannedColumn {
            column: column.clone(),
            tasks: tasks.into_iter().map(PlannedTask::from_unplanned).collect(),
        }));
        plan
    }
}

impl PlannedTask {
    fn from_unplanned(task: &str) -> Self {
        Self { task: task.to_owned(), trials: 0 }
    }
}
