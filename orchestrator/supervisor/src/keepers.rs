//! The shim of a process tree and the fork server above it, as those who may be stopped or hang themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getpid};
use tracing::warn;

use crate::ancestors::ProcessId;
use crate::procfs::{self, Stat};
use crate::shim::signal;

/// The two processes that end a tree. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Keepers {
    shim: ProcessId,
    /// `None` if it was gone already.
    fork_server: Option<ProcessId>,
    /// In which both are.
    session: i32,
    /// Whether each was stopped when it was last checked, in this order.
    seen: Arc<[AtomicBool; 2]>,
}

impl Keepers {
    /// Those of the tree whose shim has this pid and was there just now.
    pub(crate) fn of(shim: i32) -> Option<Self> {
        let shim = procfs::stat(shim)?;
        let own = getpid().as_raw_pid();
        // Without its fork server it is a child of this process, or of init.
        let above = procfs::stat(shim.parent).filter(|above| above.parent == own);
        let fork_server = above.as_ref().map(id);
        Some(Self { shim: id(&shim), fork_server, session: shim.session, seen: Arc::default() })
    }

    /// Whether this is the shim's pid.
    pub(crate) const fn is_shim(&self, pid: i32) -> bool {
        self.shim.pid == pid
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        self.all().map(|one| one.pid)
    }

    pub(crate) const fn session(&self) -> i32 {
        self.session
    }

    /// Continues those that were stopped, and kills those that are stopped a second time in a row.
    pub(crate) fn check(&self) {
        let all = [Some(&self.shim), self.fork_server.as_ref()];
        for (keeper, seen) in all.into_iter().zip(self.seen.iter()) {
            let stopped = keeper.and_then(stopped);
            let again = seen.swap(stopped.is_some(), Ordering::Relaxed);
            let Some(process) = stopped else { continue };
            warn!(pid = process.pid, again, "a supervising process was stopped");
            signal(&process, if again { Signal::KILL } else { Signal::CONT });
        }
    }

    /// Continues those that were stopped.
    pub(crate) fn wake(&self) {
        self.all().for_each(wake);
    }

    /// Continues those of several trees that were stopped. Most of these have the same fork server.
    pub(crate) fn wake_all<'a>(trees: impl Iterator<Item = &'a Self>) {
        let mut done = Vec::new();
        for keeper in trees.flat_map(Self::all) {
            if !done.contains(&keeper) {
                wake(keeper);
                done.push(keeper);
            }
        }
    }

    /// Kills the shim if it is stopped, and continues the fork server, which ends what is left.
    pub(crate) fn end_stopped(&self) {
        if let Some(shim) = stopped(&self.shim) {
            signal(&shim, Signal::KILL);
        }
        self.wake();
    }

    /// Kills the shim; if it is gone already, the fork server, which has not ended what it has left.
    pub(crate) fn kill(&self) {
        if let Some(process) = self.all().find_map(living) {
            warn!(pid = process.pid, "a supervising process did not answer in time");
            signal(&process, Signal::KILL);
        }
    }

    fn all(&self) -> impl Iterator<Item = &ProcessId> {
        std::iter::once(&self.shim).chain(&self.fork_server)
    }
}

fn id(stat: &Stat) -> ProcessId {
    ProcessId { pid: stat.pid, started: stat.started }
}

fn wake(keeper: &ProcessId) {
    if let Some(process) = stopped(keeper) {
        signal(&process, Signal::CONT);
    }
}

fn living(id: &ProcessId) -> Option<Stat> {
    procfs::stat(id.pid).filter(|now| now.started == id.started && !now.zombie)
}

fn stopped(id: &ProcessId) -> Option<Stat> {
    living(id).filter(|now| now.stopped)
}
