//! What has to hold for every adapter.

use ralph_orchestrator_testkit::agent_harness::Adapter as _;
use ralph_orchestrator_testkit::conformance::{self, Fixture, Options, Subject};
use ralph_orchestrator_testkit::{codex_binary, shim};

use crate::harness::{Acp, Real};

fn cast(real: Real, fixture: &Fixture) -> Subject {
    let agent = Acp::build(real.config(), &fixture.context, &shim::supervisor()).unwrap();
    let cast = Subject::boxed(agent);
    match real {
        Real::Claude => conformance::with_claude(cast, fixture),
        Real::Codex => {
            let codex = codex_binary();
            conformance::with_codex(cast, fixture).env("CODEX_PATH", codex.to_str().unwrap())
        }
    }
}

#[test]
fn claude_agent_acp() {
    conformance::run(&Options::default(), |fixture| cast(Real::Claude, fixture)).assert();
}

#[test]
fn codex_acp() {
    // Codex refuses more than 1 MiB of input.
    let options = Options::default().prompt_max(1024 * 1024 - 1024);
    conformance::run(&options, |fixture| cast(Real::Codex, fixture)).assert();
}
