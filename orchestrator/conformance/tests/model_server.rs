//! The model server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use ralph_orchestrator_conformance::model_server::{Fault, ModelServer, Reply, Script, Turn};
use ralph_orchestrator_contract::Tokens;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a request on a connection of its own and returns all of the answer, until the server ends it
/// or `Connection: close` does.
fn exchange(server: &ModelServer, path: &str, body: &Value) -> String {
    let mut connection = connect(server);
    send(&mut connection, path, body);
    connection.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

fn connect(server: &ModelServer) -> TcpStream {
    let address = server.base_url().strip_prefix("http://").unwrap().to_owned();
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

fn send(connection: &mut TcpStream, path: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    write!(connection, "POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
}

fn main_request(stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "tools": [{"name": "Write"}], "messages": []})
}

#[test]
fn a_script_is_followed_and_its_end_is_an_error() {
    let usage = Tokens { input: 5, output: 7, cache_read: 1, cache_write: 2 };
    let script = Script::new()
        .then(Turn::text("one").usage(usage))
        .then(Reply::error(429, "slow down").header("retry-after", "1"));
    let server = ModelServer::scripted(script);
    let first = exchange(&server, "/v1/messages?beta=true", &main_request(false));
    assert!(first.starts_with("HTTP/1.1 200") && first.contains("\"text\":\"one\""), "{first}");
    let second = exchange(&server, "/v1/messages", &main_request(true));
    assert!(second.starts_with("HTTP/1.1 429") && second.contains("retry-after: 1\r\n"));
    assert!(second.contains("rate_limit_error"), "{second}");
    let third = exchange(&server, "/v1/messages", &main_request(true));
    assert!(third.starts_with("HTTP/1.1 400") && third.contains("come to its end"));
    assert_eq!((server.served(), server.main_requests().len()), (usage, 3));
}

#[test]
fn a_stream_has_all_events_and_a_tools_input() {
    let turn = Turn::text("hi").thinking("hm").and_tool("Write", &json!({"a": 1}));
    let server = ModelServer::scripted(Script::new().forever(turn));
    let answer = exchange(&server, "/v1/messages", &main_request(true));
    for part in [
        "event: message_start",
        "thinking_delta",
        "text_delta",
        "input_json_delta",
        r#""stop_reason":"tool_use""#,
        "event: message_stop",
        "0\r\n\r\n",
    ] {
        assert!(answer.contains(part), "{part} is missing in {answer}");
    }
}

#[test]
fn side_requests_probes_and_unknown_paths_do_not_use_up_the_script() {
    let server = ModelServer::scripted(Script::new().then(Turn::text("main")));
    let side = exchange(&server, "/v1/messages", &json!({"model": "small", "messages": []}));
    assert!(side.contains("\"text\":\"ok\""), "{side}");
    let count = exchange(&server, "/v1/messages/count_tokens", &main_request(false));
    assert!(count.contains("input_tokens"), "{count}");
    assert!(exchange(&server, "/v1/models", &json!({})).starts_with("HTTP/1.1 404"));
    let mut probe = connect(&server);
    write!(probe, "HEAD / HTTP/1.1\r\n\r\n").unwrap();
    // The same connection goes on, and takes a body in chunks.
    let body = main_request(false).to_string();
    let (a, b) = body.split_at(10);
    write!(probe, "POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    write!(probe, "{:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n", a.len(), b.len()).unwrap();
    probe.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    probe.read_to_string(&mut answers).unwrap();
    assert!(answers.contains("\"text\":\"main\""), "{answers}");
    assert_eq!((server.served().output, server.requests().len()), (10, 5));
}

#[test]
fn faults() {
    let cut = ModelServer::scripted(Script::new().then(Turn::text("half").fault(Fault::Cut)));
    let answer = exchange(&cut, "/v1/messages", &main_request(true));
    assert!(answer.contains("half") && !answer.contains("message_stop"), "{answer}");
    assert_eq!(cut.served(), Tokens::default());
    let error = ModelServer::scripted(Script::new().then(Turn::text("half").fault(Fault::Error)));
    assert!(exchange(&error, "/v1/messages", &main_request(true)).contains("event: error"));
}

#[test]
fn the_servers_end_ends_what_hangs() {
    let (said, received) = mpsc::channel();
    for reply in [Reply::Hang, Turn::text("half").fault(Fault::Stall).into()] {
        let server = ModelServer::scripted(Script::new().forever(reply));
        let mut connection = connect(&server);
        send(&mut connection, "/v1/messages", &main_request(true));
        assert!(server.wait_for_stalled(1, PATIENCE));
        assert!(!server.wait_for_stalled(2, Duration::ZERO));
        let said = said.clone();
        let client = std::thread::spawn(move || {
            let mut answer = Vec::new();
            said.send(connection.read_to_end(&mut answer).is_ok()).unwrap();
        });
        drop(server);
        assert!(received.recv_timeout(PATIENCE).is_ok(), "the client was left waiting");
        client.join().unwrap();
    }
}

#[test]
fn a_slow_stream_does_not_hold_up_the_servers_end() {
    let slow = Turn::text("slow").slow(Duration::from_secs(3600));
    let server = ModelServer::scripted(Script::new().forever(slow));
    let mut connection = connect(&server);
    send(&mut connection, "/v1/messages", &main_request(true));
    // The head of the answer comes at once.
    assert!(connection.read(&mut [0; 8]).unwrap() > 0);
    drop(server);
}

/// A request with a tool of this name.
fn offering(tool: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "messages": [], "input": [],
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "name": tool, "function": {"name": tool}}]})
}

