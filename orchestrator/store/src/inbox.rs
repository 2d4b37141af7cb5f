//! The inbox of a state directory: controls on their way to the orchestrator that holds the run.
//!
//! Each message is a file of its own, signed with the key of the state, so that nobody who does not know the
//! key steers the run. It is removed once what it asks for is recorded.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_machine::{Control, ControlOrigin, ReceivedControl};
use ralph_orchestrator_safe_fs::{
    DirLister, FileFingerprint, open_file_at, open_folder, open_subfolder, read_bounded, wall_clock,
};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::disk::{Disk, FileOperation};
use super::error::StateError;
use super::key::Key;
use super::layout::Layout;
use super::signed_line;
use super::state_store::Store;

const VERSION: u32 = 1;
/// The name of the folder.
const FOLDER: &str = "inbox";
/// What the name of a message ends with; what is being written has another ending.
const SUFFIX: &str = ".json";
const UNFINISHED: &str = ".tmp";
/// The largest message, in bytes.
const LARGEST: usize = 256 * 1024;
/// The most messages that are read at a time; the others have their turn when these are gone.
const MOST_MESSAGES: usize = 256;
/// The most names that are listed: whoever has put more there keeps messages away, but exhausts no memory.
const MOST_NAMES: usize = 64 * 1024;
/// Bytes of a message beside its control: run, origin, signature.
const LARGEST_FRAME: usize = 4 * 1024;
/// An unfinished message that is older, in nanoseconds, was left by a sender that was killed.
const LONGEST_WRITE: i128 = 60 * 1_000_000_000;

/// A message as it is written.
#[derive(Serialize, Deserialize)]
struct Message {
    version: u32,
    /// The run that it is for.
    run: String,
    origin: ControlOrigin,
    control: Control,
}

/// What was found in an inbox.
#[derive(Debug, Default)]
pub struct InboxContents {
    /// The controls for the run, in the order in which they were sent.
    pub controls: Vec<ReceivedControl>,
    /// Names of files that are no message for this run, and why.
    pub unusable: Vec<(OsString, String)>,
    /// Why a file cannot be read that may be a message; it stays where it is.
    pub unreadable: Option<StateError>,
    /// There are more messages than are read at a time.
    pub has_more: bool,
}

/// Why a file in an inbox gives no control.
enum NoControl {
    /// It is no message for this run.
    Unusable(String),
    /// It may be one.
    Unreadable(StateError),
    /// It was taken back meanwhile.
    Gone,
}

/// Remembers whether an inbox has changed since it was read.
#[derive(Debug, Default)]
pub struct InboxReader {
    /// The folder when it was listed last, if any later change would show.
    seen: Option<FileFingerprint>,
    /// Names that cannot be removed.
    ignored: BTreeSet<OsString>,
}

impl Layout {
    /// Returns the folder of messages to the orchestrator that holds the run.
    #[must_use]
    pub fn inbox(&self) -> PathBuf {
        self.root().join(FOLDER)
    }

    fn message(&self, id: &str) -> PathBuf {
        self.inbox().join(message_name(id))
    }
}

/// Returns whether a message can hold a control.
#[must_use]
pub fn fits_in_message(control: &Control) -> bool {
    let object = serde_json::to_string(control).unwrap_or_default();
    object.len() <= LARGEST - LARGEST_FRAME
}

/// Puts a control into the inbox of a state directory, whole and safely on disk.
///
/// # Errors
/// The state has no key, or the inbox cannot be written.
pub fn send_control(
    layout: &Layout,
    run: &str,
    control: &ReceivedControl,
) -> Result<(), StateError> {
    let disk = &Disk::default();
    let key = Key::read(disk, &layout.key())?
        .ok_or_else(|| StateError::damaged(&layout.key(), "the key of this state is gone"))?;
    let inbox = layout.inbox();
    disk.clear(&inbox, std::fs::Metadata::is_dir)?;
    disk.create_dir(&inbox)?;
    let ReceivedControl { origin, control } = control.clone();
    let path = layout.message(&origin.id);
    let message = Message { version: VERSION, run: run.to_owned(), origin, control };
    let object = serde_json::to_string(&message).unwrap_or_default();
    let (mut line, _) = signed_line::sign(&key, &object);
    line.push('\n');
    disk.write_private(&path, line.as_bytes())?;
    // Whoever watches the inbox by its name is told of a change of its rights, not of what is in it.
    disk.set_private(&inbox).map_err(StateError::io("announce a message in", &inbox))
}

/// Returns whether a message is still in the inbox.
#[must_use]
pub fn is_control_waiting(layout: &Layout, id: &str) -> bool {
    FileFingerprint::from_path_nofollow(&layout.message(id)).is_ok()
}

/// Takes a message back, if it is still in the inbox.
///
/// # Errors
/// It cannot be removed.
pub fn withdraw_control(layout: &Layout, id: &str) -> Result<(), StateError> {
    Disk::default().remove_private(&layout.message(id))
}

