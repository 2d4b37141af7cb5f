//! What has to hold for every adapter.

use ralph_orchestrator_testkit::agent_harness::Adapter as _;
use ralph_orchestrator_testkit::conformance::{self, Options, Subject};
use ralph_orchestrator_testkit::{codex_binary, shim};

use crate::harness::{Acp, Real};

/// With one agent, the one that takes half of the other's processor time: the adapter is the same. The other tests
/// drive both.
#[test]
fn it_holds() {
    // Codex refuses more than 1 MiB of input.
    let options = Options::default().prompt_max(1024 * 1024 - 1024);
    let report = conformance::run(&options, |fixture| {
        let config = Real::Codex.config();
        let agent = Acp::build(config, &fixture.context, &shim::supervisor()).unwrap();
        let codex = codex_binary();
        conformance::with_codex(Subject::boxed(agent), fixture)
            .env("CODEX_PATH", codex.to_str().unwrap())
    });
    report.assert();
}
