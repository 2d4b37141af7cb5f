//! Watches the prompt file for changes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_safe_fs::FileFingerprint;
use rustix::fd::OwnedFd;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// How often the file is looked at where the system does not tell of changes.
const POLL: Duration = Duration::from_millis(100);
/// How often it is looked at nevertheless where the system tells: it does not tell of changes made on
/// another machine, nor of a folder further up having been exchanged.
const RECHECK: Duration = Duration::from_secs(1);
/// How many batches of events are taken in at once.
const BATCHES: usize = 16;
/// The most links from the path to the file.
const MAX_LINKS: usize = 8;

/// Watches one file, through the folder it lies in, so that a file that is renamed over, deleted or
/// created is noticed as well as one that is written. If the path is a link, the link and what it
/// leads to are both watched.
///
/// Where the system's notification (inotify) is not to be had, and once the folder itself was moved
/// or deleted, the file's metadata are compared every 100 ms instead.
#[derive(Debug)]
pub struct PromptWatch {
    path: PathBuf,
    /// What is watched: each name on the way to the file, and the folder it is in.
    route: Vec<PathStep>,
    source: Source,
    last: Option<FileFingerprint>,
    /// When to compare the metadata next, whatever the system tells. Kept here, since a future that
    /// is dropped again and again would never get to the end of a wait of its own.
    next_check: Option<Instant>,
}

#[derive(Debug)]
enum Source {
    /// Set up outside of the runtime; not yet part of it.
    Fresh(OwnedFd, Vec<Name>),
    Events(AsyncFd<OwnedFd>, Vec<Name>),
    Polling,
}

/// A path on the way to the file, and which folder its parent is.
type PathStep = (PathBuf, Option<(u64, u64)>);

/// A name in a watched folder.
#[derive(Debug)]
struct Name {
    watch: i32,
    name: OsString,
}

/// What a batch of events means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEvent {
    /// Nothing about this file.
    None,
    /// Something happened to it.
    Touched,
    /// A watched folder is not what it was.
    FolderGone,
}

impl PromptWatch {
    /// Watches from now on. Never fails: if the folder is not there, the file is looked for every
    /// 100 ms.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let route = route(path);
        let source =
            inotify::watch(path).map_or(Source::Polling, |(fd, names)| Source::Fresh(fd, names));
        let last = FileFingerprint::from_path(path).ok();
        Self { path: path.to_owned(), route, source, last, next_check: None }
    }

    /// Watches from now on, as a new one would, but with the same means if they still serve: to give
    /// them back to the system takes it longer than to start some agents.
    pub fn restart(&mut self) {
        let drained = match &self.source {
            Source::Fresh(fd, names) => drain_all(fd, names),
            Source::Events(fd, names) => drain_all(fd.get_ref(), names),
            Source::Polling => false,
        };
        if !drained || self.route != route(&self.path) {
            *self = Self::new(&self.path);
            return;
        }
        self.last = FileFingerprint::from_path(&self.path).ok();
        self.next_check = None;
    }

    /// Resolves after something happened to the file since `new`, or since this resolved last.
    /// Several events may be told as one, and events that changed nothing are told too. Nothing is
    /// lost if the future is dropped before it resolves.
    ///
    /// Needs a tokio runtime with I/O and time enabled.
    pub async fn changed(&mut self) {
        self.join_runtime();
        loop {
            let every = if matches!(self.source, Source::Polling) { POLL } else { RECHECK };
            let next_check = *self.next_check.get_or_insert_with(|| Instant::now() + every);
            let event_kind = match &self.source {
                Source::Events(fd, names) => {
                    match tokio::time::timeout_at(next_check, fd.readable()).await {
                        Ok(Ok(mut ready)) => {
                            let (event_kind, all) = inotify::drain(fd.get_ref(), names);
                            if all {
                                ready.clear_ready();
                            } else if event_kind == WatchEvent::None {
                                // Whoever floods the folder with events does not keep the rest of the loop waiting.
                                drop(ready);
                                tokio::task::yield_now().await;
                            }
                            event_kind
                        }
                        Ok(Err(_)) => WatchEvent::FolderGone,
                        Err(_) => WatchEvent::None,
                    }
                }
                Source::Fresh(..) | Source::Polling => {
                    tokio::time::sleep_until(next_check).await;
                    WatchEvent::None
                }
            };
            if event_kind == WatchEvent::FolderGone {
                self.source = Source::Polling;
            }
            if event_kind == WatchEvent::None && Instant::now() < next_check {
                continue;
            }
            self.next_check = None;
            let now = FileFingerprint::from_path(&self.path).ok();
            let differs = now != self.last;
            self.last = now;
            if differs || event_kind != WatchEvent::None {
                self.follow_link();
                return;
            }
        }
    }

    /// Registers with the runtime, which `new` does not need.
    fn join_runtime(&mut self) {
        if matches!(self.source, Source::Fresh(..))
            && let Source::Fresh(fd, names) = std::mem::replace(&mut self.source, Source::Polling)
            && let Ok(fd) = join(fd)
        {
            self.source = Source::Events(fd, names);
        }
    }

    /// Watches where the path leads now, if it led over a link.
    fn follow_link(&mut self) {
        let linked = match &self.source {
            Source::Events(_, names) => names.len() > 1 || self.path.is_symlink(),
            Source::Fresh(..) | Source::Polling => false,
        };
        if linked && let Some((fd, names)) = inotify::watch(&self.path) {
            self.source = join(fd).map_or(Source::Polling, |fd| Source::Events(fd, names));
            self.route = route(&self.path);
            // What happened before the new watch began shows when the metadata are compared.
            self.next_check = Some(Instant::now());
        }
    }
}

