//! Messages of the Model Context Protocol to the tools that the agent is given.

use ralph_orchestrator_contract::REJECTED_CLAIM;
use serde_json::{Value, json};

use crate::json::some_text;

/// The server's name.
pub const SERVER: &str = "ralph";
/// The rule of Claude Code that allows all its tools; their names begin with it.
pub const RULE: &str = "mcp__ralph";
/// What is answered to a claim that cannot be validated now.
pub const VALIDATED_LATER: &str =
    "The claim is noted. It will be validated when this session has ended: end your turn now.";
/// What is answered to a claim that stands.
pub const ACCEPTED: &str = "The claim was validated and stands. End your turn now.";
/// What is answered to an agent that needs a human.
pub const ASKED: &str = "A human will be asked. End your turn now.";
/// What is answered to a note.
pub const NOTED: &str = "Noted.";
/// Longest note that is kept, in bytes.
pub const MAX_NOTE: usize = 32 * 1024;
/// The protocol's version if the agent names none.
const PROTOCOL: &str = "2025-06-18";
/// Error codes of JSON-RPC.
const NO_METHOD: i64 = -32601;
const BAD_PARAMETERS: i64 = -32602;

/// A call of one of the tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolCall {
    /// The task is complete.
    ClaimComplete(String),
    /// A human has to decide.
    NeedHuman(String),
    /// A note for later iterations.
    Note(String),
    /// The session's status.
    Status,
    /// The task of this iteration, once more.
    NextTask,
}

/// A message to the server, as far as it has to be handled.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerRequest {
    /// Nothing is left to do but to send this answer.
    Answered(Value),
    /// A tool is called; its result goes to this id.
    ToolCall {
        /// The id of the request.
        id: Value,
        /// The call.
        call: ToolCall,
    },
}

/// Reads a message to the server.
#[must_use]
pub fn read(message: &Value) -> ServerRequest {
    let Some(id) = message.get("id").filter(|id| !id.is_null()).cloned() else {
        // A notification; the control protocol wants an answer all the same.
        return ServerRequest::Answered(json!({"jsonrpc": "2.0", "result": {}}));
    };
    let params = message.get("params").unwrap_or(&Value::Null);
    match message.get("method").and_then(Value::as_str).unwrap_or_default() {
        "initialize" => {
            let version =
                some_text(params, "protocolVersion").unwrap_or_else(|| PROTOCOL.to_owned());
            let info = json!({"name": SERVER, "version": env!("CARGO_PKG_VERSION")});
            let result = json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info});
            ServerRequest::Answered(success(&id, &result))
        }
        "ping" => ServerRequest::Answered(success(&id, &json!({}))),
        "tools/list" => ServerRequest::Answered(success(&id, &json!({"tools": tool_list()}))),
        "tools/call" => match call(params) {
            Ok(call) => ServerRequest::ToolCall { id, call },
            Err(problem) => ServerRequest::Answered(error(&id, BAD_PARAMETERS, &problem)),
        },
        method => {
            let problem = format!("no such method: {method:.100}");
            ServerRequest::Answered(error(&id, NO_METHOD, &problem))
        }
    }
}

fn call(params: &Value) -> Result<ToolCall, String> {
    let arguments = params.get("arguments").unwrap_or(&Value::Null);
    let argument = |key: &str| {
        some_text(arguments, key)
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| format!("`{key}` is missing; expected a text"))
    };
    match params.get("name").and_then(Value::as_str).unwrap_or_default() {
        "claim_complete" => argument("message").map(ToolCall::ClaimComplete),
        "need_human" => argument("reason").map(ToolCall::NeedHuman),
        "note" => argument("text").map(ToolCall::Note),
        "status" => Ok(ToolCall::Status),
        "next_task" => Ok(ToolCall::NextTask),
        name => Err(format!("no such tool: {name:.100}")),
    }
}

/// Returns what an agent reads whose claim was rejected for these reasons.
#[must_use]
pub fn rejection(reasons: &[String]) -> String {
    let mut text = REJECTED_CLAIM.to_owned();
    for reason in reasons {
        text.push_str("\n- ");
        text.push_str(reason);
    }
    text.push_str("\nPut this right, then claim again.");
    text
}

/// Returns the message with a tool's result.
#[must_use]
pub fn tool_result(id: &Value, text: &str, is_error: bool) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    success(id, &json!({"content": content, "isError": is_error}))
}

fn success(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn tool_list() -> Value {
    let tool = |name: &str, description: &str, argument: Option<(&str, &str)>| {
        let (properties, required) = match argument {
            Some((key, what)) => {
                (json!({key: {"type": "string", "description": what}}), json!([key]))
            }
            None => (json!({}), json!([])),
        };
        let schema = json!({"type": "object", "properties": properties, "required": required});
        // Claude Code would have its model look for the tool first.
        let meta = json!({"anthropic/alwaysLoad": true});
        json!({"name": name, "description": description, "inputSchema": schema, "_meta": meta})
    };
    json!([
        tool(
            "claim_complete",
            "Claim that the whole task is complete. The claim is validated; if it is refused, the \
             answer says why.",
            Some(("message", "What was done, in one or two sentences.")),
        ),
        tool(
            "need_human",
            "Say that the work cannot go on without a human: a decision, an access, a contradiction \
             in the task. End your turn afterwards.",
            Some(("reason", "What is needed, and why.")),
        ),
        tool(
            "note",
            "Leave a note for the sessions after this one, which know nothing of it otherwise.",
            Some(("text", "The note.")),
        ),
        tool(
            "status",
            "Tells the iteration's number, what is left to spend, and how full the context is.",
            None
        ),
        tool("next_task", "Returns the task of this session, as it was given at its start.", None),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(message: &Value) -> Value {
        match read(message) {
            ServerRequest::Answered(answer) => answer,
            other @ ServerRequest::ToolCall { .. } => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_handshake_as_claude_does_it() {
        let answer = answered(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        assert_eq!(answer["id"], 0);
        let answer = answered(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(answer, json!({"jsonrpc": "2.0", "result": {}}));
        let answer = answered(&json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"}));
        let tools = answer["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["claim_complete", "need_human", "note", "status", "next_task"]);
    }

    #[test]
    fn calls_and_their_mistakes() {
        let called = |name: &str, arguments: Value| {
            read(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                "params": {"name": name, "arguments": arguments}}))
        };
        let call = |call: ToolCall| ServerRequest::ToolCall { id: json!(7), call };
        assert_eq!(
            called("claim_complete", json!({"message": "m"})),
            call(ToolCall::ClaimComplete("m".into()))
        );
        assert_eq!(
            called("need_human", json!({"reason": "r"})),
            call(ToolCall::NeedHuman("r".into()))
        );
        assert_eq!(called("note", json!({"text": "t"})), call(ToolCall::Note("t".into())));
        assert_eq!(called("status", json!(null)), call(ToolCall::Status));
        for (name, arguments) in [
            ("claim_complete", json!({})),
            ("claim_complete", json!({"message": " "})),
            ("note", json!({"text": 7})),
            ("need_human", json!(["r"])),
            ("rm", json!({})),
        ] {
            let ServerRequest::Answered(answer) = called(name, arguments.clone()) else {
                panic!("{name}")
            };
            assert_eq!(answer["error"]["code"], BAD_PARAMETERS, "{name} {arguments}");
        }
        let answer = answered(&json!({"id": 1, "method": "resources/list"}));
        assert_eq!(answer["error"]["code"], NO_METHOD);
    }
}