/// The data of all events of a stream.
fn events(answer: &str) -> Vec<Value> {
    let data = answer.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

const USAGE: Tokens = Tokens { input: 5, output: 7, cache_read: 1, cache_write: 2 };

#[test]
fn one_script_speaks_every_api() {
    let turn = || Turn::text("hi").thinking("hm").and_shell("ls").usage(USAGE);
    let server = ModelServer::scripted(Script::new().forever(turn()));
    for (stream, messages) in [(false, "\"name\":\"Bash\""), (true, "input_json_delta")] {
        let answer = exchange(&server, "/v1/messages", &offering("Bash", stream));
        assert!(answer.contains(messages) && answer.contains("thinking"), "{answer}");
    }
    let whole = exchange(&server, "/v1/responses", &offering("exec_command", false));
    let body: Value = serde_json::from_str(whole.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let kinds: Vec<&Value> =
        body["output"].as_array().unwrap().iter().map(|i| &i["type"]).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
    assert_eq!(
        (&body["usage"]["input_tokens"], &body["usage"]["total_tokens"]),
        (&8.into(), &15.into())
    );
    assert!(body["output"][2]["arguments"].as_str().unwrap().contains("\"cmd\":\"ls\""));
    let stream = events(&exchange(&server, "/v1/responses", &offering("shell", true)));
    assert_eq!(stream.first().unwrap()["type"], "response.created");
    assert_eq!(stream.last().unwrap()["type"], "response.completed");
    assert_eq!(stream.last().unwrap()["response"]["usage"], body["usage"]);
    assert!(
        stream
            .iter()
            .any(|event| event["item"]["arguments"] == r#"{"command":["bash","-c","ls"]}"#)
    );
    let whole = exchange(&server, "/v1/chat/completions", &offering("bash", false));
    assert!(
        whole.contains(r#""finish_reason":"tool_calls""#) && whole.contains(r#""content":"hi""#)
    );
    let stream = exchange(&server, "/v1/chat/completions", &offering("run_shell_command", true));
    let reported = events(&stream);
    assert!(stream.contains("data: [DONE]\n\n"), "{stream}");
    assert_eq!(reported.last().unwrap()["usage"]["prompt_tokens"], 8);
    let calls =
        reported.iter().filter(|event| event["choices"][0]["delta"]["tool_calls"].is_array());
    assert_eq!(calls.count(), 1);
    assert_eq!((server.served().output, server.main_requests().len()), (6 * 7, 6));
}

#[test]
fn errors_and_faults_in_every_api() {
    let limit = Reply::error(429, "wait").kind("usage_limit_reached").detail("resets_at", 7);
    let script = Script::new()
        .then(limit)
        .then(Reply::failed("context_length_exceeded", "too long"))
        .then(Turn::text("half").fault(Fault::Error))
        .then(Turn::text("half").fault(Fault::Cut))
        .then(Reply::Drop)
        .forever(Turn::shell("ls"));
    let server = ModelServer::scripted(script);
    for (client, path, failed, error, end) in [
        ("a", "messages", "event: error", "overloaded_error", "message_stop"),
        ("b", "responses", "response.failed", "server_is_overloaded", "response.completed"),
        ("c", "chat/completions", "context_length_exceeded", "server_is_overloaded", "[DONE]"),
    ] {
        let ask =
            |stream| exchange(&server, &format!("/{client}/v1/{path}"), &offering("x", stream));
        let limited = ask(true);
        assert!(limited.starts_with("HTTP/1.1 429") && limited.contains("\"resets_at\":7"));
        assert!(limited.contains(r#""type":"usage_limit_reached""#), "{limited}");
        let answer = ask(true);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(failed), "{answer}");
        assert!(answer.contains("context_length_exceeded"), "{answer}");
        let answer = ask(true);
        assert!(answer.contains("half") && answer.contains(error), "{answer}");
        let answer = ask(true);
        assert!(answer.contains("half") && !answer.contains(end), "{answer}");
        assert_eq!(ask(true), "");
        assert!(ask(false).contains("no shell is offered"));
    }
    assert_eq!(server.served(), Tokens::default());
    let clients: Vec<_> = server.requests().iter().map(|r| r.client().to_owned()).collect();
    assert_eq!(clients.iter().filter(|client| *client == "b").count(), 6);
    assert!(server.base_url_for("b").ends_with("/b"));
}

#[test]
fn a_tool_of_free_form_is_called_in_its_own_way() {
    let turn = Turn::tool("apply_patch", &json!("*** Begin Patch"));
    let server = ModelServer::scripted(Script::new().then(turn));
    let mut request = offering("apply_patch", false);
    request["tools"][0]["type"] = "custom".into();
    let answer = exchange(&server, "/v1/responses", &request);
    assert!(answer.contains(r#""type":"custom_tool_call""#), "{answer}");
    assert!(answer.contains(r#""input":"*** Begin Patch""#), "{answer}");
}

/// The binary, which is ended with its standard output.
struct Served(std::process::Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn the_binary_serves_a_file() {
    use std::io::BufRead as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, r#"{"steps": [{"text": "from a file"}]}"#).unwrap();
    #[allow(clippy::disallowed_methods)]
    let command = || Command::new(env!("CARGO_BIN_EXE_ralph-model-server"));
    let mut server = Served(command().arg(&file).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = std::io::BufReader::new(server.0.stdout.take().unwrap()).lines();
    let url = said.next().unwrap().unwrap();
    let mut connection = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    send(&mut connection, "/v1/messages", &main_request(false));
    assert_eq!(said.next().unwrap().unwrap(), "POST /v1/messages m");
    connection.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("from a file"), "{answer}");
    std::fs::write(&file, r#"{"steps": [{}]}"#).unwrap();
    let refused = command().arg(&file).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("script.json: steps[0]: expected"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&command().output().unwrap().stderr).contains("SCRIPT [PORT]"));
}
