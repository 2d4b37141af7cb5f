//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Cast, Options};
use ralph_orchestrator_testkit::{claude_binary, shim};
use serde_json::json;

#[test]
fn it_holds() {
    let report = conformance::run(&Options::default(), |stage| {
        let config = json!({"program": claude_binary()});
        let agent =
            ralph_adapter_claude_cli::build(config, &stage.context, &shim::supervisor()).unwrap();
        conformance::with_claude(Cast::boxed(agent), stage)
    });
    report.assert();
}
