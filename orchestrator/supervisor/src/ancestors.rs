//! The processes above this one.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::procfs::{self, Stat};

/// More than any chain of processes is long.
const DEEPEST: usize = 128;

/// A process, whatever becomes of its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its process id.
    pub pid: i32,
    /// When it started, in clock ticks since the machine was booted.
    pub started: u64,
}

impl ProcessId {
    /// Returns the process that has this number now.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        procfs::stat(pid).map(|stat| Self { pid, started: stat.started })
    }

    /// Returns whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        procfs::stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.zombie)
    }
}

/// A process above this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Which process it is.
    pub id: ProcessId,
    /// The kernel's name for it, at most 15 bytes.
    pub name: String,
    /// The file that it runs, if the system tells.
    pub program: Option<PathBuf>,
}

/// Returns the processes above this one, the nearest first.
#[must_use]
pub fn ancestors() -> Vec<Ancestor> {
    let parent_of = |pid: i32| procfs::stat(pid).map(|stat| stat.parent);
    let mut next = i32::try_from(std::process::id()).ok().and_then(parent_of);
    let mut found = Vec::new();
    while let Some(pid) = next.filter(|pid| *pid > 0 && found.len() < DEEPEST) {
        let Some(Stat { name, started, parent, .. }) = procfs::stat(pid) else { break };
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        found.push(Ancestor { id: ProcessId { pid, started }, name, program });
        next = Some(parent);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_as_well() {
        let above = ancestors();
        let parent = &above.first().unwrap().id;
        assert!(parent.is_alive());
        assert!(!ProcessId { started: parent.started + 1, ..parent.clone() }.is_alive());
    }
}
