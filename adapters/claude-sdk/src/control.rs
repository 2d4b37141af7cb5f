//! The control protocol: what either side asks the other, one message a line.

use serde_json::{Value, json};

/// A control message of the agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Incoming {
    /// It wants an answer.
    Request { id: String, request: Request },
    /// It answers.
    Answer { id: String, answer: Result<Value, String> },
    /// It does not want the answer to this request any more.
    Cancel { id: String },
}

/// What the agent asks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// May it use this tool? Asked if its rules and its mode do not say.
    MayUse { tool: String, input: Value },
    /// A hook that was asked for.
    Hook { callback: String, input: Value },
    /// A message for one of our own servers of tools.
    Mcp { server: String, message: Value },
    /// Of a kind not known here.
    Unknown { kind: String },
}

impl Incoming {
    /// Reads a control message; nothing if it is none, or makes no sense without more.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let id = |value: &Value| text(value, "request_id");
        match value.get("type")?.as_str()? {
            "control_request" => {
                let request = value.get("request").unwrap_or(&Value::Null);
                Some(Self::Request { id: id(value)?, request: Request::read(request) })
            }
            "control_response" => {
                let response = value.get("response")?;
                let answer = match response.get("subtype").and_then(Value::as_str) {
                    Some("success") => Ok(response.get("response").cloned().unwrap_or_default()),
                    _ => Err(text(response, "error").unwrap_or_else(|| "no reason given".into())),
                };
                Some(Self::Answer { id: id(response)?, answer })
            }
            "control_cancel_request" => Some(Self::Cancel { id: id(value)? }),
            _ => None,
        }
    }
}

impl Request {
    fn read(request: &Value) -> Self {
        let word = |key: &str| text(request, key).unwrap_or_default();
        let field = |key: &str| request.get(key).cloned().unwrap_or_default();
        match word("subtype").as_str() {
            "can_use_tool" => Self::MayUse { tool: word("tool_name"), input: field("input") },
            "hook_callback" => Self::Hook { callback: word("callback_id"), input: field("input") },
            "mcp_message" => Self::Mcp { server: word("server_name"), message: field("message") },
            kind => Self::Unknown { kind: kind.to_owned() },
        }
    }
}

/// The string at `key`.
pub(crate) fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

/// A request of ours.
pub(crate) fn request(id: &str, request: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": request})
}

/// An answer of ours.
pub(crate) fn answer(id: &str, answer: &Value) -> Value {
    let response = json!({"subtype": "success", "request_id": id, "response": answer});
    json!({"type": "control_response", "response": response})
}

/// What we answer if we cannot.
pub(crate) fn refusal(id: &str, error: &str) -> Value {
    let response = json!({"subtype": "error", "request_id": id, "error": error});
    json!({"type": "control_response", "response": response})
}

/// A message to the model.
pub(crate) fn user(text: &str) -> Value {
    let message = json!({"role": "user", "content": text});
    json!({"type": "user", "session_id": "", "message": message, "parent_tool_use_id": null})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_lack_everything_are_no_control_messages_or_unknown_ones() {
        for odd in [
            json!({}),
            json!({"type": 7}),
            json!({"type": "control_request"}),
            json!({"type": "control_request", "request_id": 7, "request": {}}),
            json!({"type": "control_response", "response": "success"}),
            json!({"type": "control_response", "response": {"subtype": "success"}}),
            json!({"type": "control_cancel_request"}),
            json!({"type": "assistant", "request_id": "x"}),
        ] {
            assert_eq!(Incoming::read(&odd), None, "{odd}");
        }
        for request in [json!(null), json!([]), json!({"subtype": null}), json!("can_use_tool")] {
            let odd = json!({"type": "control_request", "request_id": "x", "request": request});
            let unknown = Request::Unknown { kind: String::new() };
            let expected = Incoming::Request { id: "x".into(), request: unknown };
            assert_eq!(Incoming::read(&odd), Some(expected), "{odd}");
        }
    }

    #[test]
    fn an_answer_that_is_no_success_is_an_error() {
        let read = |response: Value| match Incoming::read(
            &json!({"type": "control_response", "response": response}),
        ) {
            Some(Incoming::Answer { answer, .. }) => answer,
            other => panic!("{other:?}"),
        };
        assert_eq!(read(json!({"subtype": "success", "request_id": "1"})), Ok(Value::Null));
        let error = json!({"subtype": "error", "request_id": "1", "error": "no such thing"});
        assert_eq!(read(error), Err("no such thing".to_owned()));
        assert!(read(json!({"request_id": "1"})).is_err());
    }
}
