//! The prompt file: located once, read whole or not at all, restored if it is gone.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::file_id::FileId;
use super::open_writers::{self, OpenWriters};
use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint};

/// The largest prompt, in bytes.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// A file changed less than this ago may be in the middle of being written: it is waited for as long as
/// somebody has it open for that.
const RECENT: Duration = Duration::from_secs(1);
/// The same where nobody can say who has it open.
const QUIET: Duration = Duration::from_millis(50);
/// Between two reads that have to agree where there may be a writer whom nobody can see.
const BETWEEN: Duration = Duration::from_millis(1);
/// How often a file that will not stand still is looked at.
const ATTEMPTS: usize = 40;
/// How often a file that is not there is looked for: an editor may be replacing it.
const ABSENT_ATTEMPTS: usize = 3;

/// A prompt as it was on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What the file holds.
    pub bytes: Vec<u8>,
    /// The same as text; what is not UTF-8 is replaced by U+FFFD.
    pub text: String,
    /// BLAKE3 of the bytes, in hexadecimal.
    pub digest: String,
}

/// Why the prompt could not be read or put back.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// There is no such file.
    #[error("prompt {path}: there is no such file; write the task into it")]
    NotFound {
        /// The prompt's path.
        path: PathBuf,
    },
    /// It is something else than a file.
    #[error("prompt {path}: is no regular file")]
    NotAFile {
        /// The prompt's path.
        path: PathBuf,
    },
    /// It, or a folder on the way to it, is a link that was none when the run began, or that an agent could have made.
    #[error("prompt {path}: is a link, or lies beneath one, that an agent could have made")]
    Link {
        /// The prompt's path.
        path: PathBuf,
    },
    /// It is a hard link to some other file.
    #[error("prompt {path}: is a hard link: another file of this device has the same content")]
    HardLink {
        /// The prompt's path.
        path: PathBuf,
    },
    /// It is larger than 8 MiB.
    #[error("prompt {path}: is {bytes} bytes large; at most 8 MiB are allowed")]
    TooLarge {
        /// The prompt's path.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// It was still being written after two seconds.
    #[error("prompt {path}: somebody keeps writing it; try again when it is complete")]
    Unstable {
        /// The prompt's path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("prompt {path}: {source}")]
    Io {
        /// The prompt's path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// The place of a prompt, found once, before any agent could have put a link there.
///
/// From then on no link is followed, neither in the place of the file nor in that of a folder on the
/// way to it, and no file is taken that has a further name, unless it is the one that had it at first:
/// whoever reads and writes here may read and write more than the agent.
#[derive(Clone, Debug)]
pub struct PromptPlace {
    /// As it was configured.
    configured: PathBuf,
    /// Absolute, and without links when it was found.
    file: PathBuf,
    /// The file, if it had several names then.
    shared: Option<FileId>,
    /// Digest of the last content that was whole: the same again is whole, too, whoever has the file open by then. It
    /// needs no second search for writers, which looks at every process of the machine.
    whole: Arc<Mutex<Option<blake3::Hash>>>,
}

/// What one read of the file gave.
enum Attempt {
    Whole(Vec<u8>),
    Moving,
    Absent,
}

impl PromptPlace {
    /// Locates the file, and follows the links that are there now for the last time.
    #[must_use]
    pub fn locate(configured: &Path) -> Self {
        Self::locate_at(configured, safe_fs::real_path(configured))
    }

    /// Returns the place that a path leads to, as far as its links are followed. What is left of them never is.
    #[must_use]
    pub fn locate_at(configured: &Path, file: PathBuf) -> Self {
        let fingerprint = safe_fs::open_no_symlinks(&file, safe_fs::read_flags())
            .and_then(FileFingerprint::from_fd);
        let shared = fingerprint
            .ok()
            .filter(|fingerprint| fingerprint.is_hard_linked)
            .map(|fingerprint| FileId::from_fingerprint(&fingerprint));
        Self::recorded(configured.to_owned(), file, shared)
    }

    /// Returns a place that was located earlier.
    #[must_use]
    pub fn recorded(configured: PathBuf, file: PathBuf, shared: Option<FileId>) -> Self {
        Self { configured, file, shared, whole: Arc::default() }
    }

    /// Takes what the file holds now for whole. To be called only by who made the file, and before anybody else can have
    /// opened it to write it.
    pub fn accept_as_whole(&self) {
        if let Ok((_, Attempt::Whole(bytes))) = self.read_once() {
            *self.whole() = Some(blake3::hash(&bytes));
        }
    }

    /// Returns the path in the configuration.
    #[must_use]
    pub fn configured(&self) -> &Path {
        &self.configured
    }

    /// Returns the path of the file, without links when it was found.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the file, if it had several names when its place was found.
    #[must_use]
    pub const fn shared(&self) -> Option<FileId> {
        self.shared
    }

    /// Refuses what was put there to be followed. That there is nothing is no error.
    ///
    /// # Errors
    /// A link, or another name of some other file.
    pub fn verify(&self) -> Result<(), PromptError> {
        match self.open() {
            Ok(_) | Err(PromptError::NotFound { .. } | PromptError::NotAFile { .. }) => Ok(()),
            Err(error @ (PromptError::Link { .. } | PromptError::HardLink { .. })) => Err(error),
            // Whatever else is wrong with it is told by who needs it.
            Err(_) => Ok(()),
        }
    }

    /// Reads the prompt as it is when nobody is writing it: one that somebody has open to write it, and
    /// that changed within the last second, is waited for, and one that changes while it is read is read again,
    /// for about two seconds. Blocks for as long. Where the system does not tell who has it open, it has to
    /// stand still for 50 ms; and where processes of other users may, it is read twice.
    ///
    /// # Errors
    /// If there is no such file, it is no regular file, a link, larger than 8 MiB, cannot be read, or
    /// does not stand still.
    pub fn read(&self) -> Result<Prompt, PromptError> {
        let mut absent = 0;
        for _ in 0..ATTEMPTS {
            match self.attempt()? {
                Attempt::Whole(bytes) => return Ok(Prompt::new(bytes)),
                Attempt::Moving => std::thread::sleep(QUIET),
                Attempt::Absent => {
                    absent += 1;
                    if absent >= ABSENT_ATTEMPTS {
                        return Err(PromptError::NotFound { path: self.configured.clone() });
                    }
                    std::thread::sleep(QUIET);
                }
            }
        }
        Err(PromptError::Unstable { path: self.configured.clone() })
    }

    /// Returns what the file holds now, complete or not; `None` if it cannot be read.
    #[must_use]
    pub fn read_now(&self) -> Option<Vec<u8>> {
        let (fd, _) = self.open().ok()?;
        safe_fs::read_bounded(&fd, limit()).ok()
    }

    /// Puts the prompt back with this content, in one step: whoever reads it sees all of it or none.
    /// Keeps the mode of a file that is there. What else has its name gives way: links, pipes, devices
    /// and empty folders are removed, a folder with something in it gets another name. Folders on the
    /// way that are gone are made; a link in the place of one beneath `workspace` is replaced by a
    /// folder. Nothing is ever written through a link.
    ///
    /// # Errors
    /// If it cannot be written, or a folder on the way outside of `workspace` became a link.
    pub fn restore(&self, bytes: &[u8], workspace: &Path) -> Result<(), PromptError> {
        safe_fs::replace_file(&self.file, bytes, workspace).map_err(|error| self.error(error))
    }

    /// Removes what has appeared where there was nothing. A folder with something in it gets another name; no link is
    /// followed.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> Result<(), PromptError> {
        safe_fs::remove_entry(&self.file).map_err(|error| self.error(error))
    }

    /// Opens the file, if it is one that may be read.
    fn open(&self) -> Result<(rustix::fd::OwnedFd, FileFingerprint), PromptError> {
        let path = || self.configured.clone();
        let fd = safe_fs::open_no_symlinks(&self.file, safe_fs::read_flags())
            .map_err(|error| self.error(error))?;
        let fingerprint = FileFingerprint::from_fd(&fd).map_err(|error| self.error(error))?;
        if fingerprint.file_type() != FileType::RegularFile {
            return Err(PromptError::NotAFile { path: path() });
        }
        if fingerprint.is_hard_linked && self.shared != Some(FileId::from_fingerprint(&fingerprint))
        {
            return Err(PromptError::HardLink { path: path() });
        }
        if fingerprint.size > MAX_BYTES {
            return Err(PromptError::TooLarge { path: path(), bytes: fingerprint.size });
        }
        Ok((fd, fingerprint))
    }

    fn error(&self, error: Errno) -> PromptError {
        let path = self.configured.clone();
        match error {
            Errno::NOENT | Errno::NOTDIR => PromptError::NotFound { path },
            Errno::LOOP => PromptError::Link { path },
            // A socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => PromptError::NotAFile { path },
            other => PromptError::Io { path, source: other.into() },
        }
    }

    /// Reads it, unless somebody is writing it.
    fn attempt(&self) -> Result<Attempt, PromptError> {
        let (before, bytes) = match self.read_once()? {
            (Some(fingerprint), Attempt::Whole(bytes)) => (fingerprint, bytes),
            (_, other) => return Ok(other),
        };
        // Whoever changed it before it was read, and may go on, has it open still.
        let digest = blake3::hash(&bytes);
        let is_whole = is_older(&before, RECENT) || *self.whole() == Some(digest);
        let attempt = if is_whole { Attempt::Whole(bytes) } else { self.confirm(before, &bytes)? };
        // What was confirmed is the same content.
        if matches!(attempt, Attempt::Whole(_)) {
            *self.whole() = Some(digest);
        }
        Ok(attempt)
    }

    fn whole(&self) -> MutexGuard<'_, Option<blake3::Hash>> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was read of a file that changed a moment ago, if nobody is writing it.
    fn confirm(&self, before: FileFingerprint, bytes: &[u8]) -> Result<Attempt, PromptError> {
        // Between emptying it and getting it open for all to see, whoever rewrites it has it in no list.
        if bytes.is_empty() && safe_fs::wall_clock() >= before.ctime {
            return Ok(Attempt::Moving);
        }
        let is_quiet = is_older(&before, QUIET);
        match open_writers::find_writers(&self.file) {
            OpenWriters::Some => return Ok(Attempt::Moving),
            OpenWriters::Unknown if !is_quiet => return Ok(Attempt::Moving),
            OpenWriters::NoneSeen if !is_quiet => std::thread::sleep(BETWEEN),
            OpenWriters::Unknown | OpenWriters::NoneSeen | OpenWriters::None => {}
        }
        Ok(match self.read_once()?.1 {
            Attempt::Whole(again) if again == bytes && self.is_still(&before) => {
                Attempt::Whole(again)
            }
            Attempt::Absent => Attempt::Absent,
            Attempt::Whole(_) | Attempt::Moving => Attempt::Moving,
        })
    }

    /// Reads it, whoever may be writing it, as long as it is the same before and after.
    fn read_once(&self) -> Result<(Option<FileFingerprint>, Attempt), PromptError> {
        let (fd, before) = match self.open() {
            Ok(opened) => opened,
            Err(PromptError::NotFound { .. }) => return Ok((None, Attempt::Absent)),
            Err(error) => return Err(error),
        };
        let bytes = match safe_fs::read_bounded(&fd, limit()) {
            Ok(bytes) => bytes,
            // It grew beyond the limit while being read: the next attempt tells.
            Err(_) if !self.is_still(&before) => return Ok((None, Attempt::Moving)),
            Err(error) => {
                let source = error.into();
                return Err(PromptError::Io { path: self.configured.clone(), source });
            }
        };
        let is_still = self.is_still(&before);
        let attempt = if is_still { Attempt::Whole(bytes) } else { Attempt::Moving };
        Ok((Some(before), attempt))
    }

    /// Whether the path still leads to the same file, unchanged.
    fn is_still(&self, before: &FileFingerprint) -> bool {
        FileFingerprint::from_path_nofollow(&self.file).is_ok_and(|now| now == *before)
    }
}

/// Whether the last change came at least so long ago. One in the future says nothing of its age.
fn is_older(fingerprint: &FileFingerprint, than: Duration) -> bool {
    let age = safe_fs::wall_clock() - fingerprint.ctime;
    (i128::try_from(than.as_nanos()).unwrap_or(i128::MAX)..).contains(&age)
}

fn limit() -> usize {
    usize::try_from(MAX_BYTES).unwrap_or(usize::MAX)
}

impl Prompt {
    /// Returns the prompt with this content.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let digest = blake3::hash(&bytes).to_hex().to_string();
        Self { bytes, text, digest }
    }
}
