//! Waits that end on request: for a lock on a file that trials and jobs share, and for a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use ralph_orchestrator_bench::trial::{Cause, Fault};
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};

use super::faults::fault;

/// How long somebody waits before trying again.
const LOCK_POLL: Duration = Duration::from_millis(100);

/// Waits until no other trial or job holds this lock. It is held as long as the file is open.
///
/// # Errors
/// The file cannot be made, or the wait was ended on request.
pub(super) async fn take_lock(path: &Path, switch: &KillSwitch) -> Result<File, Fault> {
    let failed = |error: std::io::Error| {
        fault(Cause::Infrastructure, "EnvironmentError", format!("{}: {error}", path.display()))
    };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(failed)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if switch.is_pulled() => {
                let message = "the wait for the setup of the task was ended on request";
                return Err(fault(Cause::Cancelled, "CancelledError", message.to_owned()));
            }
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL).await,
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// Waits for a time.
///
/// # Errors
/// Everything that runs was killed meanwhile.
pub(super) async fn sleep_unless_killed(
    pause: Duration,
    supervisor: &Supervisor,
) -> Result<(), Fault> {
    let end = Instant::now() + pause;
    loop {
        if supervisor.is_killed() {
            let message = "the wait was ended on request".to_owned();
            return Err(fault(Cause::Cancelled, "CancelledError", message));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        tokio::time::sleep(left.min(LOCK_POLL)).await;
    }
}
