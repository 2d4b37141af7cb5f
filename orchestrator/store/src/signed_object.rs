//! A JSON object in a file of its own, signed like a line of a journal.

use std::path::Path;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::error::StateError;
use crate::key::Key;
use crate::signed_line;

/// A JSON object that no search finds anything in, in base64.
#[derive(Serialize, Deserialize)]
pub(crate) struct SealedObject {
    pub(crate) sealed: String,
}

/// Reads a JSON object that a run stores at this path; `None` if there is none.
///
/// # Errors
/// It cannot be read, or was changed from outside.
pub fn read_signed_object(
    disk: &Disk,
    key: &Key,
    path: &Path,
) -> Result<Option<String>, StateError> {
    let Some(bytes) = disk.read_if_exists(path, usize::MAX)? else { return Ok(None) };
    let broken = || StateError::damaged(path, "was changed from outside");
    let text = String::from_utf8(bytes).map_err(|_| broken())?;
    let line = text.strip_suffix('\n').ok_or_else(broken)?;
    signed_line::verify(key, line).ok_or_else(broken)?;
    let Ok(SealedObject { sealed }) = serde_json::from_str(line) else {
        return Ok(Some(line.to_owned()));
    };
    let sealed = BASE64.decode(sealed.as_bytes()).map_err(|_| broken())?;
    let object = key.unseal(&sealed).ok_or_else(broken)?;
    Ok(Some(String::from_utf8(object.into_owned()).map_err(|_| broken())?))
}
