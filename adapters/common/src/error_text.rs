//! Classifies errors that agents report as text only.
//!
//! Only the agent's own error messages are classified, never its text or a tool's output: words in
//! content are no evidence of anything.

use jiff::Zoned;
use ralph_orchestrator_contract::ErrorClass;

use crate::rate_limit_reset::rate_limit_reset;

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

/// Returns the class of an error message; `Crashed` if it names no known cause.
#[must_use]
pub fn classify(message: &str) -> ErrorClass {
    let lower = message.to_lowercase();
    let contains = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if contains(&["context window", "context length", "maximum context", "prompt is too long"]) {
        return ErrorClass::ContextExceeded;
    }
    // Before the credit words: the usage-limit message offers to buy credits.
    if contains(&["usage limit"]) {
        return rate_limited(message);
    }
    let names_no_model = contains(&["model_not_found"])
        || (contains(&["model"]) && contains(&["does not exist", "not found", "not supported"]));
    match http_status(&lower).and_then(class_of_status) {
        // Some providers answer 400 where others answer 404.
        Some(ErrorClass::InvalidRequest) if names_no_model => return ErrorClass::NotFound,
        Some(ErrorClass::RateLimited { .. }) => return rate_limited(message),
        Some(class) => return class,
        None => {}
    }
    if contains(&["rate limit", "too many requests"]) {
        rate_limited(message)
    } else if contains(&["insufficient_quota", "quota exceeded", "credit balance", "out of credit"])
    {
        ErrorClass::Billing
    } else if contains(&UNAUTHENTICATED) {
        ErrorClass::Unauthenticated
    } else if contains(&OVERLOADED) {
        ErrorClass::Overloaded
    } else if names_no_model {
        ErrorClass::NotFound
    } else if contains(&["invalid_request", "bad request"]) {
        ErrorClass::InvalidRequest
    } else if contains(&["timed out", "timeout"]) {
        ErrorClass::TimedOut
    } else {
        ErrorClass::Crashed
    }
}

/// Requests are refused until the moment that a message names, if it names one.
pub(crate) fn rate_limited(message: &str) -> ErrorClass {
    ErrorClass::RateLimited { until_ms: rate_limit_reset(message, &Zoned::now()) }
}

/// How many lines of the end of a failed call's output are looked at.
const LAST_LINES: usize = 5;

/// How the lines begin by which agents say, in plain text, why they cannot work.
const COMPLAINTS: [(&str, ErrorClass); 15] = [
    ("you've hit your ", ErrorClass::RateLimited { until_ms: None }),
    ("claude ai usage limit reached", ErrorClass::RateLimited { until_ms: None }),
    ("claude usage limit reached", ErrorClass::RateLimited { until_ms: None }),
    ("5-hour limit reached", ErrorClass::RateLimited { until_ms: None }),
    ("session limit reached", ErrorClass::RateLimited { until_ms: None }),
    ("weekly limit reached", ErrorClass::RateLimited { until_ms: None }),
    ("opus weekly limit reached", ErrorClass::RateLimited { until_ms: None }),
    ("invalid api key", ErrorClass::Unauthenticated),
    ("not logged in", ErrorClass::Unauthenticated),
    ("please run /login", ErrorClass::Unauthenticated),
    ("oauth token ", ErrorClass::Unauthenticated),
    ("failed to authenticate", ErrorClass::Unauthenticated),
    ("missing environment variable: ", ErrorClass::Unauthenticated),
    ("please set an auth method", ErrorClass::Unauthenticated),
    ("credit balance is too low", ErrorClass::Billing),
];

/// How the lines begin whose rest says why.
const REPORTS: [&str; 4] =
    ["api error: ", "unexpected status ", "exceeded retry limit", "stream disconnected"];

/// Returns why a call failed that printed plain text, if one of its last lines is what agents print then. The words have
/// to begin their line: within a sentence they may be about anything.
#[must_use]
pub fn classify_last_words(output: &str) -> Option<ErrorClass> {
    let lines = output.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    lines.take(LAST_LINES).find_map(complaint)
}

fn complaint(line: &str) -> Option<ErrorClass> {
    let lower = line.to_lowercase().replace('’', "'");
    let plain = lower.strip_prefix("error: ").unwrap_or(&lower);
    if REPORTS.iter().any(|start| plain.starts_with(start)) {
        return Some(report_class(plain, line));
    }
    let (_, class) = COMPLAINTS.iter().find(|(start, _)| plain.starts_with(start))?;
    match class {
        ErrorClass::RateLimited { .. } if !plain.contains("limit") => None,
        ErrorClass::RateLimited { .. } => Some(rate_limited(line)),
        class => Some(class.clone()),
    }
}

/// `API Error: 529 {"type":"error",…}`, `API Error: Connection error.`, `unexpected status 401 Unauthorized: …`.
fn report_class(plain: &str, line: &str) -> ErrorClass {
    let said = plain.strip_prefix("api error: ").unwrap_or_default();
    let status = said.get(..3).and_then(|digits| digits.parse().ok());
    match status.and_then(class_of_status) {
        Some(ErrorClass::RateLimited { .. }) => rate_limited(line),
        Some(class) => class,
        None if status.is_some_and(|status| status >= 500) => ErrorClass::Overloaded,
        None if said.starts_with("connection error") => ErrorClass::Overloaded,
        None => classify(line),
    }
}

/// What an HTTP status from the provider means; nothing for those that say too little.
#[must_use]
pub fn class_of_status(status: u64) -> Option<ErrorClass> {
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
            ("rate limit exceeded: Rate limit reached for x.", limited.clone()),
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

    #[test]
    fn last_words_count_only_at_the_beginning_of_a_line() {
        for (output, word) in [
            ("working\nYou've hit your limit · resets later\n", Some("rate_limited")),
            ("You’ve hit your weekly limit · resets Oct 3 at 9am\n\n", Some("rate_limited")),
            ("Claude AI usage limit reached|1759503600", Some("rate_limited")),
            ("ERROR: You've hit your usage limit. Upgrade to Pro.", Some("rate_limited")),
            ("Invalid API key · Please run /login", Some("unauthenticated")),
            ("Not logged in · Please run /login", Some("unauthenticated")),
            ("OAuth token has expired. Please obtain a new token", Some("unauthenticated")),
            ("API Error: 401 {\"type\":\"error\"} · Please run /login", Some("unauthenticated")),
            ("API Error: 529 {\"type\":\"overloaded_error\"}", Some("overloaded")),
            ("API Error: 500 Internal server error", Some("overloaded")),
            ("API Error: Connection error.", Some("overloaded")),
            ("ERROR: unexpected status 401 Unauthorized: no", Some("unauthenticated")),
            ("Credit balance is too low", Some("billing")),
            ("I was told: You've hit your limit", None),
            ("You've hit your stride", None),
            ("the test for `invalid api key` fails", None),
            ("Invalid API key\n1\n2\n3\n4\n5", None),
            ("", None),
        ] {
            let class = classify_last_words(output);
            assert_eq!(class.as_ref().map(ErrorClass::word), word, "{output}");
        }
    }

    #[test]
    fn a_limit_names_when_it_ends_wherever_it_is_said() {
        let until_ms = Some(1_759_503_600_000);
        for message in ["usage limit reached|1759503600", "status 429: limit reached|1759503600"] {
            assert_eq!(classify(message), ErrorClass::RateLimited { until_ms });
        }
    }
}
