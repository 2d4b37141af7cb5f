//! What to add to an error, for people.

use orchestrator::contract::{AgentError, CancelReason, ErrorClass};

/// The error with why the orchestrator wanted the end or, if it did not, what to do.
#[must_use]
pub fn explained(mut error: AgentError, cancelled: Option<CancelReason>) -> AgentError {
    let more = match cancelled {
        Some(reason) => Some(because(reason)),
        None => advice(&error.class),
    };
    if let Some(more) = more {
        error.message.push_str("; ");
        error.message.push_str(more);
    }
    error
}

fn because(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Timeout => "limits.iteration_timeout was reached",
        CancelReason::Idle => "limits.idle_timeout was reached",
        CancelReason::MaxRuntime => "limits.max_runtime was reached",
        CancelReason::MaxCost => "limits.max_cost_usd was reached",
        CancelReason::MaxTokens => "limits.max_tokens was reached",
        CancelReason::Signal => "it was asked to stop",
    }
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
        ErrorClass::RateLimited { .. }
        | ErrorClass::Overloaded
        | ErrorClass::InvalidRequest
        | ErrorClass::Crashed
        | ErrorClass::TimedOut
        | ErrorClass::Cancelled
        | ErrorClass::Unavailable => None,
    }
}
