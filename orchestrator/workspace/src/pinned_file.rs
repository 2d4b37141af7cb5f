//! Files that the agent can write but must not change: recorded, and restored.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint};
use ralph_orchestrator_safe_fs::{escape, unescape};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The largest such file, in bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// The most links from a path to its file.
const MAX_LINKS: usize = 8;
/// How many names are tried for a temporary file.
const CREATE_ATTEMPTS: usize = 16;

/// A file as it was, with the links that led to it. Its folders are held open: what is put in their
/// place later is never written to.
#[derive(Debug)]
pub struct PinnedFile {
    path: PathBuf,
    steps: Vec<Step>,
    digest: String,
}

/// One name on the way.
#[derive(Debug)]
struct Step {
    folder: OwnedFd,
    folder_path: PathBuf,
    name: Vec<u8>,
    was: OriginalEntry,
}

#[derive(Debug)]
enum OriginalEntry {
    Link(Vec<u8>),
    /// `seen` if the file was left alone for long enough before it was read.
    File {
        bytes: Vec<u8>,
        mode: u32,
        seen: Option<FileFingerprint>,
    },
}

/// A pinned file in words, to be pinned again as it was by another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRecord {
    path: String,
    steps: Vec<StepRecord>,
}

/// Bytes are as text what [`escape`] makes of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StepRecord {
    folder: String,
    name: String,
    #[serde(flatten)]
    was: OriginalRecord,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OriginalRecord {
    Link { target: String },
    File { content: String, mode: u32 },
}

impl PinRecord {
    /// Returns the path that led to the file.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        unescape(&self.path)
    }
}

impl PinnedFile {
    /// Returns the file as it is now; `None` if there is none.
    ///
    /// # Errors
    /// It is no regular file, larger than 8 MiB, or cannot be read.
    pub fn pin(path: &Path) -> io::Result<Option<Self>> {
        let mut steps = Vec::new();
        let mut at = path.to_owned();
        while steps.len() <= MAX_LINKS {
            let Some((step, next)) = Step::take(&at)? else { return Ok(None) };
            let digest = match &step.was {
                OriginalEntry::File { bytes, .. } => Some(blake3::hash(bytes).to_hex().to_string()),
                OriginalEntry::Link(_) => None,
            };
            steps.push(step);
            match (digest, next) {
                (Some(digest), _) => {
                    return Ok(Some(Self { path: path.to_owned(), steps, digest }));
                }
                (None, Some(next)) => at = next,
                (None, None) => break,
            }
        }
        Err(Errno::LOOP.into())
    }

    /// Returns the path that leads to it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the BLAKE3 of its content, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the file as it was, in words.
    #[must_use]
    pub fn to_record(&self) -> PinRecord {
        let steps = self.steps.iter().map(Step::to_record).collect();
        PinRecord { path: escape(&self.path), steps }
    }

    /// Returns the file as it was when the record was made, whatever it is now.
    ///
    /// # Errors
    /// A folder on the way is gone, or the record was made by nobody.
    pub fn from_record(record: &PinRecord) -> io::Result<Self> {
        let path = record.path().ok_or_else(no_record)?;
        let steps = record.steps.iter().map(Step::from_record).collect::<io::Result<Vec<_>>>()?;
        let last = steps.last().ok_or_else(no_record)?;
        let OriginalEntry::File { bytes, .. } = &last.was else { return Err(no_record()) };
        let digest = blake3::hash(bytes).to_hex().to_string();
        Ok(Self { path, steps, digest })
    }

    /// Puts back what was changed. True if anything was.
    ///
    /// # Errors
    /// One of its folders is another one now, or the disk refuses.
    pub fn restore_if_changed(&mut self) -> io::Result<bool> {
        self.steps.iter_mut().try_fold(false, |any, step| Ok(step.restore_if_changed()? | any))
    }
}