impl Drop for PromptWatch {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.source, Source::Polling) {
            Source::Fresh(fd, _) => close_in_background(fd),
            Source::Events(fd, _) => close_in_background(fd.into_inner()),
            Source::Polling => {}
        }
    }
}

/// Closes an inotify instance on a thread of its own: the kernel lets whoever closes one wait for a grace period, 2 to 20
/// ms.
pub fn close_in_background(fd: OwnedFd) {
    // Where there is no thread for it, this closes it here.
    drop(std::thread::Builder::new().name("close".to_owned()).spawn(move || drop(fd)));
}

/// Has the runtime wait for the descriptor.
// The function is deprecated for types whose descriptor may be closed or exchanged under the runtime,
// which an `OwnedFd` rules out. Its successor is an `unsafe` function, and this crate has none.
#[allow(deprecated)]
fn join(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, tokio::io::Interest::READABLE)
}

/// Takes in what has happened so far. False if a watched folder is not what it was.
fn drain_all(fd: &OwnedFd, names: &[Name]) -> bool {
    // No more than the system keeps of them; what comes meanwhile is told later.
    for _ in 0..BATCHES {
        match inotify::drain(fd, names) {
            (WatchEvent::FolderGone, _) => return false,
            (_, true) => return true,
            (_, false) => {}
        }
    }
    true
}

/// Returns the steps to the file, each with the folder it is in.
fn route(path: &Path) -> Vec<PathStep> {
    let folder = |step: &Path| {
        let folder = step.parent().filter(|folder| !folder.as_os_str().is_empty());
        FileFingerprint::from_path(folder.unwrap_or(Path::new(".")))
            .ok()
            .map(|fingerprint| (fingerprint.dev, fingerprint.ino))
    };
    steps(path).into_iter().map(|step| (step.clone(), folder(&step))).collect()
}

/// Returns the paths from `path` to the file itself, over links.
fn steps(path: &Path) -> Vec<PathBuf> {
    let mut steps = vec![path.to_owned()];
    let mut current = path.to_owned();
    while steps.len() <= MAX_LINKS
        && let Ok(target) = std::fs::read_link(&current)
    {
        current = current.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
        steps.push(current.clone());
    }
    steps
}

#[cfg(target_os = "linux")]
mod inotify {
    use super::{Name, OwnedFd, Path, WatchEvent, steps};
    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use rustix::io::Errno;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt as _;

    /// The most events read at a time.
    const BATCH: usize = 4096;

    /// Watches the folders of all steps to the file.
    pub(super) fn watch(path: &Path) -> Option<(OwnedFd, Vec<Name>)> {
        let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let flags = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let mut names = Vec::new();
        for step in steps(path) {
            let folder = match step.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let name = step.file_name()?.to_owned();
            names.push(Name { watch: add_watch(&fd, folder, flags).ok()?, name });
        }
        Some((fd, names))
    }

    /// Reads events, and says whether it has read all there were.
    pub(super) fn drain(fd: &OwnedFd, names: &[Name]) -> (WatchEvent, bool) {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(fd, &mut buffer);
        let mut event_kind = WatchEvent::None;
        for _ in 0..BATCH {
            match reader.next() {
                Ok(event) => {
                    let gone = ReadFlags::DELETE_SELF
                        | ReadFlags::MOVE_SELF
                        | ReadFlags::UNMOUNT
                        | ReadFlags::IGNORED;
                    if event.events().intersects(gone) {
                        return (WatchEvent::FolderGone, false);
                    }
                    let ours = event.file_name().is_some_and(|name| {
                        names.iter().any(|watched| {
                            watched.watch == event.wd()
                                && watched.name.as_bytes() == name.to_bytes()
                        })
                    });
                    if ours || event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                        event_kind = WatchEvent::Touched;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return (event_kind, true),
                Err(_) => return (WatchEvent::FolderGone, false),
            }
        }
        (event_kind, false)
    }
}

#[cfg(not(target_os = "linux"))]
mod inotify {
    use super::{Name, OwnedFd, Path, WatchEvent};

    pub(super) fn watch(_path: &Path) -> Option<(OwnedFd, Vec<Name>)> {
        None
    }

    pub(super) fn drain(_fd: &OwnedFd, _names: &[Name]) -> (WatchEvent, bool) {
        (WatchEvent::FolderGone, false)
    }
}
