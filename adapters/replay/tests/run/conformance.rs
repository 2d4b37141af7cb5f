//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Behaviour, Options, Scenario, Subject};
use ralph_orchestrator_testkit::shim;
use serde_json::json;

use crate::support::{answer, call, init, result};

#[test]
fn it_holds() {
    let options = Options::default()
        .skip(&Scenario::WITH_OWN_TOOLS, "it has none of the orchestrator's tools")
        .skip(&Scenario::WITH_MODEL, "a recording asks no model")
        .skip(&[Scenario::BadPrompt, Scenario::LongPrompt], "a recording reads no prompt");
    let report = conformance::run(&options, |fixture| {
        let shell = |command: &str| call("1", "Bash", &json!({"command": command}));
        let said = |text: &str| {
            json!({"type": "assistant", "session_id": "s-1", "message":
            {"id": "m", "role": "assistant", "content": [{"type": "text", "text": text}]}})
        };
        let lines = match &fixture.behaviour {
            Behaviour::Message { text } => vec![init(), said(text), result(text)],
            Behaviour::Command { command, text } => {
                vec![init(), shell(command), answer("1", "x", false), said(text), result(text)]
            }
            Behaviour::Hang => {
                vec![init(), shell("sleep 1000"), answer("1", "x", false), result("late")]
            }
            Behaviour::StallInMessage => vec![
                init(),
                said("half a message"),
                shell("sleep 1000"),
                answer("1", "x", false),
                result("late"),
            ],
            Behaviour::Claim { .. } | Behaviour::Note { .. } | Behaviour::HttpError { .. } => {
                panic!("no scenario of these is run")
            }
        };
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let path = fixture.context.config_dir.join("session.jsonl");
        std::fs::write(&path, text).unwrap();
        let config = json!({"session": path});
        let agent = ralph_adapter_replay::build(config, &fixture.context, &shim::supervisor());
        Subject::boxed(agent.unwrap())
    });
    report.assert();
}
