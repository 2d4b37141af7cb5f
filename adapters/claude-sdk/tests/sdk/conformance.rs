//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Cast, Options};
use ralph_orchestrator_testkit::iteration::Adapter as _;
use ralph_orchestrator_testkit::{claude_binary, shim};
use serde_json::json;

use crate::rig::ClaudeSdk;
#[test]
fn it_holds() {
    let report = conformance::run(&Options::default(), |stage| {
        let config = json!({"program": claude_binary()});
        let agent = ClaudeSdk::build(config, &stage.context, &shim::supervisor()).unwrap();
        conformance::with_claude(Cast::boxed(agent), stage)
    });
    report.assert();
}
