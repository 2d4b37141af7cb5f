//! What to add to an error, for people.

use ralph_orchestrator_contract::{AgentError, CancelReason, ErrorClass};

/// The error with why the orchestrator wanted the end or, if it did not, what to do.
#[must_use]
pub fn explained(mut error: AgentError, cancelled: Option<CancelReason>) -> AgentError {
    let more = match cancelled {
        Some(reason) => Some(reason.because()),
        None => advice(&error.class),
    };
    if let Some(more) = more {
        error.message.push_str("; ");
        error.message.push_str(more);
    }
    error
}

/// What to do, where the class says it.
fn advice(class: &ErrorClass) -> Option<&'static str> {
    match class {
        ErrorClass::Unauthenticated => Some(
            "set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN in the environment, or run `claude` \
             once and log in with `/login`",
        ),
        ErrorClass::Billing => Some("buy credit for the account, or use another one"),
        ErrorClass::AgentLimit => {
            Some("raise `max_turns` or the limits on cost, or split the task")
        }
        ErrorClass::ContextExceeded => Some("shorten the prompt and the files that it names"),
        ErrorClass::NotFound => Some(
            "correct `model` in [agent.config] (or ANTHROPIC_MODEL), or ANTHROPIC_BASE_URL if that \
             is set",
        ),
        ErrorClass::RateLimited { .. }
        | ErrorClass::Overloaded
        | ErrorClass::InvalidRequest
        | ErrorClass::Crashed
        | ErrorClass::TimedOut
        | ErrorClass::Cancelled
        | ErrorClass::Unavailable => None,
    }
}
