//! What is left of processes when their work is over.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process that could not be ended. The pid alone may belong to another process by now; with the time
/// of the start it names one process for good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Survivor {
    /// The kernel's name for it.
    pub name: String,
    /// Its process id.
    pub pid: i32,
    /// When it started, in clock ticks since the machine was booted: field 22 of `/proc/PID/stat`.
    pub started: u64,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
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

/// What was left of a process tree when its leader had ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Names of processes that were still there, and were ended.
    pub left_behind: Vec<String>,
    /// Processes that could not be ended.
    pub survived: Vec<Survivor>,
}

impl Leftovers {
    /// Takes the processes that survived by name, pid and start, so that whoever supervises processes
    /// need not know these types.
    pub fn new(
        left_behind: Vec<String>,
        survived: impl IntoIterator<Item = impl Into<(String, i32, u64)>>,
    ) -> Self {
        let survived = survived.into_iter().map(|one| Survivor::from(one.into())).collect();
        Self { left_behind, survived }
    }

    /// Adds those of another tree.
    pub fn add(&mut self, other: Self) {
        self.left_behind.extend(other.left_behind);
        self.survived.extend(other.survived);
    }

    /// Returns the sentence that names the processes that live on, if there are any.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        survivors_complaint(&self.survived)
    }
}

/// Returns the sentence that names the processes that could not be ended, if there are any.
#[must_use]
pub fn survivors_complaint(survivors: &[Survivor]) -> Option<String> {
    let names: Vec<String> = survivors.iter().map(Survivor::to_string).collect();
    (!names.is_empty()).then(|| format!("these processes could not be ended: {}", names.join(", ")))
}
