//! Messages of the Model Context Protocol to the tools that the agent is given.

use ralph_orchestrator_contract::agent_tools::{ToolCall, ToolDefinition, definitions};
use serde_json::{Value, json};

use crate::json::some_text;

/// The server's name.
pub const SERVER: &str = "ralph";
/// The rule of Claude Code that allows all its tools; their names begin with it.
pub const RULE: &str = "mcp__ralph";
/// The protocol's version if the agent names none.
const PROTOCOL: &str = "2025-06-18";
/// Error codes of JSON-RPC.
const NO_METHOD: i64 = -32601;
const BAD_PARAMETERS: i64 = -32602;

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
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    ToolCall::parse(name, params.get("arguments").unwrap_or(&Value::Null))
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
    // Claude Code would have its model look for the tool first.
    let meta = json!({"anthropic/alwaysLoad": true});
    let tool = |tool: &ToolDefinition| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema, "_meta": meta});
    definitions().iter().map(tool).collect()
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
