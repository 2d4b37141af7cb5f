//! Failure classes for agents that report errors in words only.
//!
//! Looked at are the agent's own error messages, never its text or a tool's output: words in
//! content are no evidence of anything.

use ralph_orchestrator_contract::ErrorClass;

const UNAUTHENTICATED: [&str; 5] = [
    "unauthorized",
    "not logged in",
    "invalid api key",
    "incorrect api key",
    "missing environment variable",
];

/// The provider gave no answer, or said that it has too much to do.
const OVERLOADED: [&str; 6] = [
    "overloaded",
    "at capacity",
    "service unavailable",
    "high demand",
    "stream disconnected",
    "error sending request",
];

/// The class that an error message of the agent speaks of; `Crashed` if it speaks of none.
#[must_use]
pub fn classify(message: &str) -> ErrorClass {
    let lower = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if says(&["context window", "context length", "maximum context", "prompt is too long"]) {
        return ErrorClass::ContextExceeded;
    }
    // Before the credit words: the usage-limit message offers to buy credits.
    if says(&["usage limit"]) {
        return ErrorClass::RateLimited { until_ms: None };
    }
    let names_no_model = says(&["model_not_found"])
        || (says(&["model"]) && says(&["does not exist", "not found", "not supported"]));
    match http_status(&lower).and_then(of_status) {
        // Some providers answer 400 where others answer 404.
        Some(ErrorClass::InvalidRequest) if names_no_model => return ErrorClass::NotFound,
        Some(class) => return class,
        None => {}
    }
    if says(&["rate limit", "too many requests"]) {
        ErrorClass::RateLimited { until_ms: None }
    } else if says(&["insufficient_quota", "quota exceeded", "credit balance", "out of credit"]) {
        ErrorClass::Billing
    } else if says(&UNAUTHENTICATED) {
        ErrorClass::Unauthenticated
    } else if says(&OVERLOADED) {
        ErrorClass::Overloaded
    } else if names_no_model {
        ErrorClass::NotFound
    } else if says(&["invalid_request", "bad request"]) {
        ErrorClass::InvalidRequest
    } else if says(&["timed out", "timeout"]) {
        ErrorClass::TimedOut
    } else {
        ErrorClass::Crashed
    }
}

/// What an HTTP status from the provider means; nothing for those that say too little.
#[must_use]
pub fn of_status(status: u64) -> Option<ErrorClass> {
    match status {
        401 | 403 => Some(ErrorClass::Unauthenticated),
        402 => Some(ErrorClass::Billing),
        429 => Some(ErrorClass::RateLimited { until_ms: None }),
        404 => Some(ErrorClass::NotFound),
        400 | 413 | 422 => Some(ErrorClass::InvalidRequest),
        408 | 504 => Some(ErrorClass::TimedOut),
        503 | 529 => Some(ErrorClass::Overloaded),
        _ => None,
    }
}

/// The three digits after "status", as in `last status: 429 Too Many Requests`.
fn http_status(lower: &str) -> Option<u64> {
    lower.match_indices("status").find_map(|(at, word)| {
        let rest = lower.get(at + word.len()..)?;
        let rest = rest.strip_prefix(" code").unwrap_or(rest);
        let digits: String = rest
            .trim_start_matches([':', ' ', '='])
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        if digits.len() == 3 { digits.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_seen_from_real_agents() {
        let limited = ErrorClass::RateLimited { until_ms: None };
        for (message, class) in [
            ("exceeded retry limit, last status: 429 Too Many Requests", limited.clone()),
            (
                "rate limit exceeded: Rate limit reached for x. Please try again in 1s.",
                limited.clone(),
            ),
            (
                "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit \
                 https://chatgpt.com/settings/usage to purchase more credits or try again later.",
                limited,
            ),
            (
                "Codex ran out of room in the model's context window. Start a new thread or clear \
                 earlier history before retrying.",
                ErrorClass::ContextExceeded,
            ),
            (
                "unexpected status 401 Unauthorized: Missing bearer or basic authentication in header",
                ErrorClass::Unauthenticated,
            ),
            ("unexpected status 503 Service Unavailable: x", ErrorClass::Overloaded),
            ("unexpected status 404 Not Found: no such model", ErrorClass::NotFound),
            ("Quota exceeded. Check your plan and billing details.", ErrorClass::Billing),
            (
                "Selected model is at capacity. Please try a different model.",
                ErrorClass::Overloaded,
            ),
            (
                "We’re currently experiencing high demand, which may cause temporary errors.",
                ErrorClass::Overloaded,
            ),
            (
                "stream disconnected before completion: idle timeout waiting for SSE",
                ErrorClass::Overloaded,
            ),
            ("The requested model 'x' does not exist.", ErrorClass::NotFound),
            (
                "unexpected status 400 Bad Request: The 'x' model is not supported",
                ErrorClass::NotFound,
            ),
            ("unexpected status 400 Bad Request: no", ErrorClass::InvalidRequest),
            ("Missing environment variable: `KEY`.", ErrorClass::Unauthenticated),
            ("processed 429 files in 401 seconds, exit status 1", ErrorClass::Crashed),
            ("", ErrorClass::Crashed),
        ] {
            assert_eq!(classify(message), class, "{message}");
        }
    }
}
