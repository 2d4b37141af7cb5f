//! What the tests share that measure their whole process, and so have one of their own each.

use std::time::Duration;

use ralph_orchestrator_supervise::{Spec, Supervisor};

pub(crate) const LIMIT: Duration = Duration::from_secs(240);

pub(crate) fn supervisor() -> Supervisor {
    Supervisor::new(env!("CARGO_BIN_EXE_ralph-supervise-shim").into(), Vec::new())
}

pub(crate) fn spec(program: &str, args: &[&str]) -> Spec {
    Spec {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        cwd: "/".into(),
        ..Spec::default()
    }
}