impl Store {
    /// Returns what is in the inbox for this run, unless it is as it was when `reader` read it last. No link
    /// is followed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_inbox(
        &self,
        run: &str,
        reader: &mut InboxReader,
    ) -> Result<InboxContents, StateError> {
        let path = self.layout().inbox();
        let now = FileFingerprint::from_path_nofollow(&path).ok();
        if now.is_none() || now == reader.seen {
            return Ok(InboxContents::default());
        }
        let began = wall_clock();
        let Some(folder) = self.open_inbox()? else { return Ok(InboxContents::default()) };
        let listed = self.disk().perform(FileOperation::Read, &path, || {
            Ok(DirLister::default().list(folder.as_fd(), MOST_NAMES)?)
        });
        let (names, is_cut) = listed.map_err(StateError::io("list", &path))?;
        let names = names.into_iter().map(|name| OsString::from_vec(name.bytes));
        let names = names.filter(|name| {
            !reader.ignored.contains(name) && !is_being_written(&folder, name, began)
        });
        let mut found = InboxContents::default();
        for name in names {
            if found.controls.len() + found.unusable.len() >= MOST_MESSAGES {
                found.has_more = true;
                break;
            }
            match self.read_message(&folder, &name, run) {
                Ok(control) => found.controls.push(control),
                Err(NoControl::Unusable(why)) => found.unusable.push((name, why)),
                Err(NoControl::Unreadable(error)) => found.unreadable = Some(error),
                Err(NoControl::Gone) => {}
            }
        }
        found.has_more |= is_cut && !(found.controls.is_empty() && found.unusable.is_empty());
        let is_read = !found.has_more && !is_cut && found.unreadable.is_none();
        // A message that comes while this one is read leaves another time, unless both are too close.
        reader.seen = now.filter(|now| now.is_trusted(began) && is_read);
        Ok(found)
    }

    fn open_inbox(&self) -> Result<Option<OwnedFd>, StateError> {
        let path = self.layout().inbox();
        let opened = self.disk().perform(FileOperation::Open, &path, || {
            let root = open_folder(self.layout().root())?;
            Ok(open_subfolder(root.as_fd(), FOLDER.as_bytes())?)
        });
        match opened {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) if is_no_folder(&error) => {
                // A link or a file in its place leads nowhere.
                self.disk().clear(&path, std::fs::Metadata::is_dir)?;
                Ok(None)
            }
            Err(error) => Err(StateError::io("open", &path)(error)),
        }
    }

    /// Reads a message; or says why it is none for this run.
    fn read_message(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        run: &str,
    ) -> Result<ReceivedControl, NoControl> {
        let path = self.layout().inbox().join(name);
        let bytes = self.disk().perform(FileOperation::Read, &path, || {
            let file = open_file_at(folder.as_fd(), name.as_bytes())?;
            Ok(read_bounded(&file, LARGEST)?)
        });
        let bytes = bytes.map_err(|error| no_control(error, &path))?;
        self.to_control(bytes, name, run).map_err(NoControl::Unusable)
    }

    /// Verifies a message, and whose it is.
    fn to_control(
        &self,
        bytes: Vec<u8>,
        name: &OsStr,
        run: &str,
    ) -> Result<ReceivedControl, String> {
        let id = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        let id = id.ok_or("its name is not that of a message")?;
        let text = String::from_utf8(bytes).map_err(|_| "it is not signed with the key")?;
        let line = text.strip_suffix('\n').ok_or("it is not whole")?;
        self.verify_line(line).ok_or("it is not signed with the key of this state")?;
        let message: Message =
            serde_json::from_str(line).map_err(|error| format!("it is not a message: {error}"))?;
        if message.version > VERSION {
            return Err(format!("a newer version wrote it (format {})", message.version));
        }
        if message.origin.id != id {
            return Err("its name is not that of the message".to_owned());
        }
        if message.run != run {
            return Err(format!("it is for the run {}", message.run));
        }
        let Message { origin, control, .. } = message;
        Ok(ReceivedControl { origin, control })
    }

    /// Removes a message that is recorded.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_message(&self, id: &str) -> Result<(), StateError> {
        self.remove_from_inbox(message_name(id).as_ref())
    }

    /// The same; a message that cannot be removed is ignored from now on.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_read_message(
        &self,
        id: &str,
        reader: &mut InboxReader,
    ) -> Result<(), StateError> {
        self.discard_from_inbox(message_name(id).as_ref(), reader)
    }

    /// Removes what is no message for this run; what cannot be removed is ignored from now on.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn discard_from_inbox(
        &self,
        name: &OsStr,
        reader: &mut InboxReader,
    ) -> Result<(), StateError> {
        self.remove_from_inbox(name).inspect_err(|_| {
            reader.ignored.insert(name.to_owned());
        })
    }

    fn remove_from_inbox(&self, name: &OsStr) -> Result<(), StateError> {
        let Some(folder) = self.open_inbox()? else { return Ok(()) };
        let path = self.layout().inbox().join(name);
        let removed = self.disk().perform(FileOperation::Remove, &path, || {
            match unlinkat(&folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(Errno::ISDIR | Errno::PERM) => Ok(unlinkat(&folder, name, AtFlags::REMOVEDIR)?),
                Err(error) => Err(error.into()),
            }
        });
        removed.map_err(StateError::io("remove", &path))
    }
}

/// Why a file that cannot be read gives no control: only a failure of the disk leaves that open.
fn no_control(error: std::io::Error, path: &Path) -> NoControl {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => NoControl::Gone,
        Some(Errno::LOOP) => NoControl::Unusable("it is a link".to_owned()),
        // A socket cannot be opened, nor can what its sender did not let us read.
        None | Some(Errno::NXIO | Errno::ACCESS | Errno::PERM) => {
            NoControl::Unusable(error.to_string())
        }
        Some(_) => NoControl::Unreadable(StateError::io("read", path)(error)),
    }
}

fn message_name(id: &str) -> String {
    format!("{id}{SUFFIX}")
}

/// Whether a sender may still be writing this file.
fn is_being_written(folder: &OwnedFd, name: &OsStr, now: i128) -> bool {
    name.as_bytes().ends_with(UNFINISHED.as_bytes())
        && FileFingerprint::from_name(folder.as_fd(), name.as_bytes())
            .is_ok_and(|file| now.saturating_sub(file.mtime) < LONGEST_WRITE)
}

fn is_no_folder(error: &std::io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::LOOP | Errno::NOTDIR))
}
