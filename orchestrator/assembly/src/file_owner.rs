//! Who owns a file that names programs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Whether it belongs to this user, to the administrator, or to whoever owns the current folder. One that
/// cannot be asked about says why when it is read.
pub(crate) fn is_trusted(file: &Path, here: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).map(|found| found.uid()).ok();
    let Some(uid) = owner(file) else { return true };
    uid == 0 || uid == rustix::process::geteuid().as_raw() || owner(here) == Some(uid)
}
