//! How far a collector has taken the trace of a run, beside the journal of that run.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::read_if_exists;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// Its name, in the folder of a run.
const NAME: &str = "trace.jsonl";
/// The largest file that is read, in bytes.
const LARGEST: usize = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Line {
    /// The collector.
    to: String,
    /// It has what ended by this record.
    through: u64,
}

/// What one collector has of one run.
#[derive(Debug)]
pub(super) struct Sent {
    path: PathBuf,
    url: String,
    through: Option<u64>,
}

impl Sent {
    /// Reads the record in the folder of a run. A line that is none, as a crash may leave it, is not read: what it would
    /// have said is sent again.
    pub(super) fn read(folder: &Path, url: &str) -> Self {
        let path = folder.join(NAME);
        let bytes = read_if_exists(&path, LARGEST).ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let through = lines.filter(|line| line.to == url).map(|line| line.through).max();
        Self { path, url: url.to_owned(), through }
    }

    /// Returns the last record by which it has everything; `None` if nothing was to be sent so far.
    pub(super) const fn through(&self) -> Option<u64> {
        self.through
    }

    /// Records that the collector has what ended by this record.
    pub(super) fn confirm(&mut self, through: u64) -> io::Result<()> {
        // Even if that cannot be recorded, it is not sent again by this process.
        self.through = Some(through);
        let line = serde_json::to_string(&Line { to: self.url.clone(), through })?;
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file: File = rustix::fs::open(&self.path, flags, Mode::RUSR | Mode::WUSR)?.into();
        // Begins with an end of line, so that it is a line of its own after one that a crash cut.
        file.write_all(format!("\n{line}").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_collector_has_its_own_place_and_a_torn_line_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut one = Sent::read(folder.path(), "http://one");
        assert_eq!(one.through(), None);
        one.confirm(0).unwrap();
        one.confirm(7).unwrap();
        Sent::read(folder.path(), "http://other").confirm(3).unwrap();
        let path = folder.path().join(NAME);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("\n{\"to\":\"http://one\",\"through\":9");
        std::fs::write(&path, text).unwrap();
        let mut again = Sent::read(folder.path(), "http://one");
        assert_eq!(again.through(), Some(7));
        again.confirm(8).unwrap();
        let through = ["http://one", "http://other", "http://none"]
            .map(|url| Sent::read(folder.path(), url).through());
        assert_eq!(through, [Some(8), Some(3), None]);
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("elsewhere");
        std::os::unix::fs::symlink(&target, folder.path().join(NAME)).unwrap();
        assert!(Sent::read(folder.path(), "http://one").confirm(0).is_err());
        assert!(!target.exists());
    }
}
