//! Processes that could not be ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::procfs::Stat;

/// A process that even SIGKILL did not end, as one of another user. The pid alone may belong to another
/// process by now; with the time of the start it names one process for good.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Survivor {
    /// The kernel's name for it.
    pub name: String,
    /// Its process id.
    pub pid: i32,
    /// When it started, in clock ticks since the machine was booted.
    pub started: u64,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

impl From<Stat> for Survivor {
    fn from(stat: Stat) -> Self {
        Self { name: stat.name, pid: stat.pid, started: stat.started }
    }
}

impl From<(String, i32, u64)> for Survivor {
    fn from((name, pid, started): (String, i32, u64)) -> Self {
        Self { name, pid, started }
    }
}

impl From<Survivor> for (String, i32, u64) {
    fn from(survivor: Survivor) -> Self {
        (survivor.name, survivor.pid, survivor.started)
    }
}
