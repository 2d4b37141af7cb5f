//! Starting a process when no descriptors are left.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod alone;

use std::fs::File;
use std::iter;

use alone::{LIMIT, SHIM, spec, supervisor};
use ralph_orchestrator_supervisor::SpawnError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::timeout;

#[tokio::test]
async fn without_descriptors_left_the_error_says_so() {
    let supervisor = supervisor(SHIM);
    // The first one makes the runtime open what it keeps.
    let mut first = supervisor.spawn(spec("/bin/true", &[])).await.unwrap();
    timeout(LIMIT, first.wait()).await.expect("the exit");
    drop(first);
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
    let mut taken: Vec<File> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // Each number of free descriptors fails at another step, until there are enough.
    let mut failures = 0;
    loop {
        match timeout(LIMIT, supervisor.spawn(spec("/bin/true", &[]))).await.unwrap() {
            Ok(mut process) => {
                timeout(LIMIT, process.wait()).await.expect("the exit");
                break;
            }
            Err(e) => assert!(matches!(e, SpawnError::TooManyFiles { .. }), "{failures} free: {e}"),
        }
        failures += 1;
        taken.pop().expect("it never succeeds");
    }
    assert!(failures > 4, "only {failures} failures");
}
