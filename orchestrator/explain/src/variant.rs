//! What the search has the caller run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;

use crate::content::FileContent;

/// The work without some of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchVariant {
    /// What each changed file holds; `None` where it does not exist.
    pub files: BTreeMap<String, Option<FileContent>>,
}

/// What the checks said about a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariantOutcome {
    /// All required checks accepted.
    Green,
    /// A check rejected.
    Red {
        /// The tests that failed, as far as they are named.
        failed: BTreeSet<String>,
        /// Whether tests could run. Not so where the work does not compile, or where a test cannot be loaded.
        is_built: bool,
    },
    /// The checks ran longer than the time limit, and were ended.
    DidNotEnd,
    /// The checks could not run.
    Error(String),
}

/// The result of one run of the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedVariant {
    /// What the checks said.
    pub outcome: VariantOutcome,
    /// The changed files that no longer held what the variant says when the checks had ended.
    pub rewritten: BTreeSet<String>,
}

/// Runs the checks on variants.
///
/// To believe the results, each file is written with a fresh time stamp that is later than all before, also where it
/// goes back to the base; bytecode beside a written file is deleted; and after each run all tracked files are put back.
#[async_trait]
pub trait VariantChecker: Send {
    /// Writes a variant, runs the checks on it for at most `limit`, and puts the work back.
    async fn check_variant(&mut self, variant: &PatchVariant, limit: Duration) -> CheckedVariant;

    /// Returns the time since the explanation began.
    fn elapsed(&self) -> Duration;
}
