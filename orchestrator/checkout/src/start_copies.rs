//! What counted when the run began, in one file: to make thousands of files takes longer than people wait for a start.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{self as safe_fs, escape, path_bytes, unescape};
use serde::{Deserialize, Serialize};

use crate::inventory::{Inventory, Stamp};
use crate::work_content::{MAX_BYTES, WorkContent};

/// In the storage: the file.
const START: &str = "start";
/// If there is more that counts, nothing is kept of it.
const MOST_FILES: usize = 2_000;
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// Stands before the bytes of each file, on a line of its own.
#[derive(Serialize, Deserialize)]
struct Entry {
    path: String,
    kind: EntryKind,
    size: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EntryKind {
    File,
    Executable,
    Link,
}

/// Copies what counts and is still as `files` has it, and returns the digest of the file; `None` where there is too much.
pub(crate) fn write(
    storage: &Path,
    (workspace, files): (&Path, &Inventory),
    is_work: &dyn Fn(&Path) -> bool,
    has_secret: &dyn Fn(&[u8]) -> bool,
) -> io::Result<Option<String>> {
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    let counts = |(path, stamp): &(&PathBuf, &Stamp)| {
        !stamp.is_folder() && stamp.size() <= limit && is_work(path)
    };
    let kept: Vec<_> = files.entries.iter().filter(counts).collect();
    let bytes: u64 = kept.iter().map(|(_, stamp)| stamp.size()).sum();
    if kept.len() > MOST_FILES || bytes > MOST_BYTES {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let mut file = BufWriter::new(File::create(storage.join(START))?);
    let mut add = |part: &[u8]| {
        hasher.update(part);
        file.write_all(part)
    };
    for (path, stamp) in kept {
        let found = stamp.read_unchanged(&workspace.join(path), WorkContent::read);
        // What cannot be read is not known later.
        let is_secret =
            |content: &WorkContent| has_secret(content.bytes()) || has_secret(path_bytes(path));
        let Some(content) = found.filter(|content| !is_secret(content)) else { continue };
        let kind = match &content {
            WorkContent::File { is_executable: false, .. } => EntryKind::File,
            WorkContent::File { is_executable: true, .. } => EntryKind::Executable,
            WorkContent::Link { .. } => EntryKind::Link,
        };
        let entry = Entry { path: escape(path), kind, size: content.bytes().len() };
        add(&serde_json::to_vec(&entry)?)?;
        add(b"\n")?;
        add(content.bytes())?;
    }
    file.flush()?;
    Ok(Some(hasher.finalize().to_hex().to_string()))
}

/// Returns what was copied, by path relative to the workspace; nothing if the file is not the one of this digest.
pub(crate) fn read(storage: &Path, digest: &str) -> BTreeMap<PathBuf, WorkContent> {
    let parts = || {
        let file = safe_fs::open_no_symlinks(&storage.join(START), safe_fs::read_flags()).ok()?;
        let (mut parts, mut file) = (BTreeMap::new(), BufReader::new(Hashed::new(file.into())));
        while let Some((path, content)) = read_entry(&mut file).ok()? {
            parts.insert(path, content);
        }
        let found = file.into_inner().hasher.finalize();
        (found.to_hex().as_str() == digest).then_some(parts)
    };
    parts().unwrap_or_default()
}

fn read_entry(file: &mut BufReader<Hashed>) -> io::Result<Option<(PathBuf, WorkContent)>> {
    let mut line = Vec::new();
    if file.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let Entry { path, kind, size } = serde_json::from_slice(&line)?;
    let path = unescape(&path).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = Vec::new();
    Read::take(file, u64::try_from(size).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    let bytes = bytes.into();
    Ok(Some((
        path,
        match kind {
            EntryKind::Link => WorkContent::Link { target: bytes },
            EntryKind::File | EntryKind::Executable => {
                WorkContent::File { bytes, is_executable: kind == EntryKind::Executable }
            }
        },
    )))
}

/// A file, with the digest of what was read of it.
struct Hashed {
    file: File,
    hasher: blake3::Hasher,
}

impl Hashed {
    fn new(file: File) -> Self {
        Self { file, hasher: blake3::Hasher::new() }
    }
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
