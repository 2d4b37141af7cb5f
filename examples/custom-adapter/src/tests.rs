//! The agent with a model on loopback that does what a script says.

use std::collections::BTreeMap;
use std::path::Path;

use ralph_orchestrator_conformance::model_server::{ModelServer, Reply, Script, Turn};
use ralph_orchestrator_conformance::{self as conformance, Options, RecordingSink, Subject};
use ralph_orchestrator_plugin_sdk::{
    Agent as _, AgentError, Budget, ErrorClass, Event, Iteration, Report, parse_config,
};
use serde_json::{Value, json};

use super::{ChatAgent, Config};

fn agent(url: &str) -> ChatAgent {
    with(url, json!({}))
}

fn with(url: &str, more: Value) -> ChatAgent {
    let mut table = json!({"base_url": format!("{url}/v1"), "model": "m", "api_key_env": "KEY"});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ChatAgent::build(parse_config::<Config>(table).unwrap()).unwrap()
}

fn task(workspace: &Path) -> Iteration {
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("KEY", "secret")];
    Iteration {
        run: "run".to_owned(),
        number: 1,
        prompt: b"Do it.".to_vec(),
        workspace: workspace.to_owned(),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        budget: Budget::default(),
        scratch: workspace.to_owned(),
    }
}

fn run(agent: &ChatAgent, sink: &RecordingSink) -> Result<Report, AgentError> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(agent.run(task(folder.path()), sink))
}

#[test]
fn it_is_an_agent_in_every_respect() {
    // Whoever runs the plugin in a process of its own supervises it; here nobody does.
    conformance::run(&Options::default().unsupervised(), |fixture| {
        Subject::new(agent(&fixture.model_url())).env("KEY", "secret")
    })
    .assert();
}

#[test]
fn the_key_is_sent_and_the_tool_offered() {
    let script = Script::new().then(Turn::shell("exit 3")).then(Turn::text("done"));
    let server = ModelServer::scripted(script);
    let sink = RecordingSink::new();
    let report = run(&agent(&server.base_url()), &sink).unwrap();
    assert_eq!(report.final_text.as_deref(), Some("done"));
    let requests = server.main_requests();
    assert_eq!(requests[0].headers["authorization"], "Bearer secret");
    assert_eq!(requests[0].model(), "m");
    let events = sink.events();
    let failed = |event: &Event| matches!(event, Event::ToolResult { is_error: true, text, .. } if text.contains("exit status: 3"));
    assert!(events.iter().any(failed), "{events:?}");
    let last = requests[1].body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "tool");
}

#[test]
fn what_the_endpoint_refuses_has_its_class() {
    let table = [
        (Reply::error(401, "who?"), ErrorClass::Unauthenticated),
        (Reply::error(403, "no"), ErrorClass::Unauthenticated),
        (Reply::error(402, "pay"), ErrorClass::Billing),
        (Reply::error(400, "bad"), ErrorClass::InvalidRequest),
        (Reply::error(404, "no such model"), ErrorClass::NotFound),
        (Reply::error(413, "large"), ErrorClass::ContextExceeded),
        (Reply::error(500, "oh"), ErrorClass::Overloaded),
        (Reply::error(503, "busy"), ErrorClass::Overloaded),
        (Reply::Drop, ErrorClass::Overloaded),
    ];
    for (reply, class) in table {
        let server = ModelServer::scripted(Script::new().forever(reply));
        let error = run(&agent(&server.base_url()), &RecordingSink::new()).unwrap_err();
        assert_eq!(error.class, class, "{error}");
    }
}