impl Step {
    /// Returns what is at a path, and where it leads on to.
    fn take(path: &Path) -> io::Result<Option<(Self, Option<PathBuf>)>> {
        use std::os::unix::ffi::OsStrExt as _;
        let name = path.file_name().ok_or_else(|| io::Error::from(Errno::ISDIR))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder_path = match parent.unwrap_or_else(|| Path::new(".")).canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let folder = safe_fs::open_folder_nofollow(&folder_path)?;
        let name = name.as_bytes().to_vec();
        let fingerprint = match FileFingerprint::from_name(folder.as_fd(), &name) {
            Ok(fingerprint) => fingerprint,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if fingerprint.file_type() == FileType::Symlink {
            let target = safe_fs::read_link_at(folder.as_fd(), &name)?;
            let next = folder_path.join(std::ffi::OsStr::from_bytes(&target));
            let step = Self { folder, folder_path, name, was: OriginalEntry::Link(target) };
            return Ok(Some((step, Some(next))));
        }
        let (bytes, mode, seen) = read(&folder, &name)?;
        let was = OriginalEntry::File { bytes, mode, seen };
        Ok(Some((Self { folder, folder_path, name, was }, None)))
    }

    fn to_record(&self) -> StepRecord {
        let was = match &self.was {
            OriginalEntry::Link(target) => OriginalRecord::Link { target: to_text(target) },
            OriginalEntry::File { bytes, mode, .. } => {
                OriginalRecord::File { content: to_text(bytes), mode: *mode }
            }
        };
        StepRecord { folder: escape(&self.folder_path), name: to_text(&self.name), was }
    }

    fn from_record(record: &StepRecord) -> io::Result<Self> {
        let folder_path = unescape(&record.folder).ok_or_else(no_record)?;
        // It had no link in it when the record was made.
        let folder = safe_fs::open_no_symlinks(&folder_path, safe_fs::list_flags())?;
        let was = match &record.was {
            OriginalRecord::Link { target } => OriginalEntry::Link(to_bytes(target)?),
            OriginalRecord::File { content, mode } => {
                OriginalEntry::File { bytes: to_bytes(content)?, mode: *mode & 0o7777, seen: None }
            }
        };
        Ok(Self { folder, folder_path, name: to_bytes(&record.name)?, was })
    }

    fn restore_if_changed(&mut self) -> io::Result<bool> {
        let (held, named) = (
            FileFingerprint::from_fd(&self.folder)?,
            FileFingerprint::from_path(&self.folder_path),
        );
        if named.map(|named| (named.dev, named.ino)) != Ok((held.dev, held.ino)) {
            let message = format!("its folder {} is another one now", self.folder_path.display());
            return Err(io::Error::other(message));
        }
        if self.is_as_it_was() {
            return Ok(false);
        }
        self.move_folder_aside()?;
        let (temporary, seen) = match &self.was {
            OriginalEntry::Link(target) => {
                let make = |name: &[u8]| {
                    rustix::fs::symlinkat(target.as_slice(), &self.folder, name)
                        .map(|()| None::<OwnedFd>)
                };
                (create(&self.name, make)?.0, None)
            }
            OriginalEntry::File { bytes, mode, .. } => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let flags = flags | OFlags::NOFOLLOW;
                let make = |name: &[u8]| {
                    let mode = Mode::from_raw_mode(0o600);
                    rustix::fs::openat(&self.folder, name, flags, mode).map(Some)
                };
                let (temporary, file) = create(&self.name, make)?;
                let file = file.ok_or_else(|| io::Error::from(Errno::IO))?;
                (temporary, Some(write(file, bytes, *mode)))
            }
        };
        let written = seen.transpose().and_then(|seen| {
            rustix::fs::renameat(&self.folder, &temporary, &self.folder, &self.name)?;
            Ok(seen)
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
        if written?.is_some()
            && let OriginalEntry::File { seen, .. } = &mut self.was
        {
            // It was written a moment ago.
            *seen = None;
        }
        Ok(true)
    }

    fn is_as_it_was(&mut self) -> bool {
        match &mut self.was {
            OriginalEntry::Link(target) => safe_fs::read_link_at(self.folder.as_fd(), &self.name)
                .is_ok_and(|now| now == *target),
            OriginalEntry::File { bytes, mode, seen } => {
                if seen.is_some()
                    && FileFingerprint::from_name(self.folder.as_fd(), &self.name).ok() == *seen
                {
                    return true;
                }
                match read(&self.folder, &self.name) {
                    Ok((now, mode_now, fingerprint)) if now == *bytes && mode_now == *mode => {
                        *seen = fingerprint;
                        true
                    }
                    _ => false,
                }
            }
        }
    }

    /// Renames a folder in the file's place to an unused name.
    fn move_folder_aside(&self) -> io::Result<()> {
        let now = FileFingerprint::from_name(self.folder.as_fd(), &self.name);
        if !now.is_ok_and(|now| now.file_type() == FileType::Directory) {
            return Ok(());
        }
        for number in 1..=CREATE_ATTEMPTS {
            let aside = [self.name.as_slice(), format!(".{number}").as_bytes()].concat();
            if FileFingerprint::from_name(self.folder.as_fd(), &aside) == Err(Errno::NOENT) {
                let (folder, name) = (&self.folder, self.name.as_slice());
                return Ok(rustix::fs::renameat(folder, name, folder, aside.as_slice())?);
            }
        }
        Err(Errno::EXIST.into())
    }
}

/// Reads content, mode, and the fingerprint if that stands for the content.
fn read(folder: &OwnedFd, name: &[u8]) -> io::Result<(Vec<u8>, u32, Option<FileFingerprint>)> {
    let started = safe_fs::wall_clock();
    let file = safe_fs::open_file_at(folder.as_fd(), name)?;
    let seen = FileFingerprint::from_fd(&file)?;
    let bytes = safe_fs::read_bounded(&file, MAX_BYTES)?;
    Ok((bytes, seen.mode & 0o7777, Some(seen).filter(|seen| seen.is_trusted(started))))
}

fn to_text(bytes: &[u8]) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    escape(Path::new(std::ffi::OsStr::from_bytes(bytes)))
}

fn to_bytes(text: &str) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt as _;
    let path = unescape(text).ok_or_else(no_record)?;
    Ok(path.into_os_string().into_vec())
}

