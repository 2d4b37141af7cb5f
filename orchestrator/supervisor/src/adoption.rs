//! Processes whose shim and fork server were killed: the kernel makes them children of this process.

use std::io;

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

use crate::keepers::Keepers;
use crate::procfs::{self, Stat};
use crate::shim::SHIM_NAME;

/// Makes this process the one that adopts. Without it nothing may be started here: what a tree leaves could not be told.
pub(crate) fn adopt() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // Shims of a killed fork server, which nobody else waits for. This process's other children are its own business.
    for process in procfs::children(getpid().as_raw_pid()) {
        if process.zombie && process.name == SHIM_NAME {
            reap(&process);
        }
    }
    Ok(())
}

/// What tells the processes that a tree has left from all others: their parent, their session and their time.
///
/// A process leaves its session only for a new one, and each leader has a session of its own. What this process starts
/// itself, the fork server and shims included, is in its own session.
#[derive(Clone, Debug)]
pub(crate) struct Adoption {
    /// This process first. Those that are about to die still have the children that this process will have.
    parents: Vec<i32>,
    sessions: Vec<i32>,
    /// In clock ticks since boot.
    since: u64,
}

impl Adoption {
    /// Of a tree with these keepers that was not started before `since`.
    pub(crate) fn new(keepers: Option<&Keepers>, since: u64) -> Self {
        let own = getpid().as_raw_pid();
        // 0 where the session's leader is outside of this pid namespace, which `getsid` of rustix takes for impossible.
        let own_session = procfs::stat(own).map_or(0, |process| process.session);
        let mut parents = vec![own];
        parents.extend(keepers.into_iter().flat_map(Keepers::pids));
        let sessions = keepers.map(Keepers::session).into_iter().chain([own_session]).collect();
        Self { parents, sessions, since }
    }

    /// Returns those that live, without their descendants, and whether these are all: one that has ended may have left
    /// children since they were looked for. Those that have ended are waited for, if they are this process's.
    pub(crate) fn orphans(&self) -> (Vec<Stat>, bool) {
        let mut found = children_of(&self.parents);
        found.retain(|one| one.started >= self.since && !self.sessions.contains(&one.session));
        for ended in found.iter().filter(|one| one.zombie && one.parent == getpid().as_raw_pid()) {
            reap(ended);
        }
        let complete = !found.iter().any(|one| one.zombie);
        found.retain(|one| !one.zombie);
        (found, complete)
    }
}

fn children_of(parents: &[i32]) -> Vec<Stat> {
    let mut all = procfs::all();
    all.retain(|one| parents.contains(&one.parent));
    all
}

/// Waits for a child that has ended, which takes no time.
fn reap(child: &Stat) {
    if let Some(pid) = Pid::from_raw(child.pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
