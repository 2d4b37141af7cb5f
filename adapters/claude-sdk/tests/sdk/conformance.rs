//! What has to hold for every adapter.

use ralph_orchestrator_testkit::agent_harness::Adapter as _;
use ralph_orchestrator_testkit::conformance::{self, Options, Subject};
use ralph_orchestrator_testkit::{claude_binary, shim};
use serde_json::json;

use crate::harness::ClaudeSdk;
#[test]
fn it_holds() {
    let report = conformance::run(&Options::default(), |fixture| {
        let config = json!({"program": claude_binary()});
        let agent = ClaudeSdk::build(config, &fixture.context, &shim::supervisor()).unwrap();
        conformance::with_claude(Subject::boxed(agent), fixture)
    });
    report.assert();
}
