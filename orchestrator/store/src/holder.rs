//! Who holds the lock of a state directory.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// What a process holds a state directory for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// To work on its run.
    #[default]
    Run,
    /// To record a control.
    Control,
    /// To delete its runs.
    Reset,
    /// To delete runs that have ended.
    Prune,
    /// To restore the files of the workspace.
    Rollback,
}

impl Work {
    /// Returns whether it is that on a run, which `stop` ends.
    #[must_use]
    pub const fn is_run(&self) -> bool {
        matches!(self, Self::Run)
    }

    /// Returns what is held for anything but a run, for messages.
    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Run => None,
            Self::Control => Some("a control"),
            Self::Reset => Some("`reset`"),
            Self::Prune => Some("`runs prune`"),
            Self::Rollback => Some("`rollback`"),
        }
    }
}

/// Who holds the lock, as it wrote itself into the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// When it took the lock.
    pub started: Option<Timestamp>,
    /// What for.
    #[serde(default, skip_serializing_if = "Work::is_run")]
    pub work: Work,
}

impl Holder {
    /// Returns this process, which takes the lock now.
    pub(crate) fn this_process(work: Work) -> Self {
        Self { pid: std::process::id(), started: Some(Timestamp::now()), work }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(work) = self.work.name() {
            write!(f, "{work}, ")?;
        }
        match (self.pid, self.started) {
            (0, _) => f.write_str("it has just started"),
            (pid, None) => write!(f, "pid {pid}"),
            (pid, Some(started)) => {
                let started = started.to_zoned(TimeZone::system());
                write!(f, "pid {pid}, started {}", started.strftime("%Y-%m-%d %H:%M:%S %Z"))
            }
        }
    }
}
