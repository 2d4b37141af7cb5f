//! `export --otlp`: a run as a trace of OpenTelemetry.

use std::fs;

use serde_json::{Value, json};

use crate::environment::TestEnvironment;
use crate::notices::receiver::{Answer, Receiver, closed_port};

/// A completed run whose agent has called a tool.
fn recorded() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(
        "[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         output = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n",
    );
    let lines = [
        json!({"type": "system", "subtype": "init", "session_id": "s", "model": "sonnet", "tools": []}),
        json!({"type": "assistant", "session_id": "s", "message": {"id": "m", "model": "sonnet", "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "touch done"}}],
            "usage": {"input_tokens": 5, "output_tokens": 7}}}),
        json!({"type": "user", "session_id": "s", "message": {"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "made"}]}}),
        json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s", "num_turns": 2,
            "duration_ms": 1, "duration_api_ms": 1, "total_cost_usd": 0.25,
            "result": "<promise>COMPLETE: made it</promise>", "usage": {"input_tokens": 5, "output_tokens": 7}}),
    ];
    let out: String = lines.iter().map(|line| format!("{line}\n")).collect();
    env.agent.default_call().script("touch done\n").out(out);
    env.run().expect(0);
    env
}

fn spans(request: &Value) -> &Vec<Value> {
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap()
}

#[test]
fn a_trace_has_the_run_its_iterations_tools_and_verdicts() {
    let env = recorded();
    env.ralph(&["export", "--otlp", "trace.json"]).expect(0).says(" spans to trace.json");
    let text = env.read("trace.json");
    let trace: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        spans(&trace).iter().map(|span| span["name"].as_str().unwrap()).collect();
    for name in [
        "invoke_workflow ralph-orchestrator",
        "invoke_agent command",
        "execute_tool Bash",
        "baseline",
        "validation",
        "validate tests",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    assert!(!text.contains("touch done"), "{text}");
    env.ralph(&["export", "--otlp", "again.json"]).expect(0);
    assert_eq!(env.read("again.json"), text);
    env.ralph(&["export", "--otlp", "all.json", "--content"]).expect(0);
    assert!(env.read("all.json").contains("touch done"));
    // Both kinds of files at once, and no kind at all.
    env.ralph(&["export", "out", "--otlp", "trace.json"]).expect(0).says("wrote 1 trajectory to ");
    env.ralph(&["export"]).expect(64);
    env.ralph(&["export", "--otlp", "missing/trace.json"]).expect(64).says("missing/trace.json");
    assert!(!env.path("missing").exists());
}

#[test]
fn a_collector_gets_the_trace_at_the_usual_path() {
    let env = recorded();
    let collector = Receiver::new(&[Answer::Status("200 OK")]);
    let base = collector.url.trim_end_matches("/hook");
    env.ralph(&["export", "--otlp", base]).expect(0).says(" spans to ");
    let request = collector.next();
    assert_eq!(request.path, "/v1/traces");
    assert_eq!(request.header("content-type"), Some("application/json"));
    env.ralph(&["export", "--otlp", "trace.json"]).expect(0);
    let written: Value = serde_json::from_str(&env.read("trace.json")).unwrap();
    assert_eq!(request.json(), written);
    // Another path is taken as it is.
    env.ralph(&["export", "--otlp", &collector.url]).expect(0);
    assert_eq!(collector.next().path, "/hook");
}

#[test]
fn a_collector_that_does_not_take_it_is_named() {
    let env = recorded();
    for (answer, says) in [
        (Answer::Status("500 Internal Server Error"), "HTTP 500"),
        (Answer::Status("401 Unauthorized"), "HTTP 401"),
        (Answer::Close, "curl"),
        (Answer::Nothing, "curl"),
        (Answer::Redirect("http://127.0.0.1:9/".to_owned()), "redirections are not followed"),
    ] {
        let collector = Receiver::new(&[answer]);
        let ended = env.ralph(&["export", "--otlp", &collector.url]).expect(69);
        ended.says(&collector.url).says(says).says("`--otlp FILE`");
    }
    let nobody = format!("http://127.0.0.1:{}", closed_port());
    env.ralph(&["export", "--otlp", &nobody]).expect(69).says(&format!("{nobody}/v1/traces"));
}

#[test]
fn a_transcript_that_a_crash_has_cut_is_exported_as_far_as_it_goes() {
    let env = recorded();
    let run = env.status()["run"].as_str().unwrap().to_owned();
    let path = env.state().join("runs").join(run).join("iterations/0001/transcript.jsonl");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(b"\xff\xfe not JSON\n{\"time\":\"2026-01-01T00:00:00Z\",\"type\":\"tool_c");
    fs::write(&path, bytes).unwrap();
    env.ralph(&["export", "--otlp", "trace.json"]).expect(0);
    assert!(env.read("trace.json").contains("execute_tool Bash"));
    fs::remove_file(&path).unwrap();
    env.ralph(&["export", "--otlp", "trace.json"]).expect(0);
    assert!(!env.read("trace.json").contains("execute_tool"));
}
