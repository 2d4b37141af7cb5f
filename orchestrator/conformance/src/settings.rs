//! Which checks are run, how long each may take, and who is told of each.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Outcome;

/// The result of one check, as soon as it is known.
#[derive(Clone, Debug)]
pub struct CheckResultRow {
    /// Its stable name, for scripts and for `only`.
    pub word: String,
    /// Its name for people.
    pub title: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
    /// What the agent reported in it, one JSON value per line; only of a scenario that failed.
    pub transcript: Option<String>,
    /// What was noticed beside and is no failure of its own, such as an ignored event.
    pub remarks: Vec<String>,
}

impl fmt::Display for CheckResultRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, why) = match &self.outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Failed(why) => ("FAILED", why.as_str()),
            Outcome::Skipped(why) => ("skipped", why.as_str()),
        };
        let (title, seconds) = (&self.title, self.duration.as_secs_f64());
        write!(f, "  {title:<22} {word:<8} {seconds:>6.1} s  {why}")?;
        self.remarks.iter().try_for_each(|remark| write!(f, "\n  {:<22} {remark}", ""))
    }
}

type OnRow = Arc<dyn Fn(&CheckResultRow) + Send + Sync>;
type TakeRemarks = Arc<dyn Fn(bool) -> Vec<String> + Send + Sync>;

/// Which checks are run, how long each may take, and who is told of each.
#[derive(Clone, Default)]
pub struct CheckSettings {
    only: Option<BTreeSet<String>>,
    timeout: Option<Duration>,
    on_row: Option<OnRow>,
    remarks: Option<TakeRemarks>,
}

impl fmt::Debug for CheckSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckSettings")
            .field("only", &self.only)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl CheckSettings {
    /// Runs only the checks of these names.
    #[must_use]
    pub fn only(mut self, words: impl IntoIterator<Item = String>) -> Self {
        self.only = Some(words.into_iter().collect());
        self
    }

    /// Fails each check that takes longer.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Calls `on_row` with each result as soon as it is known.
    #[must_use]
    pub fn on_row(mut self, on_row: impl Fn(&CheckResultRow) + Send + Sync + 'static) -> Self {
        self.on_row = Some(Arc::new(on_row));
        self
    }

    /// Calls `take` after each check for what was noticed since the last time; with true if the check was given
    /// up because it took too long, when calls without an answer are of interest.
    #[must_use]
    pub fn remarks(mut self, take: impl Fn(bool) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.remarks = Some(Arc::new(take));
        self
    }

    /// Returns the result with what was noticed: a failure says it, other results have it beside.
    pub(crate) fn with_remarks(&self, outcome: Outcome, is_late: bool) -> (Outcome, Vec<String>) {
        let remarks = self.remarks.as_ref().map(|take| take(is_late)).unwrap_or_default();
        match outcome {
            Outcome::Failed(why) if !remarks.is_empty() => {
                (Outcome::Failed(format!("{why}; {}", remarks.join("; "))), Vec::new())
            }
            outcome => (outcome, remarks),
        }
    }

    pub(crate) fn includes(&self, word: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(word))
    }

    pub(crate) fn limit(&self, default: Duration) -> Duration {
        self.timeout.unwrap_or(default)
    }

    pub(crate) fn report(&self, row: &CheckResultRow) {
        if let Some(on_row) = &self.on_row {
            on_row(row);
        }
    }
}

/// The checks of each detector, beside `opens` and those of its workspaces.
pub const DETECTOR_CHECKS: [&str; 9] = [
    "unknown-key",
    "instructions",
    "same-twice",
    "odd-texts",
    "own-instructions",
    "events",
    "workspace-unchanged",
    "an-end-in-the-middle",
    "no-process-is-left",
];

/// The same of each validator.
pub const VALIDATOR_CHECKS: [&str; 9] = [
    "unknown-key",
    "demands",
    "check",
    "same-twice",
    "odd-claims",
    "cancel",
    "an-end-in-the-middle",
    "workspace-unchanged",
    "no-process-is-left",
];

/// The same of each format of backlogs.
pub const BACKLOG_CHECKS: [&str; 9] = [
    "unknown-key",
    "description",
    "example",
    "same-twice",
    "add",
    "statuses",
    "notes",
    "odd-texts",
    "no-process-is-left",
];

/// Returns the stable name of a check that is known by its title.
pub(crate) fn word_of(title: &str) -> String {
    title.replace(' ', "-")
}
