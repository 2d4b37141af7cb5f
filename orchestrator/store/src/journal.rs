//! The append-only record of a run, or of a series of runs.
//!
//! One JSON object a line: `seq` (from 1, without gaps), `time` (RFC 3339, UTC), `kind` and the
//! fields of the [`Record`], `prev` (the code of the line before, empty in the first) and `mac`, the
//! keyed_digest BLAKE3 code of the line up to there. A line without its end is a torn write and is cut; any
//! other line that does not fit is damage.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_safe_fs::FileFingerprint;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::disk::{Disk, File};
use super::error::StateError;
use super::key::Key;
use super::mirror::FileMirror;
use super::signed_line;

/// Version of the journal's format, in its first record.
pub const FORMAT_VERSION: u32 = 1;

/// A record with its place and time.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry<R = Record> {
    /// Its number, from 1.
    pub seq: u64,
    /// When it was written.
    pub time: Timestamp,
    /// The fact.
    pub record: R,
}

/// What a journal is made of: objects that say what they are in `kind`.
pub trait JournalRecord: Serialize + DeserializeOwned {
    /// Whether it has to be safely on disk before anything follows from it.
    fn is_barrier(&self) -> bool;
}

impl JournalRecord for Record {
    fn is_barrier(&self) -> bool {
        Self::is_barrier(self)
    }
}

/// What a line says of its place. Only lines that were written here, as their codes show, are looked at
/// like this: reading all of it for that would double the time of a start.
struct LineHeader<'a> {
    seq: u64,
    time: Timestamp,
    prev: &'a str,
}

impl<'a> LineHeader<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (seq, rest) = line.strip_prefix("{\"seq\":")?.split_once(",\"time\":\"")?;
        let (time, _) = rest.split_once('"')?;
        let (_, rest) = line.rsplit_once(",\"prev\":\"")?;
        let (prev, _) = rest.split_once('"')?;
        Some(Self { seq: seq.parse().ok()?, time: time.parse().ok()?, prev })
    }
}

/// A last line without its end, as a crash leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornLine {
    /// How many bytes it has.
    pub bytes: u64,
}

/// Where a journal ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JournalEnd {
    seq: u64,
    code: String,
    len: u64,
    pub(super) torn: Option<TornLine>,
}

impl Default for JournalEnd {
    fn default() -> Self {
        Self { seq: 0, code: signed_line::START.to_owned(), len: 0, torn: None }
    }
}

/// Reads and checks a journal, without changing anything.
///
/// # Errors
/// It cannot be read or is damaged.
pub fn read_journal<R: JournalRecord>(
    disk: &Disk,
    path: &Path,
    key: &Key,
    mut each: impl FnMut(JournalEntry<R>),
) -> Result<Option<TornLine>, StateError> {
    let file = disk
        .open_regular(path, OpenOptions::new().read(true))
        .map_err(StateError::io("read", path))?;
    let reader = BufReader::with_capacity(256 * 1024, &file);
    let mut end = JournalEnd::default();
    scan(path, key, reader, &mut end, &mut each)?;
    Ok(end.torn)
}

/// Reads and checks what was appended to a journal after `end`, and moves `end` along.
pub(super) fn read_appended(
    disk: &Disk,
    path: &Path,
    key: &Key,
    end: &mut JournalEnd,
    each: &mut dyn FnMut(JournalEntry),
) -> Result<(), StateError> {
    let file = disk
        .open_regular(path, OpenOptions::new().read(true))
        .map_err(StateError::io("read", path))?;
    let len = file.inner().metadata().map_err(StateError::io("look at", path))?.len();
    if len < end.len {
        return Err(StateError::damaged(path, "it is shorter than it was"));
    }
    let mut inner = file.inner();
    inner.seek(SeekFrom::Start(end.len)).map_err(StateError::io("read", path))?;
    scan(path, key, BufReader::with_capacity(256 * 1024, &file), end, each)
}

fn scan<R: JournalRecord>(
    path: &Path,
    key: &Key,
    mut reader: impl BufRead,
    end: &mut JournalEnd,
    each: &mut dyn FnMut(JournalEntry<R>),
) -> Result<(), StateError> {
    end.torn = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(StateError::io("read", path))?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read == 0 {
            return Ok(());
        }
        let Some(text) = line.strip_suffix(b"\n") else {
            end.torn = Some(TornLine { bytes: read });
            return Ok(());
        };
        let next = end.seq.saturating_add(1);
        let broken = |what: &str| StateError::damaged(path, format!("record {next}: {what}"));
        let text = std::str::from_utf8(text).map_err(|_| broken("not UTF-8"))?;
        let code = signed_line::verify(key, text).ok_or_else(|| {
            broken("its code is wrong: the journal was changed, or belongs to another state")
        })?;
        let head = LineHeader::parse(text).ok_or_else(|| broken("no number or time"))?;
        if head.seq != next || head.prev != end.code {
            return Err(broken("records are missing or in another order"));
        }
        let record = serde_json::from_str(text)
            .map_err(|error| broken(&format!("written by another version? {error}")))?;
        each(JournalEntry { seq: next, time: head.time, record });
        code.clone_into(&mut end.code);
        end.seq = next;
        end.len = end.len.saturating_add(read);
    }
}

/// The writer of a run's journal.
#[derive(Debug)]
pub struct Journal {
    disk: Disk,
    /// The state directory that it lies in.
    root: PathBuf,
    path: PathBuf,
    key: Key,
    file: File,
    /// The same bytes out of reach: what is written again if the file is touched.
    copy: FileMirror,
    end: JournalEnd,
    fingerprint: FileFingerprint,
}

