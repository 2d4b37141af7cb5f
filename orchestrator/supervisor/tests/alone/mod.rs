//! What the tests share that measure their whole process, and so have one of their own each.

use std::time::Duration;

use ralph_orchestrator_supervisor::{Spec, Supervisor};

pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// The shim of this crate.
pub(crate) const SHIM: &str = env!("CARGO_BIN_EXE_ralph-supervisor-shim");

pub(crate) fn supervisor(shim: &str) -> Supervisor {
    Supervisor::new(shim.into(), Vec::new())
}

pub(crate) fn spec(program: &str, args: &[&str]) -> Spec {
    Spec {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        cwd: "/".into(),
        ..Spec::default()
    }
}
