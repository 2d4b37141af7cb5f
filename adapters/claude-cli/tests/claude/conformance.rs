//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Options, Subject};
use ralph_orchestrator_testkit::{claude_binary, shim};
use serde_json::json;

#[test]
fn it_holds() {
    let report = conformance::run(&Options::default(), |fixture| {
        let config = json!({"program": claude_binary()});
        let agent =
            ralph_adapter_claude_cli::build(config, &fixture.context, &shim::supervisor()).unwrap();
        conformance::with_claude(Subject::boxed(agent), fixture)
    });
    report.assert();
}
