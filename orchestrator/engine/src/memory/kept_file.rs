//! A file that only grows: in the workspace, where an agent may do anything to it, or in the state
//! directory.

use std::path::{Path, PathBuf};

use ralph_orchestrator_memory::{EntryFormat, append_entry, finish_rotation, merge, rotate};
use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint, ReadError};
use ralph_orchestrator_store::{MemoryFiles, StateError};
use rustix::fs::FileType;
use rustix::io::Errno;

/// The largest file that is read, in bytes.
const LARGEST: usize = 256 << 20;

/// What has the name of a file.
pub(super) enum Found {
    Nothing,
    Content(Vec<u8>),
    /// Something else than a file that can be read, and why.
    Other(String),
}

/// Before what a copy was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptCopy {
    /// The session of an agent.
    Session,
    /// A phase outside of it, in which code of the agent runs.
    Phase,
}

/// A file that only grows.
pub(super) struct KeptFile {
    pub(super) format: EntryFormat,
    /// For messages.
    shown: PathBuf,
    /// Below the state's folder.
    name: String,
    /// In the workspace; `None` if it is kept in the state directory.
    visible: Option<PathBuf>,
    workspace: PathBuf,
    files: MemoryFiles,
}

impl KeptFile {
    /// Returns the file at this path of the workspace.
    pub(super) fn in_workspace(
        files: &MemoryFiles,
        workspace: &Path,
        path: &Path,
        format: EntryFormat,
    ) -> Self {
        Self {
            format,
            shown: path.to_owned(),
            name: file_name(path),
            visible: Some(workspace.join(path)),
            workspace: workspace.to_owned(),
            files: files.clone(),
        }
    }

    /// Returns the file of this name in the state directory.
    pub(super) fn in_state(
        files: &MemoryFiles,
        workspace: &Path,
        path: &Path,
        format: EntryFormat,
    ) -> Self {
        Self { visible: None, ..Self::in_workspace(files, workspace, path, format) }
    }

