//! What a file looked like when it was written last.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Anything else is somebody else's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    pub(super) len: u64,
    ctime: (i64, i64),
}

impl Stamp {
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            len: meta.len(),
            ctime: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether the last change came so long before this time.
    pub(super) fn is_older(&self, now: SystemTime, than: Duration) -> bool {
        let seconds = u64::try_from(self.ctime.0).ok().map(Duration::from_secs);
        let changed = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(seconds));
        // The second that was cut off.
        let margin = than.saturating_add(Duration::from_secs(1));
        changed.and_then(|at| now.duration_since(at).ok()).is_some_and(|age| age > margin)
    }
}
