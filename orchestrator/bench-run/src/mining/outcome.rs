//! What became of a commit.

use std::fmt;

use ralph_orchestrator_bench::trial::{NOP, ORACLE, TrialRecord};
use serde::{Deserialize, Serialize};

/// How often base and fix are verified each.
const ROUNDS: usize = 2;

/// Why a commit is no task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum DropReason {
    /// It is the first one, or the history is cut off there.
    NoParent,
    /// It changes neither tests nor code.
    NoCode,
    /// It changes no tests.
    NoTests,
    /// It changes tests only.
    TestsOnly,
    /// It only removes tests.
    TestsRemoved,
    /// It changes what another repository has at this path.
    Submodule(String),
    /// Its message says nothing that could be asked for.
    NoPrompt,
    /// Nothing is known that runs its tests.
    NoTestCommand,
    /// No task can be made of it.
    Refused(String),
    /// Its tests accept the tree before it.
    GreenBase,
    /// Its tests reject its own tree; this is the last that they said.
    RedFix(String),
    /// Its tests accept a tree once, and reject it another time.
    Flaky(FlakyTree),
    /// Its tests came to no verdict.
    NotJudged(String),
}

/// A tree on which tests do not always come to the same verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlakyTree {
    /// The one before the commit.
    Base,
    /// That of the commit.
    Fix,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MiningOutcome {
    /// It is the task of this name.
    Taken(String),
    /// It is none.
    Dropped(DropReason),
}

impl DropReason {
    /// Whether it says something of the commit and not of this machine and its settings, so that it need not be found out
    /// again.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::NotJudged(_) | Self::Refused(_))
    }

    /// Returns the word that programs know it by.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NoParent => "no_parent",
            Self::NoCode => "no_code",
            Self::NoTests => "no_tests",
            Self::TestsOnly => "tests_only",
            Self::TestsRemoved => "tests_removed",
            Self::Submodule(_) => "submodule",
            Self::NoPrompt => "no_prompt",
            Self::NoTestCommand => "no_test_command",
            Self::Refused(_) => "refused",
            Self::GreenBase => "green_base",
            Self::RedFix(_) => "red_fix",
            Self::Flaky(_) => "flaky",
            Self::NotJudged(_) => "not_judged",
        }
    }

    /// Returns what it means, for all commits that share it.
    #[must_use]
    pub const fn summary(&self) -> &'static str {
        match self {
            Self::NoParent => "no commit before it in this history",
            Self::NoCode => "neither tests nor code changed",
            Self::NoTests => "no tests changed",
            Self::TestsOnly => "only tests changed",
            Self::TestsRemoved => "tests only removed",
            Self::Submodule(_) => "a submodule changed",
            Self::NoPrompt => "the message says nothing",
            Self::NoTestCommand => "no command that runs its tests",
            Self::Refused(_) => "no task can be made of it here",
            Self::GreenBase => "its tests pass without it",
            Self::RedFix(_) => "its tests fail with it",
            Self::Flaky(_) => "flaky",
            Self::NotJudged(_) => "its tests came to no verdict",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.summary())?;
        match self {
            Self::Submodule(detail)
            | Self::Refused(detail)
            | Self::RedFix(detail)
            | Self::NotJudged(detail) => {
                write!(f, ": {detail}")
            }
            Self::Flaky(FlakyTree::Base) => {
                f.write_str(": without it, its tests pass once and fail once")
            }
            Self::Flaky(FlakyTree::Fix) => {
                f.write_str(": with it, its tests pass once and fail once")
            }
            _ => Ok(()),
        }
    }
}

/// Returns why a task is none, from the trials of its own solution and of no work at all; nothing if it is one.
/// `find_last_line` returns the last that the tests said in a trial.
#[must_use]
pub fn judge_trials(
    records: &[&TrialRecord],
    find_last_line: &dyn Fn(&TrialRecord) -> String,
) -> Option<DropReason> {
    let of = |agent: &str| -> Vec<&TrialRecord> {
        records.iter().copied().filter(|record| record.key.column.agent == agent).collect()
    };
    let (base, fix) = (of(NOP), of(ORACLE));
    let all = base.iter().chain(&fix);
    let unjudged = all.clone().find(|record| !record.is_judged());
    if unjudged.is_some() || base.len() < ROUNDS || fix.len() < ROUNDS {
        let fault = unjudged.and_then(|record| record.fault.as_ref());
        let message = fault.map_or("it was not run", |fault| fault.message.as_str());
        return Some(DropReason::NotJudged(message.to_owned()));
    }
    let count = |records: &[&TrialRecord]| records.iter().filter(|r| r.is_solved()).count();
    match (count(&base), count(&fix)) {
        (0, solved) if solved == fix.len() => None,
        (solved, _) if solved > 0 && solved < base.len() => {
            Some(DropReason::Flaky(FlakyTree::Base))
        }
        (_, solved) if solved > 0 && solved < fix.len() => Some(DropReason::Flaky(FlakyTree::Fix)),
        (0, _) => {
            let last = fix.first().map(|record| find_last_line(record));
            Some(DropReason::RedFix(last.unwrap_or_default()))
        }
        _ => Some(DropReason::GreenBase),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(agent: &str, reward: Option<f64>) -> TrialRecord {
        let fault = json!({ "cause": "verifier", "kind": "x", "message": "no verdict" });
        let mut record = json!({
            "agent": agent,
            "task": "t",
            "trial": 1,
            "attempt": 1,
            "task_digest": "",
            "started": "2026-01-01T00:00:00Z",
            "finished": "2026-01-01T00:00:00Z",
            "rewards": {},
            "usage": { "tokens": null, "cost": null, "estimated": false },
            "iterations": 1,
            "claims": 0,
            "completed": false,
            "durations": {},
        });
        match reward {
            Some(reward) => record["rewards"]["reward"] = json!(reward),
            None => record["fault"] = fault,
        }
        serde_json::from_value(record).unwrap()
    }

    fn judge(base: &[Option<f64>], fix: &[Option<f64>]) -> Option<DropReason> {
        let of = |agent: &'static str, rewards: &[Option<f64>]| -> Vec<TrialRecord> {
            rewards.iter().map(|reward| record(agent, *reward)).collect()
        };
        let records = [of(NOP, base), of(ORACLE, fix)].concat();
        judge_trials(&records.iter().collect::<Vec<_>>(), &|_| "last".to_owned())
    }

    #[test]
    fn a_task_is_red_twice_without_the_work_and_green_twice_with_it() {
        let (red, green) = (Some(0.0), Some(1.0));
        assert_eq!(judge(&[red, red], &[green, green]), None);
        for (base, fix, expected) in [
            (vec![green, green], vec![green, green], DropReason::GreenBase),
            (vec![green, green], vec![red, red], DropReason::GreenBase),
            (vec![red, red], vec![red, red], DropReason::RedFix("last".to_owned())),
            (vec![red, green], vec![green, green], DropReason::Flaky(FlakyTree::Base)),
            (vec![red, red], vec![green, red], DropReason::Flaky(FlakyTree::Fix)),
            (vec![red, None], vec![green, green], DropReason::NotJudged("no verdict".to_owned())),
            (vec![red, red], vec![green], DropReason::NotJudged("it was not run".to_owned())),
        ] {
            assert_eq!(judge(&base, &fix), Some(expected));
        }
    }
}
