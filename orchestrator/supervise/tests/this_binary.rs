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

use ralph_orchestrator_supervise::{Ending, Spec, Stop, Supervisor, shim};

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
        let status = fs::read_to_string(format!("/proc/{}/status", process.id().unwrap())).unwrap();
        let parent = status.lines().find_map(|l| l.strip_prefix("PPid:\t")).unwrap();
        let read = |what: &str| fs::read_to_string(format!("/proc/{parent}/{what}")).unwrap();
        let cmdline = read("cmdline");
        let own_name = std::env::args().next().unwrap();
        assert!(cmdline.starts_with(&format!("{own_name}\0__supervise\0")), "{cmdline:?}");
        assert!(cmdline.ends_with("\0--\0/bin/sleep\x001000\0"), "{cmdline:?}");
        assert_eq!(read("comm"), "ralph-supervise\n");
        process.stop(Stop::Terminate);
        let exit = process.wait().await;
        assert_eq!(exit.ending, Ending::Signaled { signal: 15, core: false });
    };
    let limit = Duration::from_secs(30);
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("not within 30 s") });
}
