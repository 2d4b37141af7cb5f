//! What to start, and how to end it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A process to start.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// The program, resolved (see [`find_program`](crate::find_program)). A relative path is taken
    /// from `cwd`; `PATH` is never searched.
    pub program: PathBuf,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Where it works.
    pub cwd: PathBuf,
    /// Its complete environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// What it reads: written while its output is read, then closed. A process that does not read it
    /// is no error. When empty, it reads `/dev/null`.
    pub stdin: Vec<u8>,
    /// How long it may take to end.
    pub grace: Grace,
}

/// How long each step of ending a process tree waits for the tree before the next one. A zero goes on
/// to the next step at once. Counted in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// From SIGINT to SIGTERM; 5 s by default.
    pub interrupt: Duration,
    /// From SIGTERM to SIGKILL; 5 s by default.
    pub terminate: Duration,
    /// From SIGTERM to SIGKILL for what a leader leaves behind when it ends; 1 s by default.
    pub leftovers: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self {
            interrupt: Duration::from_secs(5),
            terminate: Duration::from_secs(5),
            leftovers: Duration::from_secs(1),
        }
    }
}

/// How to end a process tree; a later one is stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// SIGINT to the leader's group, as Ctrl-C does; then, after [`Grace::interrupt`], as `Terminate`.
    Gracefully,
    /// SIGTERM to the whole tree; then, after [`Grace::terminate`], as `Kill`.
    Terminate,
    /// SIGKILL to the whole tree.
    Kill,
}
