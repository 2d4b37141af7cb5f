//! What is left in this process after many others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod alone;

use std::fs;
use std::future::pending;

use alone::{LIMIT, SHIM, spec, supervisor};
use ralph_orchestrator_supervisor::{CaptureLimit, Ending};
use tokio::time::timeout;

fn count(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// All children, zombies too, of all threads.
fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let lists = tasks.filter_map(|t| fs::read_to_string(t.unwrap().path().join("children")).ok());
    lists.flat_map(|l| l.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[tokio::test]
async fn ten_thousand_short_children_leave_nothing() {
    let supervisor = supervisor(SHIM);
    let batch = |failing: bool| {
        let supervisor = supervisor.clone();
        async move {
            let program = if failing { "/no/such/program" } else { "/bin/true" };
            let mut spec = spec(program, &[]);
            spec.stdin = b"unread".to_vec();
            match supervisor.output(spec, CaptureLimit::default(), pending()).await {
                Ok(output) => assert_eq!(output.exit.ending, Ending::Exited(0)),
                Err(e) => assert!(failing, "{e}"),
            }
        }
    };
    let run = async {
        // The first ones make the runtime open what it keeps.
        batch(false).await;
        let before = (count("/proc/self/fd"), count("/proc/self/task"), children());
        assert_eq!(before.2.len(), 1, "what shims are forked from");
        for round in 0..1250 {
            let failing = round % 10 == 9;
            let eight = (0..8).map(|_| tokio::spawn(batch(failing))).collect::<Vec<_>>();
            for one in eight {
                one.await.unwrap();
            }
        }
        let after = (count("/proc/self/fd"), count("/proc/self/task"), children());
        assert_eq!((after.1, &after.2), (before.1, &before.2), "threads, children");
        // Shims that wait for the next job, each with a socket.
        let shims = || {
            let list = fs::read_to_string(format!("/proc/{0}/task/{0}/children", after.2[0]));
            list.unwrap().split_whitespace().count()
        };
        while shims() > 4 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(after.0, before.0 - 1 + shims(), "descriptors");
    };
    timeout(LIMIT, run).await.expect("ten thousand children");
}
