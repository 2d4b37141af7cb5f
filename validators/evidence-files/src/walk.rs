//! Going through a folder that an agent wrote.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

/// Folders within folders.
const DEEPEST: usize = 8;
/// Names in all folders together.
pub(crate) const MOST_ENTRIES: usize = 20_000;

/// Why the folder itself cannot be looked at.
#[derive(Debug)]
pub(crate) enum NoFolder {
    Missing,
    /// It, or a folder on the way to it, is a link.
    Link,
    /// Something else has its name.
    InTheWay,
    Other(Errno),
}

impl From<Errno> for NoFolder {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Missing,
            Errno::LOOP => Self::Link,
            Errno::NOTDIR => Self::InTheWay,
            errno => Self::Other(errno),
        }
    }
}

/// Something found on the way; paths are relative to the folder.
#[derive(Debug)]
pub(crate) enum Entry {
    /// An opened file that was a regular one a moment ago.
    File(PathBuf, File),
    /// Something that cannot count, and why.
    Rejected(PathBuf, String),
    /// There are more than [`MOST_ENTRIES`]. Nothing comes after this.
    TooMany,
}

struct Level {
    folder: OwnedFd,
    path: PathBuf,
    /// Sorted backwards, so that the next one is the last.
    names: Vec<CString>,
}

/// Visits each entry below a folder once, in the order of their names, and opens the files wanted.
/// Each name is opened relative to its open folder and never through a link, so nothing outside the
/// folder is ever reached, whatever is renamed meanwhile.
pub(crate) struct Walk<'a> {
    levels: Vec<Level>,
    seen: usize,
    extensions: &'a [String],
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// For the folder that the user configured, which may well be reached by links.
const BASE: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens the evidence folder: below `base` no link is followed. A `dir` that leaves `base` was
/// written by the user, not by the agent; there only its last part must not be a link.
fn open_folder(base: &Path, dir: &Path, path: &Path) -> Result<OwnedFd, Errno> {
    let beneath = dir.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    let (base, parts) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !beneath => (parent, vec![name]),
        _ => {
            let normal = |c| if let Component::Normal(name) = c { Some(name) } else { None };
            (base, dir.components().filter_map(normal).collect())
        }
    };
    let mut folder = openat(CWD, base, BASE, Mode::empty())?;
    for part in parts {
        folder = openat(&folder, part, FOLDER, Mode::empty())
            .map_err(|errno| refine(&folder, part, errno))?;
    }
    Ok(folder)
}

/// With both `DIRECTORY` and `NOFOLLOW`, a link is told as `NOTDIR`.
fn refine(folder: &OwnedFd, name: &OsStr, errno: Errno) -> Errno {
    let link = errno == Errno::NOTDIR
        && statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
    if link { Errno::LOOP } else { errno }
}

impl<'a> Walk<'a> {
    /// Begins at `dir`, which is relative to `base` and as a whole is `path`. `extensions` are those
    /// of the files wanted, in lower case.
    pub(crate) fn new(
        base: &Path,
        dir: &Path,
        path: &Path,
        extensions: &'a [String],
    ) -> Result<Self, NoFolder> {
        let folder = open_folder(base, dir, path)?;
        let mut walk = Self { levels: Vec::new(), seen: 0, extensions };
        walk.enter(folder, PathBuf::new())?;
        Ok(walk)
    }

    fn enter(&mut self, folder: OwnedFd, path: PathBuf) -> Result<(), Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            // Also `.` and `..`.
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            names.push(name.to_owned());
            self.seen += 1;
            if self.seen > MOST_ENTRIES {
                break;
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.levels.push(Level { folder, path, names });
        Ok(())
    }

    fn is_wanted(&self, path: &Path) -> bool {
        extension(path).is_some_and(|extension| self.extensions.contains(&extension))
    }

    fn visit(&mut self, name: &CString) -> Option<Entry> {
        let depth = self.levels.len();
        let level = self.levels.last()?;
        let path = level.path.join(OsStr::from_bytes(name.to_bytes()));
        let useless = |why: &str| Some(Entry::Rejected(path.clone(), why.to_owned()));
        let failed = |errno: Errno| match errno {
            Errno::NOENT => useless("was gone when it was looked at; claim when all is written"),
            Errno::LOOP => useless("is a link; put the file itself there"),
            errno => useless(&format!("cannot be read: {}", errno_text(errno))),
        };
        let kind = match statat(&level.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(errno) => return failed(errno),
        };
        match kind {
            FileType::RegularFile if !self.is_wanted(&path) => None,
            FileType::RegularFile => match openat(&level.folder, name, FILE, Mode::empty()) {
                Ok(file) => Some(Entry::File(path, File::from(file))),
                Err(errno) => failed(errno),
            },
            FileType::Directory if depth > DEEPEST => {
                useless(&format!("is not looked into: more than {DEEPEST} folders deep"))
            }
            FileType::Directory => {
                let looks_like_a_file = self.is_wanted(&path);
                let opened = openat(&level.folder, name, FOLDER, Mode::empty());
                match opened.and_then(|folder| self.enter(folder, path.clone())) {
                    Ok(()) if looks_like_a_file => useless("is a folder, not a file"),
                    Ok(()) => None,
                    Err(errno) => failed(errno),
                }
            }
            FileType::Symlink => failed(Errno::LOOP),
            FileType::Fifo => useless("is a FIFO, not a regular file"),
            FileType::Socket => useless("is a socket, not a regular file"),
            _ => useless("is a device, not a regular file"),
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            if self.seen > MOST_ENTRIES {
                self.seen = 0;
                self.levels.clear();
                return Some(Entry::TooMany);
            }
            let level = self.levels.last_mut()?;
            match level.names.pop() {
                None => {
                    self.levels.pop();
                }
                Some(name) => {
                    if let Some(entry) = self.visit(&name) {
                        return Some(entry);
                    }
                }
            }
        }
    }
}

/// A file name's extension in lower case.
pub(crate) fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_lowercase())
}

/// The system's words for an error, without its number.
pub(crate) fn errno_text(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_lowercase())
}
