//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Behaviour, Options, Scenario, Subject};
use ralph_orchestrator_testkit::shim;
use serde_json::json;

#[test]
fn it_holds() {
    let options = Options::default()
        .skip(&Scenario::WITH_MODEL, "its program's model is not known")
        .skip(&Scenario::WITH_OWN_TOOLS, "its program has no tools that are known");
    let report = conformance::run(&options, |fixture| {
        let script = match &fixture.behaviour {
            Behaviour::Message { text } => format!("cat >/dev/null; echo '{text}'"),
            Behaviour::Command { command, text } => format!("({command}); echo; echo '{text}'"),
            Behaviour::Hang => "echo begun; sleep 1000".to_owned(),
            Behaviour::StallInMessage => "printf 'half a message'; sleep 1000".to_owned(),
            Behaviour::Claim { .. } | Behaviour::Note { .. } | Behaviour::HttpError { .. } => {
                panic!("no scenario of these is run")
            }
        };
        let config = json!({"program": ["sh", "-c", script]});
        let agent = ralph_adapter_command::build(config, &fixture.context, &shim::supervisor());
        Subject::boxed(agent.unwrap())
    });
    report.assert();
}
