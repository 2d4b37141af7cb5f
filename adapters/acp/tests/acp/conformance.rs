//! What has to hold for every adapter.

use ralph_orchestrator_testkit::conformance::{self, Cast, Options, Stage};
use ralph_orchestrator_testkit::iteration::Adapter as _;
use ralph_orchestrator_testkit::{codex_binary, shim};

use crate::rig::{Acp, Real};

fn cast(real: Real, stage: &Stage) -> Cast {
    let agent = Acp::build(real.config(), &stage.context, &shim::supervisor()).unwrap();
    let cast = Cast::boxed(agent);
    match real {
        Real::Claude => conformance::with_claude(cast, stage),
        Real::Codex => {
            let codex = codex_binary();
            conformance::with_codex(cast, stage).env("CODEX_PATH", codex.to_str().unwrap())
        }
    }
}

#[test]
fn claude_agent_acp() {
    conformance::run(&Options::default(), |stage| cast(Real::Claude, stage)).assert();
}

#[test]
fn codex_acp() {
    // Codex refuses more than 1 MiB of input.
    let options = Options::default().prompt_max(1024 * 1024 - 1024);
    conformance::run(&options, |stage| cast(Real::Codex, stage)).assert();
}
