//! How a process tree ended.

use std::fmt;

use crate::survivor::Survivor;

/// How the leader of a process tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited by itself, with this code.
    Exited(i32),
    /// A signal ended it.
    Signaled {
        /// The signal's number.
        signal: i32,
        /// Whether the kernel wrote a core file.
        core: bool,
    },
    /// Nobody knows: its shim was killed, or SIGKILL did not end it.
    Lost,
}

impl Ending {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    /// The exit code, if it exited.
    #[must_use]
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Exited(code) => Some(code),
            Self::Signaled { .. } | Self::Lost => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "exit {code}"),
            Self::Signaled { signal, core } => {
                write!(f, "signal {signal}")?;
                if let Some(name) = signal_name(signal) {
                    write!(f, " ({name})")?;
                }
                if core { f.write_str(", core dumped") } else { Ok(()) }
            }
            Self::Lost => f.write_str("lost (the process that supervised it was killed)"),
        }
    }
}

/// How a process tree ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// How its leader ended.
    pub ending: Ending,
    /// Names of processes that were still there when the leader had ended, and were ended. After a
    /// stop, only of those that had to be killed, since a stop ends all of the tree at once.
    pub left_behind: Vec<String>,
    /// Processes that even SIGKILL did not end, as those of another user.
    pub survived: Vec<Survivor>,
    /// Whether somebody outside the tree still held its stdout or stderr open when it was gone.
    pub leaked: bool,
    /// Whether the leader ended after [`Process::stop`](crate::Process::stop).
    pub stopped: bool,
    /// Whether SIGKILL was sent to the leader, since it had not ended before.
    pub killed: bool,
}

impl Exit {
    /// What may explain the ending, for people.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self.ending {
            Ending::Signaled { signal: libc::SIGKILL, .. } if !self.killed => Some(
                "ralph-orchestrator did not send it: perhaps the kernel ran out of memory (look for `oom-kill` in the kernel's log)",
            ),
            _ => None,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ending)?;
        match self.hint() {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGIO => "SIGIO",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(ending: Ending, killed: bool) -> Exit {
        Exit {
            ending,
            left_behind: Vec::new(),
            survived: Vec::new(),
            leaked: false,
            stopped: killed,
            killed,
        }
    }

    #[test]
    fn endings_are_named() {
        assert_eq!(Ending::Exited(1).to_string(), "exit 1");
        let signal = |signal, core| Ending::Signaled { signal, core }.to_string();
        assert_eq!(signal(9, false), "signal 9 (SIGKILL)");
        assert_eq!(signal(6, true), "signal 6 (SIGABRT), core dumped");
        assert_eq!(signal(40, false), "signal 40");
    }

    #[test]
    fn only_a_kill_that_nobody_asked_for_points_to_the_memory() {
        let killed = Ending::Signaled { signal: 9, core: false };
        assert!(exit(killed, false).to_string().contains("out of memory"));
        assert_eq!(exit(killed, true).to_string(), "signal 9 (SIGKILL)");
        assert_eq!(exit(Ending::Exited(137), false).hint(), None);
    }
}
