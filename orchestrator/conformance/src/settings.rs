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
}

impl fmt::Display for CheckResultRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, why) = match &self.outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Failed(why) => ("FAILED", why.as_str()),
            Outcome::Skipped(why) => ("skipped", why.as_str()),
        };
        let (title, seconds) = (&self.title, self.duration.as_secs_f64());
        write!(f, "  {title:<22} {word:<8} {seconds:>6.1} s  {why}")
    }
}

type OnRow = Arc<dyn Fn(&CheckResultRow) + Send + Sync>;

/// Which checks are run, how long each may take, and who is told of each.
#[derive(Clone, Default)]
pub struct CheckSettings {
    only: Option<BTreeSet<String>>,
    timeout: Option<Duration>,
    on_row: Option<OnRow>,
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

/// Returns the stable name of a check that is known by its title.
pub(crate) fn word_of(title: &str) -> String {
    title.replace(' ', "-")
}
