//! Where a recording of an agent's output is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Returns the file beside a recording that says how its program ended.
pub(super) fn end_file(recording: &Path) -> PathBuf {
    let mut name = OsString::from(recording);
    name.push(".end.json");
    name.into()
}
