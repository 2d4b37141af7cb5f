//! `[telemetry]`: a run that exports its trace by itself, and never waits for the collector.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{TestEnvironment, eventually};
use crate::notices::receiver::{Answer, Receiver, Request, closed_port};

const OK: Answer = Answer::Status("200 OK");
const DONE: &str = "<promise>COMPLETE: made it</promise>\n";
const SECRET: &str = "what nobody should read";

/// A run of two iterations, of which the first makes a claim that is rejected.
fn exported(address: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.config(&format!("\n[telemetry]\notlp = \"{address}\"\n{more}\n"));
    // Without a script of its own it would do what every other call does.
    env.agent.call(1).script("true\n").out(format!("{SECRET}\n{DONE}"));
    env.agent.default_call().script("touch done\n").out(DONE);
    env
}

fn base(receiver: &Receiver) -> &str {
    receiver.url.trim_end_matches("/hook")
}

/// The spans of a request, as a collector reads them.
fn spans(request: &Request) -> Vec<Span> {
    let request: ExportTraceServiceRequest = serde_json::from_str(&request.body).unwrap();
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

/// What a collector has after these requests: the last span of each id.
fn collected(requests: &[Request]) -> BTreeMap<Vec<u8>, Span> {
    let all = requests.iter().flat_map(spans);
    all.map(|span| (span.span_id.clone(), span)).collect()
}

/// The trace as `export` makes it afterwards.
fn after_the_fact(env: &TestEnvironment) -> BTreeMap<Vec<u8>, Span> {
    env.ralph(&["export", "--otlp", "trace.json"]).expect(0);
    let request: ExportTraceServiceRequest = serde_json::from_str(&env.read("trace.json")).unwrap();
    let spans = request.resource_spans[0].scope_spans[0].spans.clone();
    spans.into_iter().map(|span| (span.span_id.clone(), span)).collect()
}

#[test]
fn a_run_exports_what_export_makes_of_it_afterwards() {
    let collector = Receiver::new(&[OK]);
    let mut env = exported(base(&collector), "");
    env.var("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YTpi,x-scope=dev");
    env.run().expect(0);
    let requests = collector.left();
    for request in &requests {
        assert_eq!(request.path, "/v1/traces");
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("authorization"), Some("Basic YTpi"));
        assert_eq!(request.header("x-scope"), Some("dev"));
        assert!(!request.body.contains(SECRET), "{}", request.body);
    }
    let sent: usize = requests.iter().map(|request| spans(request).len()).sum();
    let collected = collected(&requests);
    assert_eq!(sent, collected.len(), "a span was sent twice");
    assert_eq!(collected, after_the_fact(&env));
    let names: BTreeSet<&str> = collected.values().map(|span| span.name.as_str()).collect();
    let expected = ["invoke_agent command", "invoke_workflow ralph-orchestrator", "validation"];
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
    env.run().expect(0);
    assert!(collector.left().is_empty(), "a completed run is sent once");
}

#[test]
fn an_iteration_is_exported_while_the_next_one_is_active() {
    let collector = Receiver::new(&[OK]);
    let env = exported(base(&collector), "content = true\n");
    let go = env.fifo("go");
    let script = format!("read x < {}\ntouch done\n", go.display());
    env.agent.default_call().script(&script).out(DONE);
    let mut running = env.start(&["run"]);
    let mut requests = Vec::new();
    loop {
        requests.push(collector.next());
        let has_first = |span: &Span| span.name == "invoke_agent command";
        if collected(&requests).values().any(has_first) {
            break;
        }
    }
    fs::write(&go, "go\n").unwrap();
    running.wait().expect(0);
    requests.extend(collector.left());
    assert_eq!(collected(&requests).len(), after_the_fact(&env).len());
    let body: String = requests.iter().map(|request| request.body.as_str()).collect();
    assert!(body.contains("ralph.verdict.detail"), "the content was asked for: {body}");
}

#[test]
fn a_run_never_waits_for_a_collector() {
    for answer in [
        Answer::Status("500 Internal Server Error"),
        Answer::Close,
        Answer::Nothing,
        Answer::Redirect("http://127.0.0.1:9/".to_owned()),
    ] {
        let collector = Receiver::new(std::slice::from_ref(&answer));
        let env = exported(base(&collector), "");
        let ended = env.run().expect(0);
        ended.says("completed: 2 iterations").says("the next `run` sends the rest");
        // Between the end of the run and that of the program lies what it may take to send the rest.
        let last = env.journal().last().unwrap()["time"].as_str().unwrap().to_owned();
        let last: jiff::Timestamp = last.parse().unwrap();
        let held = jiff::Timestamp::now().duration_since(last).as_secs();
        assert!(held < 30, "{answer:?} held up the end for {held} s");
    }
}

#[test]
fn what_a_collector_has_refused_is_given_up() {
    let collector = Receiver::new(&[Answer::Status("400 Bad Request")]);
    let env = exported(base(&collector), "");
    let go = env.fifo("go");
    let script = format!("read x < {}\ntouch done\n", go.display());
    env.agent.default_call().script(&script).out(DONE);
    let mut running = env.start(&["run"]);
    running.says("HTTP 400; the spans are sent again later");
    running.says("HTTP 400; these spans are not sent again");
    fs::write(&go, "go\n").unwrap();
    running.wait().expect(0);
}

#[test]
fn a_collector_that_was_not_there_gets_the_trace_from_the_next_start() {
    let port = closed_port();
    let env = exported(&format!("http://127.0.0.1:{port}"), "");
    env.run().expect(0).says("telemetry: ").says("the next `run` sends the rest");
    let expected = after_the_fact(&env);
    let collector = Receiver::at(port, &[OK]);
    env.run().expect(0);
    assert_eq!(collected(&collector.left()), expected);
    env.run().expect(0);
    assert!(collector.left().is_empty(), "it has everything");
}

#[test]
fn a_killed_run_exports_the_rest_with_the_same_ids() {
    let collector = Receiver::new(&[OK]);
    let env = exported(base(&collector), "");
    let go = env.fifo("go");
    let script = format!("read x < {}\ntouch done\n", go.display());
    env.agent.default_call().script(&script).out(DONE);
    let mut running = env.start(&["run"]);
    let mut requests = vec![collector.next()];
    while !collected(&requests).values().any(|span| span.name == "invoke_agent command") {
        requests.push(collector.next());
    }
    eventually("the second iteration", || env.records("iteration_started").len() == 2);
    let second = env.records("iteration_started")[1]["seq"].as_u64().unwrap();
    eventually("what was sent is recorded", || {
        let folder = env.state().join("runs").join(env.status()["run"].as_str().unwrap());
        let text = fs::read_to_string(folder.join("trace.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|line| line["through"].as_u64()).max() >= Some(second)
    });
    running.signal(Signal::KILL);
    running.wait();
    let before: BTreeSet<Vec<u8>> = collected(&requests).into_keys().collect();
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0);
    let rest = collector.left();
    let after: BTreeSet<Vec<u8>> = collected(&rest).into_keys().collect();
    assert!(before.is_disjoint(&after), "what was taken is sent again");
    requests.extend(rest);
    assert_eq!(collected(&requests), after_the_fact(&env));
}

#[test]
fn an_address_that_is_none_is_refused() {
    let env = exported("collector:4318", "");
    env.ralph(&["run"]).expect(78).says("telemetry.otlp").says("begins with https:// or http://");
}
