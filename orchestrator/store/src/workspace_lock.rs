//! Locks a workspace for one run at a time, wherever the state directories are.
//!
//! The workspace's own folder is locked, open as it is: there is no file that could be deleted, and the
//! lock is gone with the last process that has the folder open this way. Those that watch over agents
//! have it too, so that it lasts as long as any of them.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::error::StateError;
use super::lock::{AGENTS_WAIT, UNSEEN, is_alive, open, time_to_die};
use super::stopped_supervisors;
use crate::holder::Holder;

/// Locks the folder of a workspace. Waits for the agents of a killed orchestrator, but for no
/// orchestrator. Where a folder cannot be locked, as on some network file systems, a file in `states`
/// is instead, which is named after the folder's number.
///
/// # Errors
/// [`StateError::Busy`] if another run works in it.
pub fn lock_workspace(
    disk: &Disk,
    folder: Arc<File>,
    states: &Path,
) -> Result<Arc<File>, StateError> {
    let id = folder.metadata().map_err(StateError::io("look at", states))?;
    match lock(&folder, id.ino(), AGENTS_WAIT) {
        Ok(()) => return Ok(folder),
        Err(LockFailure::Held(error)) => return Err(error),
        Err(LockFailure::Impossible) => {}
    }
    let folder = states.join("workspaces");
    disk.create_dir(&folder)?;
    let path = folder.join(format!("{}-{}.lock", id.dev(), id.ino()));
    let file = open(disk, &path)?.into_inner();
    let inode = file.metadata().map_err(StateError::io("look at", &path))?.ino();
    match lock(&file, inode, AGENTS_WAIT) {
        Ok(()) => Ok(Arc::new(file)),
        Err(LockFailure::Held(error)) => Err(error),
        Err(LockFailure::Impossible) => {
            let source = std::io::Error::other("this file system has no locks");
            Err(StateError::io("lock", &path)(source))
        }
    }
}

enum LockFailure {
    Held(StateError),
    /// Such a file cannot be locked.
    Impossible,
}

fn lock(file: &File, inode: u64, patience: Duration) -> Result<(), LockFailure> {
    let began = Instant::now();
    let deadline = began + patience;
    let mut waits = 0_u32;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(_)) => return Err(LockFailure::Impossible),
            Err(TryLockError::WouldBlock) => {}
        }
        match holder_of(inode) {
            Some(Locker::Orchestrator(pid)) if began.elapsed() < time_to_die(pid) => {
                std::thread::sleep(UNSEEN);
            }
            Some(Locker::Orchestrator(pid)) => {
                let holder = Holder { pid, ..Holder::default() };
                return Err(LockFailure::Held(StateError::Busy { holder }));
            }
            Some(Locker::Unknown) if Instant::now() < deadline => {
                stopped_supervisors::wait(waits);
                waits = waits.wrapping_add(1);
            }
            Some(Locker::Unknown) => {
                let seconds = patience.as_secs();
                return Err(LockFailure::Held(StateError::AgentsLeft { seconds }));
            }
            // The system does not tell.
            None => return Err(LockFailure::Held(StateError::Busy { holder: Holder::default() })),
        }
    }
}

/// The process that took a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locker {
    Orchestrator(u32),
    /// Whoever took it has gone: it is held for those to whom it was handed down. Or it is in another
    /// container.
    Unknown,
}

/// Returns who has locked the file with this number; `None` if the system does not tell.
fn holder_of(inode: u64) -> Option<Locker> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = lockers(&locks, inode).find(|pid| is_alive(*pid));
    Some(pid.map_or(Locker::Unknown, Locker::Orchestrator))
}

/// Returns the processes that took the locks of a file. Devices have other numbers there than elsewhere.
fn lockers(locks: &str, inode: u64) -> impl Iterator<Item = u32> {
    locks.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, place, ..] = fields.as_slice() else { return None };
        let number = place.rsplit(':').next()?.parse::<u64>().ok()?;
        if number == inode { pid.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_whichever_way_it_is_opened() {
        let temp = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let folder = || Arc::new(File::open(temp.path()).unwrap());
        let held = lock_workspace(&disk, folder(), Path::new("/nowhere")).unwrap();
        let inherited = held.try_clone().unwrap();
        let error = lock_workspace(&disk, folder(), Path::new("/nowhere")).unwrap_err();
        let StateError::Busy { holder } = error else { panic!("{error}") };
        assert_eq!(holder.pid, std::process::id());
        drop(held);
        assert!(lock_workspace(&disk, folder(), Path::new("/nowhere")).is_err());
        drop(inherited);
        lock_workspace(&disk, folder(), Path::new("/nowhere")).unwrap();
    }

    #[test]
    fn where_a_folder_cannot_be_locked_a_file_is() {
        use rustix::fs::{CWD, Mode, OFlags};
        let temp = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        // Such a descriptor takes no locks, as if the file system knew none.
        let folder = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let folder = rustix::fs::openat(CWD, temp.path(), flags, Mode::empty()).unwrap();
            Arc::new(File::from(folder))
        };
        let states = temp.path().join("states");
        let held = lock_workspace(&disk, folder(), &states).unwrap();
        assert_eq!(fs::read_dir(states.join("workspaces")).unwrap().count(), 1);
        let error = lock_workspace(&disk, folder(), &states).unwrap_err();
        assert!(matches!(error, StateError::Busy { .. }), "{error}");
        drop(held);
        lock_workspace(&disk, folder(), &states).unwrap();
    }

    #[test]
    fn the_dead_hold_nothing_by_name() {
        let locks = "1: FLOCK  ADVISORY  WRITE 71 00:2f:12 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 72 00:2f:12 0 EOF\n\
                     3: FLOCK  ADVISORY  READ  73 00:2f:12 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 74 00:2f:12 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 08:01:12 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 75 08:01:123 0 EOF\nnonsense\n";
        assert_eq!(lockers(locks, 12).collect::<Vec<_>>(), [71, 0]);
        assert!(is_alive(std::process::id()) && !is_alive(0));
    }
}