#[test]
fn the_time_of_the_next_attempt_is_reported() {
    let answer = |retry_after: Option<&str>, body: &str| crate::http::Answer {
        status: 429,
        retry_after: retry_after.map(str::to_owned),
        body: body.as_bytes().to_vec(),
    };
    let class = |answer| crate::chat::read(&answer).unwrap_err().class;
    assert_eq!(class(answer(None, "")), ErrorClass::RateLimited { until_ms: None });
    assert_eq!(class(answer(Some("soon"), "")), ErrorClass::RateLimited { until_ms: None });
    assert_eq!(class(answer(Some("-1"), "")), ErrorClass::RateLimited { until_ms: None });
    let ErrorClass::RateLimited { until_ms: Some(until) } = class(answer(Some("3600"), "")) else {
        panic!("no time")
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(u128::from(until) > now.as_millis() + 3_500_000, "{until}");
    let quota = r#"{"error": {"code": "insufficient_quota", "message": "none left"}}"#;
    assert_eq!(class(answer(Some("1"), quota)), ErrorClass::Billing);
    let full = r#"{"error": {"code": "context_length_exceeded", "message": "full"}}"#;
    assert_eq!(class(answer(None, full)), ErrorClass::ContextExceeded);
}

#[test]
fn an_endpoint_that_speaks_something_else_is_no_agent() {
    for body in ["", "<html>", "{}", r#"{"choices": []}"#, r#"{"choices": [{"message": 7}]}"#] {
        let answer =
            crate::http::Answer { status: 200, retry_after: None, body: body.as_bytes().to_vec() };
        assert_eq!(
            crate::chat::read(&answer).unwrap_err().class,
            ErrorClass::Unavailable,
            "{body}"
        );
    }
}

#[test]
fn an_agent_that_is_never_done_is_ended_by_its_own_bound() {
    let server = ModelServer::scripted(Script::new().forever(Turn::shell("true")));
    let agent = with(&server.base_url(), json!({"max_turns": 3}));
    let error = run(&agent, &RecordingSink::new()).unwrap_err();
    assert_eq!(error.class, ErrorClass::AgentLimit);
    assert_eq!(server.main_requests().len(), 3);
    assert!(error.report.usage.tokens.is_some(), "what it cost is known all the same");
}

#[test]
fn a_command_that_takes_too_long_is_killed_and_its_output_kept() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let shell = crate::shell::Shell::new(&task(folder.path()));
    let limit = std::time::Duration::from_millis(300);
    let (text, failed) = runtime.block_on(shell.run("echo before; sleep 1000 & sleep 1000", limit));
    assert!(failed && text.starts_with("before\n") && text.contains("killed"), "{text}");
    // Those that were killed may still be on their way out; then nobody is there.
    runtime.block_on(shell.end());
    assert_eq!(runtime.block_on(shell.end()), Vec::<String>::new());
}

#[test]
fn what_runs_on_in_the_background_is_reported() {
    let script = Script::new().then(Turn::shell("sleep 1000 & echo up")).then(Turn::text("done"));
    let server = ModelServer::scripted(script);
    let report = run(&agent(&server.base_url()), &RecordingSink::new()).unwrap();
    assert_eq!(report.left_behind, ["sleep"]);
}

#[test]
fn tables_that_cannot_be() {
    let refused = |table: Value| match parse_config::<Config>(table).and_then(ChatAgent::build) {
        Ok(agent) => panic!("{agent:?}"),
        Err(error) => (error.key, error.unknown_key),
    };
    let key = |key: &str| (vec![key.to_owned()], None);
    assert_eq!(refused(json!({"base_url": "localhost", "model": "m"})), key("base_url"));
    assert_eq!(refused(json!({"base_url": "ftp://x/v1", "model": "m"})), key("base_url"));
    assert_eq!(refused(json!({"base_url": "http://k@x/v1", "model": "m"})), key("base_url"));
    assert_eq!(refused(json!({"base_url": "http://x/v1", "model": " "})), key("model"));
    let none = json!({"base_url": "http://x/v1", "model": "m", "max_turns": 0});
    assert_eq!(refused(none), key("max_turns"));
    let typo = json!({"base_url": "http://x/v1", "model": "m", "modle": 1});
    assert_eq!(refused(typo), (vec![], Some("modle".to_owned())));
}

#[test]
fn without_its_key_it_does_not_start() {
    let server = ModelServer::scripted(Script::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(agent(&server.base_url()).check(&BTreeMap::new())).unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthenticated);
    assert!(error.message.contains("KEY"), "{error}");
}
