//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Options, Subject};
use ralph_orchestrator_testkit::{codex_binary, shim};
use serde_json::json;

#[test]
fn it_holds() {
    // Codex refuses more than 1 MiB of input.
    let options = Options::default().prompt_max(1024 * 1024 - 1024);
    let report = conformance::run(&options, |fixture| {
        let config = json!({"program": codex_binary(), "model": "gpt-5.1-codex"});
        let agent = ralph_adapter_codex::build(config, &fixture.context, &shim::supervisor());
        conformance::with_codex(Subject::boxed(agent.unwrap()), fixture)
    });
    report.assert();
}
