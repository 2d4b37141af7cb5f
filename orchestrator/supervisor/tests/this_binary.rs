//! A program that is its own shim, which the test harness cannot be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

use std::fs;
use std::time::Duration;

use ralph_orchestrator_supervisor::{Ending, Spec, Stop, Supervisor, shim};

fn main() {
    shim::intercept();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        let spec = Spec {
            program: "/bin/sleep".into(),
            args: vec!["1000".into()],
            cwd: "/".into(),
            ..Spec::default()
        };
        let mut process = Supervisor::this_binary().spawn(spec).await.unwrap();
        let parent = |pid: &str| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            status.lines().find_map(|l| l.strip_prefix("PPid:\t")).unwrap().to_owned()
        };
        let read =
            |pid: &str, what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap();
        let shim = parent(&process.id().unwrap().to_string());
        let fork_server = parent(&shim);
        assert_eq!(parent(&fork_server), std::process::id().to_string());
        assert_eq!(read(&shim, "comm"), "ralph-supervise\n");
        assert_eq!(read(&fork_server, "comm"), "ralph-forksrv\n");
        let own_name = std::env::args().next().unwrap();
        assert_eq!(read(&fork_server, "cmdline"), format!("{own_name}\0__supervise\0"));
        assert_eq!(read(&fork_server, "environ"), "", "secrets are for the agent alone");
        process.stop(Stop::Terminate);
        let exit = process.wait().await;
        assert_eq!(exit.ending, Ending::Signaled { signal: 15, core: false });
    };
    let limit = Duration::from_secs(30);
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("not within 30 s") });
}
