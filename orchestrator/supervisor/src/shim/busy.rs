//! Programs that are open for writing.

use std::io;
use std::time::Duration;

/// Retries of a program that is open for writing.
const BUSY_TRIES: u32 = 10;

const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Tries again when the program is busy: a file that was just installed may still be open for writing, in the
/// installer or a process that it forked.
pub(super) fn retry_busy<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut tries = 1;
    loop {
        match start() {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            result => return result,
        }
    }
}
