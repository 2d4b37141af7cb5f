//! One orchestrator at a time.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::deletion::{Deletion, finish_deletion};
use super::disk::{Disk, File, private_open_flags};
use super::error::StateError;
use super::layout::Layout;
use super::stopped_supervisors;
use crate::holder::{Holder, Work};

/// How long the agents of a killed orchestrator are waited for.
pub(super) const AGENTS_WAIT: Duration = Duration::from_secs(60);
/// How long a killed holder may take until that is seen, and how long one that is seen may keep its files open.
pub(super) const UNSEEN: Duration = Duration::from_millis(2);
const DYING: Duration = Duration::from_secs(5);
/// How long a holder may take that has not written itself into the file yet, or has emptied it and is about to close it.
const UNNAMED: Duration = Duration::from_secs(1);
/// The kernel's flag of a process that is exiting, and the bit of SIGKILL in a mask of signals.
const EXITING: u64 = 4;
const KILL: u64 = 1 << 8;

/// The lock of a state directory; released when dropped, or by the system when the process dies.
#[derive(Debug)]
pub struct Lock {
    disk: Disk,
    path: PathBuf,
    file: File,
    /// Device and inode of the file.
    id: Option<(u64, u64)>,
    holder: Holder,
    agents: Arc<fs::File>,
    /// The previous holder did not release it.
    was_killed: bool,
    /// No process of the previous holder is left.
    is_clean: bool,
}

impl Drop for Lock {
    /// An empty file says that whoever had it left in good order. That it cannot be emptied costs the
    /// next one a look at all processes. It is the sign of a killed start, which goes only when nothing
    /// is left of that.
    fn drop(&mut self) {
        if self.is_clean {
            drop(self.file.set_len(0));
        }
    }
}

impl Lock {
    /// Takes the lock at once, then waits until no agent of an earlier, killed orchestrator is left, and finishes
    /// the deletion that a killed process has left.
    ///
    /// # Errors
    /// [`StateError::Busy`] if another process has it.
    pub fn take(disk: &Disk, layout: &Layout, work: Work) -> Result<Self, StateError> {
        let path = layout.lock();
        let file = open(disk, &path)?;
        lock_unless_held(file.inner(), &path)?;
        let was_killed = file.inner().metadata().is_ok_and(|file| file.len() > 0);
        let holder = Holder::this_process(work);
        let agents = take_agents(disk, &layout.agents_lock())?;
        let agents = Arc::new(agents);
        let is_clean = !was_killed;
        let id = id_of(file.inner());
        let disk = disk.clone();
        let lock = Self { disk, path, file, id, holder, agents, was_killed, is_clean };
        lock.write_holder()?;
        // One that is to be deleted may be damaged in any way.
        if work != Work::Reset {
            finish_deletion(&lock.disk, layout)?;
        }
        Ok(lock)
    }

    /// Records that no process of the previous holder is left.
    pub const fn set_clean(&mut self) {
        self.is_clean = true;
    }

    /// Whether the previous holder was killed, or did not release it.
    #[must_use]
    pub const fn was_killed(&self) -> bool {
        self.was_killed
    }

    /// Who holds the lock of this state directory now, if anybody does.
    #[must_use]
    pub fn holder(layout: &Layout) -> Option<Holder> {
        holder_of(&layout.lock())
    }

    /// Returns a file that is locked as long as this process, or any process that has inherited it, lives.
    /// The supervisor hands it down, so that the end of a killed orchestrator's agents can be
    /// waited for.
    #[must_use]
    pub fn agents(&self) -> Arc<fs::File> {
        Arc::clone(&self.agents)
    }

    /// Whether the path still leads to the file that is locked; if not, takes the lock at the path
    /// as well.
    ///
    /// # Errors
    /// [`StateError::Busy`] if another process was quicker.
    pub fn verify_held(&mut self) -> Result<bool, StateError> {
        let here = fs::symlink_metadata(&self.path).ok().map(|here| (here.dev(), here.ino()));
        if here.is_some() && here == self.id {
            return Ok(true);
        }
        let file = open(&self.disk, &self.path)?;
        try_lock(file.inner(), &self.path)?;
        self.id = id_of(file.inner());
        self.file = file;
        self.write_holder()?;
        Ok(false)
    }

    fn write_holder(&self) -> Result<(), StateError> {
        write_to(&self.file, &self.holder).map_err(StateError::io("write", &self.path))
    }
}

/// Writes who holds a lock into its file.
pub(crate) fn write_to(mut file: &File, holder: &Holder) -> std::io::Result<()> {
    let text = serde_json::to_vec(holder).unwrap_or_default();
    file.set_len(0).and_then(|()| file.inner().rewind()).and_then(|()| file.write_all(&text))
}

/// Returns who holds the lock that this file is, if anybody does.
pub(super) fn holder_of(path: &Path) -> Option<Holder> {
    let file = Disk::default().open_regular(path, OpenOptions::new().read(true)).ok()?;
    let file = file.inner();
    match file.try_lock() {
        Ok(()) => None,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Some(read_holder(file)),
    }
}

