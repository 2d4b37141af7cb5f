//! What an agent's errors mean.

use agent_client_protocol::{Error, ErrorCode, is_incoming_transport_closed};
use ralph_adapter_common::error_text;
use ralph_orchestrator_contract::ErrorClass;
use serde_json::Value;

/// Longest account of an error, in bytes.
const MAX_MESSAGE: usize = 2000;

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) class: ErrorClass,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
    }

    /// Classifies an error that the agent answered a request with.
    pub(crate) fn from_answer(method: &str, error: &Error) -> Self {
        if is_incoming_transport_closed(error) {
            let message = format!("the agent ended before it answered `{method}`");
            return Self::new(ErrorClass::Crashed, message);
        }
        let mut message = short(&error.message).to_owned();
        // Some say what happened in the data only.
        if let Some(details) = error.data.as_ref().and_then(details)
            && !message.contains(&details)
        {
            message = format!("{message}: {details}");
        }
        let class = classify(error, &message);
        Self { class, message: format!("the agent answered `{method}` with an error: {message}") }
    }

    /// Classifies an error that the agent reports only in its text.
    pub(crate) fn from_text(text: &str) -> Self {
        let text = text.trim();
        let said = if text.is_empty() { "no reason given" } else { short(text) };
        Self { class: class_of_text(text), message: format!("the agent's turn failed: {said}") }
    }
}

fn short(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_MESSAGE)).unwrap_or_default()
}

fn details(data: &Value) -> Option<String> {
    let text = match data {
        Value::String(text) => text,
        data => ["details", "message"].iter().find_map(|key| data.get(*key)?.as_str())?,
    };
    Some(short(text).to_owned())
}

fn classify(error: &Error, message: &str) -> ErrorClass {
    let data = error.data.as_ref();
    let word = |key: &str| data.and_then(|data| data.get(key)?.as_str());
    if let Some(class) = word("errorKind").and_then(class_of_kind) {
        return class;
    }
    if let Some(class) = word("codexErrorInfo").and_then(class_of_codex) {
        return class;
    }
    if error.code == ErrorCode::AUTH_REQUIRED {
        return ErrorClass::Unauthenticated;
    }
    if error.code == ErrorCode::METHOD_NOT_FOUND {
        return ErrorClass::Unavailable;
    }
    match class_of_text(message) {
        ErrorClass::Crashed if error.code == ErrorCode::INVALID_PARAMS => {
            ErrorClass::InvalidRequest
        }
        class => class,
    }
}

/// A convention of agents, whose words are those of Claude's SDK.
fn class_of_kind(kind: &str) -> Option<ErrorClass> {
    Some(match kind {
        "rate_limit" => ErrorClass::RateLimited { until_ms: None },
        "overloaded" | "server_error" => ErrorClass::Overloaded,
        "authentication"
        | "authentication_failed"
        | "oauth_org_not_allowed"
        | "verification_required"
        | "cloud_credential_error" => ErrorClass::Unauthenticated,
        "billing_error" | "account_on_hold" => ErrorClass::Billing,
        "invalid_request" => ErrorClass::InvalidRequest,
        "model_not_found" => ErrorClass::NotFound,
        "max_output_tokens" => ErrorClass::AgentLimit,
        _ => return None,
    })
}

fn class_of_codex(info: &str) -> Option<ErrorClass> {
    Some(match info {
        "usageLimitExceeded" | "rateLimitExceeded" => ErrorClass::RateLimited { until_ms: None },
        "contextWindowExceeded" => ErrorClass::ContextExceeded,
        "sessionBudgetExceeded" => ErrorClass::AgentLimit,
        "serverOverloaded" | "internalServerError" => ErrorClass::Overloaded,
        "unauthorized" => ErrorClass::Unauthenticated,
        "badRequest" => ErrorClass::InvalidRequest,
        _ => return None,
    })
}

fn class_of_text(text: &str) -> ErrorClass {
    match error_text::classify(text) {
        ErrorClass::Crashed => status(text)
            .and_then(|status| match status {
                500..=599 => error_text::class_of_status(status).or(Some(ErrorClass::Overloaded)),
                _ => error_text::class_of_status(status),
            })
            .unwrap_or(ErrorClass::Crashed),
        class => class,
    }
}

/// The HTTP status of `API Error: 400 …` and `API Error: Request rejected (429) …`.
fn status(text: &str) -> Option<u64> {
    let (_, after) = text.split_once("API Error: ")?;
    let after = after.strip_prefix("Request rejected (").unwrap_or(after);
    let digits = after.get(..3)?;
    let ends = after.get(3..)?.chars().next().is_none_or(|next| !next.is_alphanumeric());
    if ends { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failure(code: i32, message: &str, data: Value) -> Failure {
        let mut error = Error::new(code, message);
        if !data.is_null() {
            error = error.data(data);
        }
        Failure::from_answer("session/prompt", &error)
    }

    #[test]
    fn the_kind_goes_before_the_code_and_the_code_before_words() {
        let limited = ErrorClass::RateLimited { until_ms: None };
        for (code, message, data, class) in [
            (-32603, "slow down, 401", json!({"errorKind": "rate_limit"}), limited.clone()),
            (-32000, "x", json!({"errorKind": "billing_error"}), ErrorClass::Billing),
            (-32603, "x", json!({"errorKind": "server_error"}), ErrorClass::Overloaded),
            (-32603, "x", json!({"errorKind": "model_not_found"}), ErrorClass::NotFound),
            (-32603, "API Error: 404 no such model", json!(null), ErrorClass::NotFound),
            (-32603, "x", json!({"codexErrorInfo": "usageLimitExceeded"}), limited.clone()),
            (-32000, "Authentication required", json!(null), ErrorClass::Unauthenticated),
            (
                -32603,
                "Internal error: API Error: 400 bad",
                json!({"errorKind": "unknown"}),
                ErrorClass::InvalidRequest,
            ),
            (
                -32603,
                "Internal error: API Error: Request rejected (429) · slow",
                json!(null),
                limited,
            ),
            (-32603, "API Error: 500 oops", json!(null), ErrorClass::Overloaded),
            (-32603, "API Error: 4000 oops", json!(null), ErrorClass::Crashed),
            (-32602, "Invalid params", json!({"x": []}), ErrorClass::InvalidRequest),
            (-32601, "Method not found", json!(null), ErrorClass::Unavailable),
            (-32603, "Internal error", json!({"details": "boom"}), ErrorClass::Crashed),
            (
                -32603,
                "Internal error",
                json!({"details": "Prompt is too long"}),
                ErrorClass::ContextExceeded,
            ),
        ] {
            let failure = failure(code, message, data.clone());
            assert_eq!(failure.class, class, "{message} {data}");
        }
        let reported = failure(-32603, "Internal error", json!({"details": "boom"})).message;
        assert!(
            reported.ends_with("`session/prompt` with an error: Internal error: boom"),
            "{reported}"
        );
    }

    #[test]
    fn errors_in_words_are_classed_and_short() {
        let failure =
            Failure::from_text("exceeded retry limit, last status: 429 Too Many Requests\n");
        assert_eq!(failure.class, ErrorClass::RateLimited { until_ms: None });
        assert!(Failure::from_text(&"€".repeat(10_000)).message.len() < MAX_MESSAGE + 64);
        assert!(Failure::from_text(" \n").message.ends_with("no reason given"));
    }
}