impl Journal {
    /// Starts a new journal in a folder that is there. It is safe once the folder is synced.
    ///
    /// # Errors
    /// The folder cannot be written, or there is one already.
    pub fn create(disk: &Disk, path: &Path, key: &Key) -> Result<Self, StateError> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true).mode(0o600);
        let file = disk.open(path, &options).map_err(StateError::io("create", path))?;
        Self::new(disk, path, key, file, JournalEnd::default())
    }

    /// Opens a journal to go on with it; a torn last line is cut and told.
    ///
    /// # Errors
    /// It cannot be read or written, or is damaged.
    pub fn open<R: JournalRecord>(
        disk: &Disk,
        path: &Path,
        key: &Key,
        mut each: impl FnMut(JournalEntry<R>),
    ) -> Result<(Self, Option<TornLine>), StateError> {
        let file = disk
            .open_regular(path, OpenOptions::new().read(true).append(true))
            .map_err(StateError::io("open", path))?;
        let reader = BufReader::with_capacity(256 * 1024, &file);
        let mut end = JournalEnd::default();
        scan(path, key, reader, &mut end, &mut each)?;
        let torn = end.torn.take();
        if torn.is_some() {
            file.set_len(end.len)
                .and_then(|()| file.sync_all())
                .map_err(StateError::io("cut", path))?;
        }
        Ok((Self::new(disk, path, key, file, end)?, torn))
    }

    fn new(
        disk: &Disk,
        path: &Path,
        key: &Key,
        file: File,
        end: JournalEnd,
    ) -> Result<Self, StateError> {
        let mut copy = FileMirror::default();
        if end.len > 0 {
            let from = disk
                .open_regular(path, OpenOptions::new().read(true))
                .map_err(StateError::io("read", path))?;
            copy.copy_from(disk, path, &from)?;
        }
        let fingerprint = FileFingerprint::from_metadata(
            &file.inner().metadata().map_err(StateError::io("look at", path))?,
        );
        Ok(Self {
            disk: disk.clone(),
            // `runs/<run>/journal.jsonl`, unless `in_state` says otherwise.
            root: path.ancestors().nth(3).unwrap_or(path).to_owned(),
            path: path.to_owned(),
            key: key.clone(),
            file,
            copy,
            end,
            fingerprint,
        })
    }

    /// Names the state directory, for a journal that lies elsewhere in it than those of runs.
    #[must_use]
    pub(super) fn in_state(mut self, root: &Path) -> Self {
        root.clone_into(&mut self.root);
        self
    }

    /// Returns how many records there are.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.end.seq
    }

    /// Appends a record; when it is a barrier it is safely on disk afterwards.
    ///
    /// # Errors
    /// It cannot be written; then nothing of it is there.
    pub fn append(
        &mut self,
        time: Timestamp,
        record: &impl JournalRecord,
    ) -> Result<(), StateError> {
        let seq = self.end.seq.saturating_add(1);
        let body = serde_json::to_string(record)
            .map_err(std::io::Error::other)
            .map_err(StateError::io("encode a record of", &self.path))?;
        let fields = body.strip_prefix('{').and_then(|b| b.strip_suffix('}')).unwrap_or_default();
        let object = format!(
            "{{\"seq\":{seq},\"time\":\"{time}\",{fields},\"prev\":\"{}\"}}",
            self.end.code
        );
        let (mut line, code) = signed_line::sign(&self.key, &object);
        line.push('\n');
        self.write(line.as_bytes())?;
        if record.is_barrier() {
            self.file.sync_data().map_err(StateError::io("sync", &self.path))?;
        }
        self.end.seq = seq;
        self.end.code = code;
        self.end.len = self.fingerprint.size;
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> Result<(), StateError> {
        let written = self.file.write_all(line).and_then(|()| self.file.inner().metadata());
        let meta = match written {
            Ok(meta) => meta,
            Err(error) => {
                // A part of the line may be there: a torn tail would be cut anyway, but the next
                // append must not follow it.
                drop(self.file.set_len(self.end.len));
                if let Ok(meta) = self.file.inner().metadata() {
                    self.fingerprint = FileFingerprint::from_metadata(&meta);
                }
                return Err(StateError::io("write", &self.path)(error));
            }
        };
        self.copy.append(&self.disk, &self.path, line)?;
        self.fingerprint = FileFingerprint::from_metadata(&meta);
        Ok(())
    }

    /// Makes sure that the file at the path is the one that was written, and as it was written;
    /// otherwise writes it again. Returns whether it did.
    ///
    /// # Errors
    /// It cannot be written again.
    pub fn restore_if_changed(&mut self) -> Result<bool, StateError> {
        let here =
            fs::symlink_metadata(&self.path).map(|meta| FileFingerprint::from_metadata(&meta));
        if here.is_ok_and(|here| here == self.fingerprint) {
            return Ok(false);
        }
        let content = self.copy.content(&self.path)?;
        if let Some(folder) = self.path.parent() {
            self.disk.restore_dir(&self.root, folder)?;
        }
        self.disk.clear(&self.path, fs::Metadata::is_file)?;
        self.disk.write_private(&self.path, &content)?;
        self.file = self
            .disk
            .open_regular(&self.path, OpenOptions::new().read(true).append(true))
            .map_err(StateError::io("open", &self.path))?;
        let meta = self.file.inner().metadata().map_err(StateError::io("look at", &self.path))?;
        self.fingerprint = FileFingerprint::from_metadata(&meta);
        Ok(true)
    }
}
