//! Files of a job that are read and written whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file, replace_file};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::JobError;

/// Larger than any plan, record or ledger of a million trials.
const MAX_FILE: usize = 1 << 30;
/// The characters at the end of a UUID that are an id: random.
const ID_PART: usize = 12;

/// Returns a short id that nothing else has.
pub(super) fn new_id() -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    id.chars().skip(id.len().saturating_sub(ID_PART)).collect()
}

pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, JobError> {
    match read_file(path, MAX_FILE, SymlinkPolicy::Follow) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(JobError::io("read", path)(io::Error::other(error.to_string()))),
    }
}

pub(super) fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, JobError> {
    serde_json::from_slice(bytes)
        .map_err(|error| JobError::Damaged { path: path.to_owned(), message: error.to_string() })
}

pub(super) fn write_json(path: &Path, value: &impl Serialize, base: &Path) -> Result<(), JobError> {
    let bytes = to_json(path, value)?;
    replace_file(path, &bytes, base).map_err(|error| JobError::io("write", path)(error.into()))
}

/// Makes a file that appears whole, unless there is one. Returns whether it was made. `worker` is part of the name that it has
/// until then.
pub(super) fn create_json(
    path: &Path,
    value: &impl Serialize,
    worker: &str,
) -> Result<bool, JobError> {
    let bytes = to_json(path, value)?;
    let temporary = temporary(path, worker);
    let made = write_synced(&temporary, &bytes).and_then(|()| link(&temporary, path));
    let removed = fs::remove_file(&temporary);
    let is_made = made.map_err(JobError::io("write", path))?;
    removed.map_err(JobError::io("remove", &temporary))?;
    Ok(is_made)
}

/// Links a file to a second name, unless there is one of that name. Returns whether it was linked.
fn link(file: &Path, name: &Path) -> io::Result<bool> {
    match fs::hard_link(file, name) {
        Ok(()) => Ok(true),
        // The answer to a request that a server has carried out may be lost, and that to its repetition is this.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(fs::metadata(file)?.nlink() > 1)
        }
        Err(error) => Err(error),
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

fn temporary(path: &Path, worker: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{worker}.tmp"));
    path.with_file_name(name)
}

fn to_json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, JobError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| JobError::io("write", path)(io::Error::other(error)))?;
    bytes.push(b'\n');
    Ok(bytes)
}
