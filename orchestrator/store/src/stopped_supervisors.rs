//! Processes that watch over the agents of a killed orchestrator and were stopped, as by SIGSTOP: they would hold its
//! locks for ever.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a lock that agents hold is waited for at a time.
const AGENTS_POLL: Duration = Duration::from_millis(20);
/// Their first argument.
const SUPERVISE: &[u8] = b"__supervise";
/// After so many waits for a lock, it is looked for them again: a second.
const WAITS: u32 = 50;

/// Waits for a lock a little while, the `nth` time. The first time, and each second after that, it is seen to it that
/// none of those who hold it is stopped.
pub(super) fn wait(nth: u32) {
    match nth {
        0 => signal_stopped(Signal::CONT),
        // Somebody stops them again and again. Their fork servers, or the next start, end what they leave.
        nth if nth % WAITS == 0 => signal_stopped(Signal::KILL),
        _ => {}
    }
    std::thread::sleep(AGENTS_POLL);
}

/// Processes of other users cannot be signalled.
fn signal_stopped(signal: Signal) {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids.filter_map(Pid::from_raw) {
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if is_stopped_supervisor(pid) {
            // It may end at any time.
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

fn is_stopped_supervisor(pid: Pid) -> bool {
    let read = |name| fs::read(format!("/proc/{}/{name}", pid.as_raw_pid())).unwrap_or_default();
    let stat = read("stat");
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
    state == Some(&b'T') && read("cmdline").split(|byte| *byte == 0).nth(1) == Some(SUPERVISE)
}
