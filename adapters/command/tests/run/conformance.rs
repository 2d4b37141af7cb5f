//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Act, Cast, Options, Scenario};
use ralph_orchestrator_testkit::shim;
use serde_json::json;

#[test]
fn it_holds() {
    let options =
        Options::default().without(&Scenario::WITH_MODEL, "its program's model is not known");
    let report = conformance::run(&options, |stage| {
        let script = match &stage.act {
            Act::Says { text } => format!("cat >/dev/null; echo '{text}'"),
            Act::Runs { command, text } => format!("({command}); echo; echo '{text}'"),
            Act::Hangs => "echo begun; sleep 1000".to_owned(),
            Act::Stalls => "printf 'half a message'; sleep 1000".to_owned(),
            Act::Refused { .. } => panic!("no scenario of these is run"),
        };
        let config = json!({"program": ["sh", "-c", script]});
        let agent = ralph_adapter_command::build(config, &stage.context, &shim::supervisor());
        Cast::boxed(agent.unwrap())
    });
    report.assert();
}
