//! What keeps a stopped run from going on, told from the state alone: it decides what helps.

use super::limits::StopReason;
use super::record::{BaselineMode, Outcome};
use super::state::State;
use ralph_orchestrator_contract::Verdict;

/// What has to be done away with before a stopped run can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The limit with this key is used up.
    Limit(&'static str),
    /// Too many iterations failed in a row.
    Failures,
    /// The iterations made no progress.
    Stagnation,
    /// The agent cannot be started.
    Unavailable,
    /// The provider does not know the model or the address.
    NotFound,
    /// The agent asked this, and nobody answered.
    Question(String),
    /// Nobody is logged in, or the key is refused.
    Login,
    /// No credit is left.
    Credit,
    /// The provider refuses requests for longer than the run may wait.
    Provider,
    /// This validator cannot come to a verdict.
    Validator(String),
    /// These processes cannot be ended.
    Processes(Vec<String>),
    /// The checks accept before any work is done.
    Baseline,
    /// Nothing: it was asked to stop.
    Nothing,
}

impl State {
    /// What the run stopped for; `None` if it has not stopped, or is complete.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        let reason = self.stop.as_ref()?.reason;
        Some(match reason {
            StopReason::Completed => return None,
            StopReason::MaxIterations => Obstacle::Limit("limits.max_iterations"),
            StopReason::MaxRuntime => Obstacle::Limit("limits.max_runtime"),
            StopReason::MaxCost => Obstacle::Limit("limits.max_cost_usd"),
            StopReason::MaxTokens => Obstacle::Limit("limits.max_tokens"),
            StopReason::Thrashing if self.rejected_in_a_row() >= self.limits.max_rejections => {
                Obstacle::Limit("limits.max_rejections")
            }
            StopReason::Thrashing => Obstacle::Limit("limits.max_stagnant"),
            StopReason::Stagnation => Obstacle::Stagnation,
            StopReason::Failures => Obstacle::Failures,
            StopReason::AgentUnavailable if self.failed_as("not_found") => Obstacle::NotFound,
            StopReason::AgentUnavailable => Obstacle::Unavailable,
            StopReason::NeedsHuman => self.human_obstacle(),
            StopReason::Interrupted | StopReason::Once => Obstacle::Nothing,
        })
    }

    /// The question of the agent that nobody has answered.
    #[must_use]
    pub fn question(&self) -> Option<&str> {
        self.human.as_ref().map(|claim| claim.text.as_str())
    }

    fn failed_as(&self, word: &str) -> bool {
        matches!(&self.last_outcome, Some(Outcome::Failed { class, .. }) if class == word)
    }

    /// In the order in which the loop looks at these.
    fn human_obstacle(&self) -> Obstacle {
        if self.unlooked && !self.survived.is_empty() {
            let names = self.survived.iter().map(ToString::to_string).collect();
            return Obstacle::Processes(names);
        }
        if let Some(question) = self.question() {
            return Obstacle::Question(question.to_owned());
        }
        let verdicts = self.rejection.iter().flat_map(|rejection| &rejection.verdicts);
        let mut errors = verdicts
            .filter(|named| named.required && matches!(named.verdict, Verdict::Error { .. }));
        if self.failed_as("unauthenticated") {
            Obstacle::Login
        } else if self.failed_as("billing") {
            Obstacle::Credit
        } else if matches!(self.last_outcome, Some(Outcome::Deferred { .. })) {
            Obstacle::Provider
        } else if let Some(named) = errors.next() {
            Obstacle::Validator(named.validator.clone())
        } else if !self.survived.is_empty() {
            Obstacle::Processes(self.survived.iter().map(ToString::to_string).collect())
        } else if self.baseline == BaselineMode::MustFail && self.baseline_accepted == Some(true) {
            Obstacle::Baseline
        } else {
            Obstacle::Nothing
        }
    }
}
