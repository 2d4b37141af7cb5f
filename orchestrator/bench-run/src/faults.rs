//! Why a run stopped, in the words of benchmarks.

use ralph_orchestrator_bench::trial::{Cause, Fault};
use ralph_orchestrator_contract::ErrorClass;
use ralph_orchestrator_machine::{IterationOutcome, State, StopReason};

/// Returns a fault of this kind.
pub(super) fn fault(cause: Cause, kind: &str, message: String) -> Fault {
    Fault { cause, kind: kind.to_owned(), message }
}

/// The kind of fault of an agent that cannot be started.
pub(crate) const AGENT_NOT_AVAILABLE: &str = "AgentNotAvailableError";

/// Returns what kept a run from ending by its own decision; none if nothing did.
/// A series of runs can stop between two of them, without a state.
pub(crate) fn from_stop(reason: StopReason, message: &str, state: Option<&State>) -> Option<Fault> {
    let (cause, kind) = match reason {
        StopReason::Completed
        | StopReason::Stagnation
        | StopReason::Thrashing
        | StopReason::Initialized => return None,
        // Without its last iteration, the agent did not have all that it may have.
        StopReason::MaxIterations if from_outcome(state).is_some() => from_outcome(state)?,
        // The time was used up, or would be, by waiting for the provider.
        StopReason::MaxRuntime if is_deferred(state) => from_outcome(state)?,
        StopReason::MaxRuntime => (Cause::Agent, "AgentTimeoutError"),
        StopReason::Baseline => (Cause::Infrastructure, "BaselineError"),
        StopReason::InitFailed => (Cause::Agent, "InitializerError"),
        StopReason::Interrupted => (Cause::Cancelled, "CancelledError"),
        StopReason::Once | StopReason::Failures => from_outcome(state)?,
        StopReason::NeedsHuman => from_outcome(state).unwrap_or((Cause::Agent, "NeedsHumanError")),
        StopReason::AgentUnavailable => {
            from_outcome(state).unwrap_or((Cause::Infrastructure, AGENT_NOT_AVAILABLE))
        }
        StopReason::Budget => (Cause::Infrastructure, "UserBudgetError"),
        StopReason::MaxIterations | StopReason::MaxCost | StopReason::MaxTokens => {
            let message = failure(state).unwrap_or(message).to_owned();
            return Some(fault(Cause::Budget, &budget_error(reason), message));
        }
    };
    Some(fault(cause, kind, failure(state).unwrap_or(message).to_owned()))
}

/// Whether the provider refused the last iteration before it did anything.
fn is_deferred(state: Option<&State>) -> bool {
    let outcome = state.and_then(|state| state.last_outcome.as_ref());
    matches!(outcome, Some(IterationOutcome::Deferred { .. }))
}

/// Returns the name of the error that a limit is used up, such as `MaxTokensError`.
fn budget_error(reason: StopReason) -> String {
    let words = reason.word().split('_').filter_map(|word| word.split_at_checked(1));
    let name: String = words.map(|(first, rest)| first.to_ascii_uppercase() + rest).collect();
    format!("{name}Error")
}

/// Returns what the last iteration says of its failure, if it failed.
fn failure(state: Option<&State>) -> Option<&str> {
    match state?.last_outcome.as_ref()? {
        IterationOutcome::Failed { message, .. }
        | IterationOutcome::Deferred { message, .. }
        | IterationOutcome::AgentLimit { message } => Some(message),
        IterationOutcome::Succeeded
        | IterationOutcome::StoppedEarly { .. }
        | IterationOutcome::Interrupted => None,
    }
}

/// Returns what the failure of the last iteration is, if it failed.
fn from_outcome(state: Option<&State>) -> Option<(Cause, &'static str)> {
    let class = match state?.last_outcome.as_ref()? {
        IterationOutcome::Succeeded => return None,
        IterationOutcome::Failed { class, .. } | IterationOutcome::Deferred { class, .. } => class,
        IterationOutcome::StoppedEarly { .. } => return Some((Cause::Agent, "AgentTimeoutError")),
        IterationOutcome::AgentLimit { .. } => return Some((Cause::Agent, "AgentLimitError")),
        IterationOutcome::Interrupted => return Some((Cause::Cancelled, "CancelledError")),
    };
    Some(match class {
        ErrorClass::RateLimited { .. } => (Cause::Provider, "RateLimitError"),
        ErrorClass::Overloaded => (Cause::Provider, "OverloadedError"),
        ErrorClass::Unauthenticated => (Cause::Provider, "AuthenticationError"),
        ErrorClass::Billing => (Cause::Provider, "BillingError"),
        ErrorClass::InvalidRequest => (Cause::Agent, "InvalidRequestError"),
        ErrorClass::NotFound => (Cause::Provider, "ModelNotFoundError"),
        ErrorClass::ContextExceeded => (Cause::Agent, "ContextLengthExceededError"),
        ErrorClass::AgentLimit => (Cause::Agent, "AgentLimitError"),
        ErrorClass::Crashed => (Cause::Agent, "NonZeroAgentExitCodeError"),
        ErrorClass::TimedOut => (Cause::Agent, "AgentTimeoutError"),
        ErrorClass::Cancelled => (Cause::Cancelled, "CancelledError"),
        ErrorClass::Unavailable => (Cause::Infrastructure, AGENT_NOT_AVAILABLE),
    })
}

/// Whether the work is verified in spite of this fault.
pub(crate) const fn is_judged(cause: Cause) -> bool {
    matches!(cause, Cause::Agent | Cause::Budget)
}