    /// Returns the path for messages.
    pub(super) fn shown(&self) -> std::path::Display<'_> {
        self.shown.display()
    }

    /// Returns where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.visible.clone().unwrap_or_else(|| self.files.path(&self.name))
    }

    fn copy_name(&self, copy: KeptCopy) -> String {
        let prefix = match copy {
            KeptCopy::Session => "before",
            KeptCopy::Phase => "phase",
        };
        format!("{prefix}-{}", self.name)
    }

    /// Reads it as it is.
    pub(super) fn find(&self) -> Result<Found, StateError> {
        match &self.visible {
            Some(path) => Ok(find(path)),
            None => Ok(self.files.read(&self.name)?.map_or(Found::Nothing, Found::Content)),
        }
    }

    /// Reads its content; nothing if there is no such file, or something else has its name.
    pub(super) fn content(&self) -> Result<Vec<u8>, StateError> {
        Ok(match self.find()? {
            Found::Content(content) => content,
            Found::Nothing | Found::Other(_) => Vec::new(),
        })
    }

    /// Writes it whole, in the place of whatever has its name.
    pub(super) fn write(&self, content: &[u8]) -> Result<(), StateError> {
        match &self.visible {
            Some(path) => safe_fs::replace_file(path, content, &self.workspace)
                .map_err(|error| StateError::io("write", path)(error.into())),
            None => self.files.write(&self.name, content),
        }
    }

    /// Creates it if there is nothing.
    pub(super) fn create(&self) -> Result<(), StateError> {
        match self.find()? {
            Found::Nothing => self.write(self.format.preamble()),
            Found::Content(_) | Found::Other(_) => Ok(()),
        }
    }

    /// Appends an entry, unless it is in what was appended since the file had so many bytes.
    pub(super) fn append_once(&self, entry: &str, length: usize) -> Result<(), StateError> {
        let content = match self.find()? {
            Found::Content(content) => content,
            Found::Nothing | Found::Other(_) => self.format.preamble().to_vec(),
        };
        let since = content.get(length..).unwrap_or_default();
        if memchr::memmem::find(since, entry.as_bytes()).is_some() {
            return Ok(());
        }
        self.write(&append_entry(&content, entry.as_bytes()))
    }

    /// Keeps a copy of what is there before code of an agent runs.
    pub(super) fn keep(&self, copy: KeptCopy) -> Result<(), StateError> {
        match &self.visible {
            Some(_) => self.files.write(&self.copy_name(copy), &self.content()?),
            None => Ok(()),
        }
    }

    /// Returns what was there before.
    pub(super) fn kept(&self, copy: KeptCopy) -> Result<Vec<u8>, StateError> {
        Ok(self.files.read(&self.copy_name(copy))?.unwrap_or_default())
    }

    /// Puts back what the agent changed of it. Returns what there is to say about that.
    pub(super) fn restore(&self, copy: KeptCopy) -> Result<Option<String>, StateError> {
        if self.visible.is_none() {
            return Ok(None);
        }
        let before = self.kept(copy)?;
        let (content, what) = match self.find()? {
            Found::Content(found) => {
                let merged = merge(self.format, &before, &found);
                if !merged.is_restored {
                    return Ok(None);
                }
                let what = "lost earlier content, and only grows; that was restored, and what was added \
                            follows it";
                (merged.content, what.to_owned())
            }
            Found::Nothing if before.is_empty() => return Ok(None),
            Found::Nothing => (before, "was removed; it was restored".to_owned()),
            Found::Other(why) => (before, format!("{why}; it was restored")),
        };
        self.write(&content)?;
        Ok(Some(format!("{} {what}", self.shown())))
    }

    /// Moves the oldest entries of a large file to an archive.
    pub(super) fn rotate(&self, above: u64) -> Result<(), StateError> {
        let above = usize::try_from(above).unwrap_or(usize::MAX);
        let Found::Content(content) = self.find()? else { return Ok(()) };
        let Some(rotation) = rotate(self.format, &content, above) else { return Ok(()) };
        let number = self.files.newest_archive(&self.name)?.saturating_add(1);
        self.files.write(&MemoryFiles::archive_name(number, &self.name), &rotation.archived)?;
        self.write(&rotation.remaining)
    }

    /// Completes a rotation that was interrupted after the archive was written.
    pub(super) fn finish_rotation(&self) -> Result<(), StateError> {
        let number = self.files.newest_archive(&self.name)?;
        let archive = match number {
            0 => None,
            _ => self.files.read(&MemoryFiles::archive_name(number, &self.name))?,
        };
        let (Some(archive), Found::Content(content)) = (archive, self.find()?) else {
            return Ok(());
        };
        match finish_rotation(self.format, &content, &archive) {
            Some(remaining) => self.write(&remaining),
            None => Ok(()),
        }
    }
}

/// Reads what has this path, links not followed.
pub(super) fn find(path: &Path) -> Found {
    let fd = match safe_fs::open_no_symlinks(path, safe_fs::read_flags()) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR) => return Found::Nothing,
        Err(Errno::LOOP) => return Found::Other("is a link, or lies beneath one".to_owned()),
        Err(Errno::NXIO | Errno::NODEV) => return Found::Other(NOT_REGULAR.to_owned()),
        Err(error) => return Found::Other(format!("cannot be read ({error})")),
    };
    match FileFingerprint::from_fd(&fd) {
        Ok(found) if found.file_type() != FileType::RegularFile => {
            Found::Other(NOT_REGULAR.to_owned())
        }
        Ok(found) if found.is_hard_linked => {
            Found::Other("is a hard link of another file".to_owned())
        }
        Ok(_) => match safe_fs::read_bounded(&fd, LARGEST) {
            Ok(content) => Found::Content(content),
            Err(error @ ReadError::TooLarge { .. }) => Found::Other(format!("is {error}")),
            Err(error) => Found::Other(format!("cannot be read ({error})")),
        },
        Err(error) => Found::Other(format!("cannot be read ({error})")),
    }
}

const NOT_REGULAR: &str = "is not a regular file";

/// Returns a name for the state's folder that stands for the whole path.
fn file_name(path: &Path) -> String {
    safe_fs::escape(path).replace('/', "--")
}
