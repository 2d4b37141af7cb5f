//! What the orchestrator and the shim say to each other: the shim's arguments, orders of one byte each
//! to the shim, and reports of one JSON line each from it.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::spec::{Grace, Stop};

/// The shim's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The inherited end of the control socket.
    pub(crate) control: RawFd,
    /// An inherited file to keep open until the tree is gone.
    pub(crate) guard: Option<RawFd>,
    /// An inherited ruleset to confine the leader with.
    pub(crate) sandbox: Option<RawFd>,
    pub(crate) grace: Grace,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

/// Stands for "no guard" and "no sandbox".
const NONE: &str = "-";
/// Ends the shim's own arguments.
const END: &str = "--";

impl Job {
    pub(crate) fn into_args(self) -> Vec<OsString> {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX).to_string();
        let maybe = |fd: Option<RawFd>| fd.map_or_else(|| NONE.to_owned(), |fd| fd.to_string());
        let own = [
            self.control.to_string(),
            maybe(self.guard),
            maybe(self.sandbox),
            millis(self.grace.interrupt),
            millis(self.grace.terminate),
            millis(self.grace.leftovers),
            END.to_owned(),
        ];
        own.into_iter().map(OsString::from).chain([self.program]).chain(self.args).collect()
    }

    pub(crate) fn from_args(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let mut word = || args.next()?.into_string().ok();
        let control = word()?.parse().ok()?;
        let mut maybe = || match word()? {
            none if none == NONE => Some(None),
            fd => Some(Some(fd.parse().ok()?)),
        };
        let (guard, sandbox) = (maybe()?, maybe()?);
        let mut millis = || Some(Duration::from_millis(word()?.parse().ok()?));
        let grace = Grace { interrupt: millis()?, terminate: millis()?, leftovers: millis()? };
        if word()? != END {
            return None;
        }
        Some(Self { control, guard, sandbox, grace, program: args.next()?, args: args.collect() })
    }
}

impl Stop {
    /// The order that asks the shim for it.
    pub(crate) fn order(self) -> u8 {
        match self {
            Self::Gracefully => b'I',
            Self::Terminate => b'T',
            Self::Kill => b'K',
        }
    }

    pub(crate) fn from_order(order: u8) -> Option<Self> {
        [Self::Gracefully, Self::Terminate, Self::Kill].into_iter().find(|s| s.order() == order)
    }
}

/// How the leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Exited(i32),
    Signaled { signal: i32, core: bool },
}

/// What the shim reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The leader runs.
    Started { pid: i32 },
    /// The leader could not be started; nothing else follows.
    SpawnFailed { errno: i32 },
    /// The shim itself cannot work here; nothing else follows.
    Broken { reason: String },
    /// The leader ended. `stopped`: the orchestrator had asked for it; `killed`: the shim had sent
    /// SIGKILL.
    LeaderEnded { status: Status, stopped: bool, killed: bool },
    /// No descendant is left, but those in `survived`, which SIGKILL did not end.
    Gone { left_behind: Vec<String>, survived: Vec<String> },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(guard: Option<RawFd>, sandbox: Option<RawFd>) -> Job {
        let grace = Grace {
            interrupt: Duration::from_millis(1),
            terminate: Duration::ZERO,
            leftovers: Duration::from_secs(3),
        };
        let args = vec!["--".into(), "-".into(), "".into(), "a b".into()];
        Job { control: 17, guard, sandbox, grace, program: "/bin/true".into(), args }
    }

    #[test]
    fn a_job_survives_its_way_through_the_arguments() {
        for (guard, sandbox) in [(None, None), (Some(18), None), (None, Some(19))] {
            let job = job(guard, sandbox);
            assert_eq!(Job::from_args(job.clone().into_args()), Some(job));
        }
    }

    #[test]
    fn arguments_that_are_no_job_are_refused() {
        let whole = job(None, None).into_args();
        for cut in 0..8 {
            assert_eq!(Job::from_args(whole[..cut].to_vec()), None, "{cut} arguments");
        }
        for at in 0..7 {
            let mut bad = whole.clone();
            bad[at] = "x".into();
            assert_eq!(Job::from_args(bad), None, "argument {at}");
        }
    }

    #[test]
    fn every_stop_has_an_order_of_its_own() {
        for stop in [Stop::Gracefully, Stop::Terminate, Stop::Kill] {
            assert_eq!(Stop::from_order(stop.order()), Some(stop));
        }
        assert_eq!(Stop::from_order(0), None);
    }
}
