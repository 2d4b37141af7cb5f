//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Behaviour, Options, Scenario, Subject};
use ralph_orchestrator_testkit::shim;
use serde_json::{Value, json};

/// Runs the scenarios with a shell whose output is read with these keys, and is what `say` prints.
fn holds(keys: &Value, say: impl Fn(&str) -> String + Sync) {
    let options = Options::default()
        .skip(&Scenario::WITH_MODEL, "its program's model is not known")
        .skip(&Scenario::WITH_OWN_TOOLS, "its program has no tools that are known");
    let report = conformance::run(&options, |fixture| {
        let script = match &fixture.behaviour {
            Behaviour::Message { text } => format!("cat >/dev/null; {}", say(text)),
            Behaviour::Command { command, text } => format!("({command}); echo; {}", say(text)),
            Behaviour::Hang => format!("{}; sleep 1000", say("begun")),
            Behaviour::StallInMessage => "printf 'half a message'; sleep 1000".to_owned(),
            Behaviour::Claim { .. } | Behaviour::Note { .. } | Behaviour::HttpError { .. } => {
                panic!("no scenario of these is run")
            }
        };
        let mut config = keys.clone();
        config["program"] = json!(["sh", "-c", script]);
        let agent = ralph_adapter_command::build(config, &fixture.context, &shim::supervisor());
        Subject::boxed(agent.unwrap())
    });
    report.assert();
}

#[test]
fn it_holds_for_text() {
    holds(&json!({}), |text| format!("echo '{text}'"));
}

#[test]
fn it_holds_for_lines_that_are_read_by_rules() {
    let rules = json!([
        {"session": "id"},
        {"when": {"type": "delta"}, "text": "$.text"},
        {"usage": {"counts": "cumulative", "input": "used.in", "output": "used.out", "cost": "used.usd"}},
    ]);
    holds(&json!({"stream": {"rule": rules}}), |text| {
        let line = json!({"type": "delta", "id": "s-1", "text": text, "used": {"in": 10, "out": 2, "usd": 0.25}});
        format!("echo '{line}'")
    });
}