fn no_record() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it was not recorded like this")
}

fn write(file: OwnedFd, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    file.sync_all()
}

/// Makes something beside a name, under one that nobody uses.
fn create<T>(name: &[u8], make: impl Fn(&[u8]) -> Result<T, Errno>) -> io::Result<(Vec<u8>, T)> {
    for number in 0..CREATE_ATTEMPTS {
        let end = format!(".{}.{number}.tmp", std::process::id());
        let temporary = [b".".as_slice(), name, end.as_bytes()].concat();
        match make(&temporary) {
            Ok(made) => return Ok((temporary, made)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn pinned(path: &Path) -> PinnedFile {
        PinnedFile::pin(path).unwrap().unwrap()
    }

    #[test]
    fn whatever_was_done_to_the_file_it_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let (path, precious) = (folder.path().join("x.json"), elsewhere.path().join("precious"));
        fs::write(&path, "one").unwrap();
        fs::write(&precious, "mine").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let mut file = pinned(&path);
        assert!(!file.restore_if_changed().unwrap());
        let deeds: [&dyn Fn(); 6] = [
            &|| fs::write(&path, "two").unwrap(),
            &|| fs::remove_file(&path).unwrap(),
            &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap(),
            &|| {
                fs::remove_file(&path).unwrap();
                symlink(&precious, &path).unwrap();
            },
            &|| {
                fs::remove_file(&path).unwrap();
                fs::create_dir_all(path.join("deep")).unwrap();
            },
            &|| {
                fs::remove_file(&path).unwrap();
                rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
            },
        ];
        for deed in deeds {
            deed();
            assert!(file.restore_if_changed().unwrap());
            assert!(fs::symlink_metadata(&path).unwrap().is_file());
            assert_eq!(fs::read_to_string(&path).unwrap(), "one");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
            assert!(!file.restore_if_changed().unwrap());
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
        // The same bytes again are no change.
        fs::write(&path, "one").unwrap();
        assert!(!file.restore_if_changed().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "x.json and the folder aside");
    }

    #[test]
    fn links_are_put_back_too_and_what_they_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        fs::write(&file, "one").unwrap();
        symlink("file", &link).unwrap();
        let mut pin = pinned(&link);
        fs::write(&file, "two").unwrap();
        assert!(pin.restore_if_changed().unwrap());
        fs::remove_file(&link).unwrap();
        fs::write(&link, "three").unwrap();
        assert!(pin.restore_if_changed().unwrap());
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("file"));
        assert_eq!(fs::read_to_string(&link).unwrap(), "one");
    }

    #[test]
    fn another_process_puts_it_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (link, file) = (root.join("link"), root.join("file"));
        let content: Vec<u8> = (0..=255).chain(*b"\\x41").collect();
        fs::write(&file, &content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let pin = pinned(&link);
        let text = serde_json::to_string(&pin.to_record()).unwrap();
        let again = || PinnedFile::from_record(&serde_json::from_str(&text).unwrap());
        let mut same = again().unwrap();
        assert_eq!((same.path(), same.digest()), (pin.path(), pin.digest()));
        assert!(!same.restore_if_changed().unwrap(), "nobody has touched it");
        fs::remove_file(&link).unwrap();
        fs::write(&link, "other").unwrap();
        fs::write(&file, "other").unwrap();
        assert!(again().unwrap().restore_if_changed().unwrap());
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("file"));
        assert_eq!(fs::read(&file).unwrap(), content);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        // A link in the place of its folder is not followed.
        let moved = tempfile::tempdir().unwrap();
        fs::rename(&root, moved.path().join("moved")).unwrap();
        symlink(moved.path().join("moved"), &root).unwrap();
        assert!(again().is_err());
        fs::remove_file(&root).unwrap();
        fs::rename(moved.path().join("moved"), &root).unwrap();
    }

    /// Two writes may leave the same fingerprint.
    #[test]
    fn a_rewrite_of_the_same_length_is_put_back_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        for round in 0..100 {
            fs::write(&path, "one").unwrap();
            let mut file = pinned(&path);
            fs::write(&path, "two").unwrap();
            assert!(file.restore_if_changed().unwrap(), "{round}");
            fs::write(&path, "two").unwrap();
            assert!(file.restore_if_changed().unwrap(), "{round}");
        }
    }

    #[test]
    fn nothing_is_written_into_a_folder_that_took_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, other) = (folder.path().join("inner"), folder.path().join("other"));
        fs::create_dir(&inner).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(inner.join("x"), "one").unwrap();
        let mut pin = pinned(&inner.join("x"));
        fs::rename(&inner, folder.path().join("away")).unwrap();
        symlink(&other, &inner).unwrap();
        assert!(pin.restore_if_changed().unwrap_err().to_string().contains("another one"));
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    }

    #[test]
    fn what_is_none_cannot_be_pinned() {
        let folder = tempfile::tempdir().unwrap();
        assert!(PinnedFile::pin(&folder.path().join("none")).unwrap().is_none());
        assert!(PinnedFile::pin(&folder.path().join("no/ne")).unwrap().is_none());
        assert!(PinnedFile::pin(folder.path()).is_err());
        symlink("round", folder.path().join("round")).unwrap();
        assert!(PinnedFile::pin(&folder.path().join("round")).is_err());
    }
}