/// Opens a file to be locked; what is none gives way.
pub(crate) fn open(disk: &Disk, path: &Path) -> Result<File, StateError> {
    disk.clear(path, fs::Metadata::is_file)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(private_open_flags());
    disk.open(path, &options).map_err(StateError::io("open", path))
}

/// Whether all runs of a state directory are being deleted, and so count as deleted. Finishes that, and any other
/// deletion, unless somebody holds the state, or the system refuses.
pub(super) fn is_being_deleted(layout: &Layout) -> bool {
    let disk = &Disk::default();
    let Ok(Some(deletion)) = Deletion::read(disk, layout) else { return false };
    let path = layout.lock();
    if let Ok(file) = open(disk, &path)
        && try_lock(file.inner(), &path).is_ok()
        && finish_deletion(disk, layout).is_ok()
    {
        return false;
    }
    deletion == Deletion::State
}

/// Returns what tells an open file from all others, as long as it is open.
fn id_of(file: &fs::File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|file| (file.dev(), file.ino()))
}

pub(crate) fn try_lock(file: &fs::File, path: &Path) -> Result<(), StateError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StateError::Busy { holder: read_holder(file) }),
        Err(TryLockError::Error(error)) => Err(StateError::io("lock", path)(error)),
    }
}

fn read_holder(mut file: &fs::File) -> Holder {
    let mut text = String::new();
    match file.rewind().and_then(|()| file.read_to_string(&mut text)) {
        Ok(_) => serde_json::from_str(&text).unwrap_or_default(),
        Err(_) => Holder::default(),
    }
}

/// Takes a lock that no orchestrator holds. One that was killed holds it until the kernel has ended all of its threads,
/// and one that releases it holds it for a moment after its name is gone.
fn lock_unless_held(file: &fs::File, path: &Path) -> Result<(), StateError> {
    let began = Instant::now();
    loop {
        match try_lock(file, path) {
            Err(StateError::Busy { holder }) if began.elapsed() < time_to_release(&holder) => {
                std::thread::sleep(UNSEEN);
            }
            taken => return taken,
        }
    }
}

fn time_to_release(holder: &Holder) -> Duration {
    if holder.pid == 0 { UNNAMED } else { time_to_die(holder.pid) }
}

/// How long the holder of a lock is waited for, in case it was killed just now.
pub(super) fn time_to_die(holder: u32) -> Duration {
    if is_ending(holder) == Some(true) { DYING } else { UNSEEN }
}

/// Whether a process exists and is not about to end.
pub(super) fn is_alive(pid: u32) -> bool {
    is_ending(pid) == Some(false)
}

/// Whether a process is about to end: a zombie, exiting, or killed. `None` if there is none, or it is in another container.
fn is_ending(pid: u32) -> Option<bool> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    // The ninth field of proc(5): the sixth after the state.
    let flags = fields.nth(5)?.parse::<u64>().ok()?;
    Some(is_zombie || flags & EXITING != 0 || is_killed(pid))
}

/// Whether a SIGKILL is on its way to a process.
fn is_killed(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut pending = status
        .lines()
        .filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")))
        .filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    pending.any(|mask| mask & KILL != 0)
}

/// Takes a lock as soon as it is free, at the latest after `wait`.
pub(crate) fn lock_within(wait: Duration, file: &fs::File, path: &Path) -> Result<(), StateError> {
    let deadline = Instant::now() + wait;
    let mut waits = 0_u32;
    loop {
        match try_lock(file, path) {
            Err(StateError::Busy { .. }) if Instant::now() < deadline => {
                stopped_supervisors::wait(waits);
                waits = waits.wrapping_add(1);
            }
            taken => return taken,
        }
    }
}

fn take_agents(disk: &Disk, path: &Path) -> Result<fs::File, StateError> {
    let file = open(disk, path)?.into_inner();
    match lock_within(AGENTS_WAIT, &file, path) {
        Err(StateError::Busy { .. }) => {
            Err(StateError::AgentsLeft { seconds: AGENTS_WAIT.as_secs() })
        }
        taken => taken.map(|()| file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_without_a_name_is_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("lock");
        let disk = Disk::default();
        let held = open(&disk, &path).unwrap();
        try_lock(held.inner(), &path).unwrap();
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let file = open(&disk, &path).unwrap();
                lock_unless_held(file.inner(), &path)
            });
            // Ten times as long as one with a name is waited for.
            std::thread::sleep(UNSEEN * 10);
            drop(held);
            taken.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_holder_with_a_name_is_not_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("lock");
        let disk = Disk::default();
        let held = open(&disk, &path).unwrap();
        try_lock(held.inner(), &path).unwrap();
        write_to(&held, &Holder::this_process(Work::Run)).unwrap();
        let file = open(&disk, &path).unwrap();
        let error = lock_unless_held(file.inner(), &path).unwrap_err();
        let StateError::Busy { holder } = error else { panic!("{error}") };
        assert_eq!(holder.pid, std::process::id());
        assert_eq!(time_to_release(&holder), UNSEEN);
        assert_eq!(time_to_release(&Holder::default()), UNNAMED);
    }
}
