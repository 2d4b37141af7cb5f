//! What an iteration of `claude` came to, with advice for people.

use ralph_orchestrator_contract::{AgentError, ErrorClass, Report};

use crate::ProcessEnd;

/// Joins the agent's own account with how its process ended, and adds to an error what to do about it. The
/// exit status does not count: it is 0 for an interrupted turn, and after a result the process may have been
/// ended by force.
///
/// # Errors
/// The account is an error, or the orchestrator asked for the end.
pub fn conclude(
    account: Result<Report, AgentError>,
    end: ProcessEnd,
) -> Result<Report, AgentError> {
    ProcessEnd { success: true, ..end }.conclude(account).map_err(|mut error| {
        if let Some(advice) = advice(&error.class) {
            error.message.push_str("; ");
            error.message.push_str(advice);
        }
        error
    })
}

/// Returns what to do about an error of this class.
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
