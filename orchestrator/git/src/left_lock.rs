//! Locks of the orchestrator's own refs that a killed git has left in the user's repository.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::private::remove_if_there;
use crate::repository::Repository;

/// A lock that is there for so long belongs to nobody any more: git itself waits for a tenth of this.
const IS_LEFT: Duration = Duration::from_secs(1);
/// How often it is looked for meanwhile.
const POLL: Duration = Duration::from_millis(20);

impl Repository {
    /// Removes the lock of a ref of a run, if a killed git has left one: git would refuse to write the ref for ever. One
    /// that works holds it for some milliseconds.
    pub(crate) fn remove_left_lock(&self, reference: &str) -> Result<()> {
        remove_left(&self.common_dir.join(format!("{reference}.lock")), || false)
    }

    /// The same for the lock of all packed refs, without which no branch can be deleted. Whoever holds it for longer writes
    /// the new ones beside it meanwhile.
    pub(crate) fn remove_left_lock_of_packed_refs(&self) -> Result<()> {
        let new = self.common_dir.join("packed-refs.new");
        let is_written = || fs::symlink_metadata(&new).is_ok();
        remove_left(&self.common_dir.join("packed-refs.lock"), is_written)
    }
}

/// Removes a lock that stays the same for longer than anybody holds one, unless it is in use.
fn remove_left(path: &Path, is_used: impl Fn() -> bool) -> Result<()> {
    let identify = || fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let Some(found) = identify() else { return Ok(()) };
    let begun = Instant::now();
    while identify() == Some(found) && !is_used() {
        if begun.elapsed() >= IS_LEFT {
            return remove_if_there(path);
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
