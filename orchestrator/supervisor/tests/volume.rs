//! How much memory much output takes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod alone;

use std::fs;

use alone::{LIMIT, SHIM, spec, supervisor};
use ralph_orchestrator_supervisor::lines::LineSplitter;
use ralph_orchestrator_supervisor::{Capture, CaptureLimit, Ending};
use tokio::time::timeout;

/// The most memory that this process ever had, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_line_of_a_hundred_megabytes_takes_little_memory() {
    const BYTES: u64 = 100_000_000;
    const MAX_LINE: usize = 1024 * 1024;
    let before = peak();
    let run = async {
        let spec = spec("/usr/bin/head", &["-c", &BYTES.to_string(), "/dev/zero"]);
        let mut process = supervisor(SHIM).spawn(spec).await.unwrap();
        let mut capture = Capture::new(CaptureLimit::default());
        let mut splitter = LineSplitter::new(MAX_LINE);
        while let Some(chunk) = process.next().await {
            assert!(chunk.bytes.len() <= 64 * 1024);
            capture.push(&chunk.bytes);
            splitter.push(&chunk.bytes, |line| panic!("{} bytes", line.text.len()));
        }
        let mut lines = 0;
        splitter.finish(|line| {
            assert_eq!(line.text.len(), MAX_LINE);
            assert_eq!(line.dropped, BYTES - u64::try_from(MAX_LINE).unwrap());
            lines += 1;
        });
        assert_eq!(lines, 1);
        let captured = capture.finish();
        assert_eq!(captured.cut, BYTES - 320 * 1024);
        assert_eq!(process.wait().await.ending, Ending::Exited(0));
    };
    timeout(LIMIT, run).await.expect("a hundred megabytes");
    let grown = peak() - before;
    assert!(grown < 16 * 1024, "{grown} KiB more memory");
}
