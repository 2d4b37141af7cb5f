//! Signals that ask the run to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use orchestrator::engine::StopRequests;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::error::exit;
use crate::output;

const TERMINATED: u8 = 143;
/// At the third request there is nothing more to wait for.
const LEAVE_AT_ONCE: u32 = 3;

/// Listens for SIGINT, SIGTERM and SIGHUP. The second value is the exit status of the first of them.
pub(crate) fn listen() -> std::io::Result<(StopRequests, Arc<AtomicU8>)> {
    let (tell, told) = watch::channel(0_u32);
    let status = Arc::new(AtomicU8::new(exit::INTERRUPTED));
    let first = Arc::clone(&status);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            let status = tokio::select! {
                _ = interrupt.recv() => exit::INTERRUPTED,
                _ = terminate.recv() => TERMINATED,
                _ = hangup.recv() => TERMINATED,
            };
            let count = tell.borrow().saturating_add(1);
            match count {
                1 => {
                    first.store(status, Ordering::Relaxed);
                    output::say("stopping: the agent is asked to end (again to end it at once)");
                }
                LEAVE_AT_ONCE.. => std::process::exit(i32::from(status)),
                _ => output::say("ending the agent at once"),
            }
            tell.send_replace(count);
        }
    });
    Ok((told, status))
}
