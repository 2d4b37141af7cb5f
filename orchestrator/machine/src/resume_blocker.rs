//! What keeps a stopped run from being resumed, derived from the state: it decides which advice helps.

use ralph_orchestrator_contract::{
    ErrorClass, GIT_END, HIDDEN_END, NEEDS_HIDDEN, PROTECTED_CHANGED, Verdict,
};

use super::hook::HookEvent;
use super::limits::Limit;
use super::outcome::IterationOutcome;
use super::policy::BaselineMode;
use super::state::State;
use super::stop::StopReason;

/// What has to be changed before a stopped run can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumeBlocker {
    /// This limit is used up.
    Limit(Limit),
    /// Too many iterations failed in a row.
    Failures,
    /// These products of the initializer are missing.
    Products(Vec<String>),
    /// Protected paths are not as they were when the run began, so no work is accepted.
    Protected,
    /// The iterations made no progress.
    Stagnation,
    /// The agent cannot be started.
    Unavailable,
    /// The provider does not know the model or the address.
    NotFound,
    /// The agent asked this question, and it was not answered.
    Question(String),
    /// The agent is not logged in, or its key is refused.
    Login,
    /// No credit is left.
    Credit,
    /// The provider refuses requests, or a rate window is nearly used up, for longer than the run may wait.
    Provider,
    /// The budget of all runs of the user, for longer than the run may wait.
    UserBudget,
    /// This validator cannot come to a verdict.
    Validator(String),
    /// The commands of the user for this event keep the run from going on.
    Hook(HookEvent),
    /// These processes cannot be killed.
    Processes(Vec<String>),
    /// The checks accept before any work is done.
    Baseline,
    /// Something changes what is checked, each time it is checked.
    Unsteady,
    /// Nothing: the run was asked to stop.
    Nothing,
}

impl State {
    /// Returns what keeps the run from being resumed; `None` if it has not stopped, or is complete.
    #[must_use]
    pub fn resume_blocker(&self) -> Option<ResumeBlocker> {
        Some(match self.stop.as_ref()?.reason {
            StopReason::Completed => return None,
            StopReason::MaxIterations => self.budget_blocker(Limit::Iterations),
            StopReason::MaxRuntime => self.budget_blocker(Limit::Runtime),
            StopReason::MaxCost => self.budget_blocker(Limit::Cost),
            StopReason::MaxTokens => self.budget_blocker(Limit::Tokens),
            StopReason::Budget => ResumeBlocker::UserBudget,
            StopReason::Failures => ResumeBlocker::Failures,
            StopReason::Stagnation => ResumeBlocker::Stagnation,
            StopReason::Thrashing => self.thrashing_blocker(),
            StopReason::InitFailed => ResumeBlocker::Products(self.initializer.missing.clone()),
            StopReason::NeedsHuman => self.human_blocker(),
            StopReason::AgentUnavailable => self.unavailable_blocker(),
            StopReason::Baseline if self.validation.baseline_accepted.is_none() => {
                ResumeBlocker::Unsteady
            }
            StopReason::Baseline => ResumeBlocker::Baseline,
            StopReason::Initialized | StopReason::Interrupted | StopReason::Once => {
                ResumeBlocker::Nothing
            }
        })
    }

    fn budget_blocker(&self, limit: Limit) -> ResumeBlocker {
        // The limit may have been raised since.
        if self.is_out_of_budget() { ResumeBlocker::Limit(limit) } else { ResumeBlocker::Nothing }
    }

    fn thrashing_blocker(&self) -> ResumeBlocker {
        if self.protected_rejection().is_some() {
            ResumeBlocker::Protected
        } else if self.rejected_in_a_row() >= self.limits.max_rejections {
            ResumeBlocker::Limit(Limit::Rejections)
        } else {
            ResumeBlocker::Limit(Limit::Stagnant)
        }
    }

    fn unavailable_blocker(&self) -> ResumeBlocker {
        if self.failed_as(&ErrorClass::NotFound) {
            ResumeBlocker::NotFound
        } else {
            ResumeBlocker::Unavailable
        }
    }

    /// Returns the open question of the agent.
    #[must_use]
    pub fn question(&self) -> Option<&str> {
        self.claims.human_request.as_ref().map(|claim| claim.text.as_str())
    }

    /// Returns which protected paths are not as they were when the run began, if the last claim was rejected for that.
    #[must_use]
    pub fn protected_rejection(&self) -> Option<&str> {
        self.find_rejection(PROTECTED_CHANGED)
    }

    /// Returns the names of files that a check needs and does not see, as far as its reason lists them, if the last claim was
    /// rejected for that.
    #[must_use]
    pub fn hidden_rejection(&self) -> Option<&str> {
        let reason = self.find_rejection(NEEDS_HIDDEN)?.strip_prefix(NEEDS_HIDDEN)?;
        let (names, _) = reason.split_once(HIDDEN_END).or_else(|| reason.split_once(GIT_END))?;
        Some(names)
    }

    /// Returns the reason of the last rejection that begins with a text.
    fn find_rejection(&self, begin: &str) -> Option<&str> {
        let rejection = self.validation.rejection.iter();
        let mut reasons = rejection.flat_map(|rejection| &rejection.verdicts).flat_map(|named| {
            match &named.verdict {
                Verdict::Rejected { reasons } => reasons.as_slice(),
                _ => &[],
            }
        });
        reasons.find(|reason| reason.starts_with(begin)).map(String::as_str)
    }

    fn failed_as(&self, expected: &ErrorClass) -> bool {
        matches!(&self.last_outcome, Some(IterationOutcome::Failed { class, .. }) if class == expected)
    }

    /// Checks in the order of the loop.
    fn human_blocker(&self) -> ResumeBlocker {
        let survivors = || self.agent.survivors.iter().map(ToString::to_string).collect();
        let has_survivors = !self.agent.survivors.is_empty();
        let verdicts = self.validation.rejection.iter().flat_map(|rejection| &rejection.verdicts);
        let mut errors = verdicts.filter(|named| named.required_error().is_some());
        if self.progress.awaiting_observation && has_survivors {
            ResumeBlocker::Processes(survivors())
        } else if let Some(event) = self.hooks.blocked {
            ResumeBlocker::Hook(event)
        } else if let Some(question) = self.question() {
            ResumeBlocker::Question(question.to_owned())
        } else if self.failed_as(&ErrorClass::Unauthenticated) {
            ResumeBlocker::Login
        } else if self.failed_as(&ErrorClass::Billing) {
            ResumeBlocker::Credit
        } else if matches!(self.last_outcome, Some(IterationOutcome::Deferred { .. })) {
            ResumeBlocker::Provider
        } else if let Some(named) = errors.next() {
            ResumeBlocker::Validator(named.validator.clone())
        } else if has_survivors {
            ResumeBlocker::Processes(survivors())
        } else if self.limited_windows().next().is_some() {
            ResumeBlocker::Provider
        } else if self.validation.baseline_mode == BaselineMode::MustFail
            && self.validation.baseline_accepted == Some(true)
        {
            ResumeBlocker::Baseline
        } else {
            ResumeBlocker::Nothing
        }
    }
}
