//! The orchestrator's tools as agents and others reach them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;

use async_trait::async_trait;
use ralph_adapter_common::agent_tools::{ToolServer, tools_file};
use ralph_orchestrator_contract::{
    Budget, CancelReason, CancelSignal, ClaimKind, Event, EventSink, Iteration, ValidationPreview,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Keeps events, and answers previews in turn.
#[derive(Default)]
struct TestSink {
    events: Mutex<Vec<Event>>,
    previews: Mutex<Vec<ValidationPreview>>,
}

#[async_trait]
impl CancelSignal for TestSink {
    async fn cancelled(&self) -> CancelReason {
        std::future::pending().await
    }
}

#[async_trait]
impl EventSink for TestSink {
    async fn emit(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    async fn preview(&self, _final_text: Option<&str>) -> ValidationPreview {
        self.previews.lock().unwrap().pop().unwrap_or(ValidationPreview::NoClaim)
    }
}

fn task(scratch: PathBuf) -> Iteration {
    Iteration {
        run: "r".into(),
        number: 3,
        prompt: b"Write a parser.".to_vec(),
        workspace: "/".into(),
        env: BTreeMap::new(),
        budget: Budget { tokens: Some(70), ..Budget::default() },
        scratch,
    }
}

/// A client of the server.
struct Client {
    lines: tokio::io::Lines<BufReader<OwnedReadHalf>>,
    output: OwnedWriteHalf,
}

impl Client {
    async fn connect(task: &Iteration, token: Option<&str>) -> Self {
        let address: Value =
            serde_json::from_slice(&std::fs::read(tools_file(task)).unwrap()).unwrap();
        let stream = UnixStream::connect(address["socket"].as_str().unwrap()).await.unwrap();
        let (input, output) = stream.into_split();
        let mut client = Self { lines: BufReader::new(input).lines(), output };
        client.send(token.unwrap_or_else(|| address["token"].as_str().unwrap())).await;
        client
    }

    async fn send(&mut self, line: &str) {
        // Whoever was refused may be gone.
        let _ = self.output.write_all(format!("{line}\n").as_bytes()).await;
    }

    async fn answer(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok().flatten()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Calls a tool. Returns its text, and whether it is an error.
    async fn call(&mut self, name: &str, arguments: Value) -> (String, bool) {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}});
        self.send(&call.to_string()).await;
        let answer = self.answer().await.unwrap();
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        (text, result["isError"].as_bool().unwrap())
    }
}

/// Runs a test beside the server of an iteration.
async fn with_server<F: AsyncFnOnce(&Iteration)>(sink: &TestSink, test: F) {
    let folder = tempfile::tempdir().unwrap();
    let task = task(folder.path().to_owned());
    ToolServer::beside(&task, sink, test(&task)).await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn a_claim_is_validated_at_once_and_may_be_made_again() {
    let sink = TestSink::default();
    let rejected = ValidationPreview::Rejected { reasons: vec!["tests: 2 failed".into()] };
    *sink.previews.lock().unwrap() = vec![ValidationPreview::Accepted, rejected];
    with_server(&sink, async |task| {
        let mut client = Client::connect(task, None).await;
        let (text, is_error) = client.call("claim_complete", json!({"message": "done"})).await;
        assert!(is_error && text.contains("REJECTED") && text.contains("2 failed"), "{text}");
        let (text, is_error) = client.call("claim_complete", json!({"message": "now"})).await;
        assert!(!is_error && text.contains("stands"), "{text}");
        let (text, _) = client.call("claim_complete", json!({"message": "again"})).await;
        assert!(text.contains("will be validated"), "{text}");
    })
    .await;
    let claim = |text: &str| Event::Claim { kind: ClaimKind::Complete, text: text.into() };
    assert_eq!(*sink.events.lock().unwrap(), [claim("done"), claim("now"), claim("again")]);
}

#[tokio::test]
async fn the_other_tools() {
    let sink = TestSink::default();
    with_server(&sink, async |task| {
        let mut client = Client::connect(task, None).await;
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        let (status, _) = client.call("status", json!({})).await;
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!((&status["iteration"], &status["tokens_left"]), (&3.into(), &70.into()));
        assert_eq!(client.call("next_task", json!({})).await.0, "Write a parser.");
        client.call("note", json!({"text": "é".repeat(40_000)})).await;
        client.call("need_human", json!({"reason": "which?"})).await;
        client
            .send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"rm"}}"#)
            .await;
        assert_eq!(client.answer().await.unwrap()["error"]["code"], -32602);
    })
    .await;
    let events = sink.events.lock().unwrap();
    assert!(matches!(&events[0], Event::Note { text } if text.len() == 32 * 1024));
    assert_eq!(events[1], Event::Claim { kind: ClaimKind::NeedsHuman, text: "which?".into() });
}

#[tokio::test]
async fn who_does_not_know_the_token_is_not_served() {
    let sink = TestSink::default();
    with_server(&sink, async |task| {
        let mode = std::fs::metadata(tools_file(task)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for token in ["", "guess", "{}"] {
            let mut client = Client::connect(task, Some(token)).await;
            client.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
            assert_eq!(client.answer().await, None, "{token:?}");
        }
    })
    .await;
    assert!(sink.events.lock().unwrap().is_empty());
}

#[tokio::test]
async fn bad_bytes_end_a_connection_and_no_other() {
    let sink = TestSink::default();
    with_server(&sink, async |task| {
        let mut good = Client::connect(task, None).await;
        for line in ["{", "\u{0}", &"x".repeat(2 * 1024 * 1024)] {
            let mut bad = Client::connect(task, None).await;
            bad.send(line).await;
            assert_eq!(bad.answer().await, None);
        }
        // More than are served at once: they wait for their turn, and the first still has an answer.
        let mut idle = Vec::new();
        for _ in 0..31 {
            idle.push(Client::connect(task, None).await);
        }
        good.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
        assert_eq!(good.answer().await.unwrap()["result"], json!({}));
        let mut late = Client::connect(task, None).await;
        idle.clear();
        late.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
        assert_eq!(late.answer().await.unwrap()["result"], json!({}));
    })
    .await;
}

#[tokio::test]
async fn an_agent_works_without_tools_where_they_cannot_be_opened() {
    let sink = TestSink::default();
    let task = task("/nonexistent".into());
    assert_eq!(ToolServer::beside(&task, &sink, async { 7 }).await, 7);
    let events = sink.events.lock().unwrap();
    assert!(matches!(&events[..], [Event::Warning { message }] if message.contains("no tools")));
}
