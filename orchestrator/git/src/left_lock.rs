//! Locks of the orchestrator's own refs that a killed git has left in the user's repository.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
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
        let path = self.common_dir.join(format!("{reference}.lock"));
        let identify = || fs::symlink_metadata(&path).ok().map(|file| (file.dev(), file.ino()));
        let Some(found) = identify() else { return Ok(()) };
        let begun = Instant::now();
        while identify() == Some(found) {
            if begun.elapsed() >= IS_LEFT {
                return remove_if_there(&path);
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}
