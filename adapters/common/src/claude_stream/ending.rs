//! Classes and messages of failed turns.

use ralph_orchestrator_contract::ErrorClass;

use crate::claude_stream::message::Outcome;
use crate::claude_stream::rate_limit::RateLimit;
use crate::claude_stream::text::bounded;
use crate::error_text;

const MAX_DETAIL: usize = 1000;

/// Subtypes of results that one of the agent's own bounds ended.
const LIMITS: [&str; 3] =
    ["error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries"];

/// What else than the result tells why requests failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    /// The `error` of the last message of the main thread, if it was one.
    pub(crate) error: Option<String>,
    /// The last that was said about the account's limits.
    pub(crate) limit: Option<RateLimit>,
    /// The last failed attempt got no answer at all from the provider.
    pub(crate) unanswered: bool,
}

/// Returns the class of a failed turn. Only structured fields count: the texts are content,
/// of which nothing but the end of a limit is read.
pub(crate) fn classify(outcome: &Outcome, hints: &Hints) -> ErrorClass {
    let error = hints.error.as_deref().unwrap_or_default();
    let said = outcome.result.as_deref().unwrap_or_default();
    by_reason(outcome)
        .or_else(|| by_error(error, said, hints))
        .or_else(|| by_status(outcome.api_error_status?, said, hints))
        .unwrap_or_else(|| {
            if hints.limit.as_ref().is_some_and(RateLimit::rejects) {
                rate_limited(said, hints)
            } else if hints.unanswered {
                ErrorClass::Overloaded
            } else if error == "invalid_request"
                || outcome.stop_reason.as_deref() == Some("refusal")
            {
                ErrorClass::InvalidRequest
            } else {
                ErrorClass::Crashed
            }
        })
}

fn by_reason(outcome: &Outcome) -> Option<ErrorClass> {
    let subtype = outcome.subtype.as_deref().unwrap_or_default();
    if LIMITS.contains(&subtype) {
        return Some(ErrorClass::AgentLimit);
    }
    match outcome.terminal_reason.as_deref()? {
        "max_turns" | "hook_stopped" | "stop_hook_prevented" => Some(ErrorClass::AgentLimit),
        "prompt_too_long" | "blocking_limit" | "rapid_refill_breaker" => {
            Some(ErrorClass::ContextExceeded)
        }
        "image_error" => Some(ErrorClass::InvalidRequest),
        // By whom else: an end that the orchestrator asked for does not come here.
        "aborted_streaming" | "aborted_tools" => Some(ErrorClass::Crashed),
        _ => None,
    }
}

/// `invalid_request`, `server_error` and `unknown` say less than the status and come after it.
fn by_error(error: &str, said: &str, hints: &Hints) -> Option<ErrorClass> {
    match error {
        "rate_limit" => Some(rate_limited(said, hints)),
        "overloaded" => Some(ErrorClass::Overloaded),
        "authentication_failed" | "oauth_org_not_allowed" => Some(ErrorClass::Unauthenticated),
        "billing_error" => Some(ErrorClass::Billing),
        "model_not_found" => Some(ErrorClass::NotFound),
        "max_output_tokens" => Some(ErrorClass::AgentLimit),
        _ => None,
    }
}

fn by_status(status: u64, said: &str, hints: &Hints) -> Option<ErrorClass> {
    match status {
        401 | 403 => Some(ErrorClass::Unauthenticated),
        402 => Some(ErrorClass::Billing),
        404 => Some(ErrorClass::NotFound),
        408 => Some(ErrorClass::Overloaded),
        413 => Some(ErrorClass::ContextExceeded),
        429 => Some(rate_limited(said, hints)),
        400..=499 => Some(ErrorClass::InvalidRequest),
        500..=599 => Some(ErrorClass::Overloaded),
        _ => None,
    }
}

/// Where no event said until when, the agent's own words may.
fn rate_limited(said: &str, hints: &Hints) -> ErrorClass {
    let limit = hints.limit.as_ref().filter(|limit| limit.rejects());
    match limit.and_then(|limit| limit.resets_at?.checked_mul(1000)) {
        None => error_text::rate_limited(said),
        until_ms => ErrorClass::RateLimited { until_ms },
    }
}

/// Returns the message of a failed turn: the decisive fields, and the agent's own text.
pub(crate) fn failure(outcome: &Outcome, hints: &Hints) -> String {
    let facts: Vec<String> = [
        outcome.subtype.clone().filter(|subtype| subtype != "success"),
        outcome.terminal_reason.clone().filter(|reason| reason != "completed"),
        hints.error.clone(),
        outcome.api_error_status.map(|status| format!("HTTP status {status}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let said = match &outcome.result {
        Some(result) if !result.trim().is_empty() => result.clone(),
        _ => outcome.errors.join("; "),
    };
    let mut message = "the agent failed".to_owned();
    if !facts.is_empty() {
        message.push_str(&format!(" ({})", bounded(&facts.join(", "), MAX_DETAIL)));
    }
    if !said.trim().is_empty() {
        message.push_str(&format!(": {}", bounded(said.trim(), MAX_DETAIL)));
    }
    message
}
