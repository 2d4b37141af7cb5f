//! What a search starts from.

use std::time::Duration;

use crate::variant::VariantOutcome;

/// What is known before the first run, and how long the search may take.
#[derive(Clone, Debug)]
pub struct ExplainConditions {
    /// What the checks said about the base, if they ran on it.
    pub base: Option<VariantOutcome>,
    /// How long the checks took on the work.
    pub green_run: Duration,
    /// How long the search may take; nothing is tried if it is zero.
    pub budget: Duration,
}
