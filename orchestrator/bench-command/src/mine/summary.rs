//! What a walk has come to.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_orchestrator_bench_run::mining::{DropReason, MiningOutcome};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{count, one_line};
use serde_json::json;

/// Digits of a commit's id that people see.
const SHORT: usize = 10;
/// Characters of what is said of one commit.
const LONGEST_DETAIL: usize = 300;

/// What became of the commits that a walk looked at, the newest first.
#[derive(Default)]
pub(super) struct WalkSummary {
    commits: Vec<(String, MiningOutcome)>,
    /// A stop was requested before the end.
    pub(super) is_stopped: bool,
}

impl WalkSummary {
    pub(super) fn add(&mut self, commit: String, outcome: MiningOutcome) {
        self.commits.push((commit, outcome));
    }

    /// Returns how many tasks there are.
    pub(super) fn count_tasks(&self) -> usize {
        self.list_tasks().count()
    }

    /// Returns the names of the tasks.
    pub(super) fn list_tasks(&self) -> impl Iterator<Item = &str> {
        self.commits.iter().filter_map(|(_, outcome)| match outcome {
            MiningOutcome::Taken(task) => Some(task.as_str()),
            MiningOutcome::Dropped(_) => None,
        })
    }

    fn list_dropped(&self) -> impl Iterator<Item = (&str, &DropReason)> {
        self.commits.iter().filter_map(|(commit, outcome)| match outcome {
            MiningOutcome::Taken(_) => None,
            MiningOutcome::Dropped(reason) => Some((commit.as_str(), reason)),
        })
    }

    /// Prints it as one JSON object.
    pub(super) fn print_json(&self, folder: &Path) {
        let mut dropped: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, reason) in self.list_dropped() {
            *dropped.entry(reason.word()).or_default() += 1;
        }
        let commit = |(commit, outcome): &(String, MiningOutcome)| match outcome {
            MiningOutcome::Taken(task) => json!({ "commit": commit, "task": task }),
            MiningOutcome::Dropped(reason) => json!({
                "commit": commit,
                "dropped": reason.word(),
                "reason": reason.to_string(),
            }),
        };
        output::json(&json!({
            "looked_at": self.commits.len(),
            "taken": self.count_tasks(),
            "dropped": dropped,
            "tasks": self.list_tasks().map(|task| folder.join(task)).collect::<Vec<_>>(),
            "commits": self.commits.iter().map(commit).collect::<Vec<_>>(),
            "is_stopped": self.is_stopped,
        }));
    }

    /// Prints it as a table.
    pub(super) fn print(&self, branch: &str, folder: &Path) {
        let looked = count(self.commits.len() as u64, "commit");
        output::result(&format!("looked at  {looked} of {branch}"));
        let tasks = self.count_tasks();
        output::result(&format!(
            "taken      {} in {}",
            count(tasks as u64, "task"),
            folder.display()
        ));
        self.list_tasks().for_each(|task| output::result(&format!("  {task}")));
        let mut reasons: BTreeMap<&str, Vec<(&str, &DropReason)>> = BTreeMap::new();
        for (commit, reason) in self.list_dropped() {
            reasons.entry(reason.summary()).or_default().push((commit, reason));
        }
        output::result(&format!("dropped    {}", self.list_dropped().count()));
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, commits)| std::cmp::Reverse(commits.len()));
        for (summary, commits) in reasons {
            output::result(&format!("  {:>5}  {summary}", commits.len()));
            for (commit, reason) in commits.into_iter().filter(|(_, reason)| is_named(reason)) {
                output::result(&format!("         {}", describe(commit, reason)));
            }
        }
    }
}

/// Whether each commit that was dropped for this is named: somebody may want to see to it.
pub(super) const fn is_named(reason: &DropReason) -> bool {
    matches!(
        reason,
        DropReason::RedFix(_)
            | DropReason::Flaky(_)
            | DropReason::NotJudged(_)
            | DropReason::Refused(_)
    )
}

/// Returns what is said of one commit.
pub(super) fn describe(commit: &str, reason: &DropReason) -> String {
    format!("{} {}", shorten(commit), one_line(&reason.to_string(), LONGEST_DETAIL))
}

/// Returns the beginning of an id.
pub(super) fn shorten(commit: &str) -> &str {
    commit.get(..SHORT).unwrap_or(commit)
}
