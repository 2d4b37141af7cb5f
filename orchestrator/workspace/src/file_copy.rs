//! Copies single files of a workspace into another folder.

use std::io;
use std::path::Path;

use ralph_orchestrator_safe_fs::{ReadError, SymlinkPolicy, read_file, replace_file};

/// The largest file that is copied, in bytes.
const LARGEST: usize = 256 * 1024 * 1024;

/// Copies a file beneath `base`, unless the same is there already. Returns whether it was copied; a file that
/// does not exist is not. No link beneath `base` is followed.
///
/// # Errors
/// It cannot be read or written.
pub fn copy_if_other(from: &Path, to: &Path, base: &Path) -> io::Result<bool> {
    let bytes = match read_file(from, LARGEST, SymlinkPolicy::Follow) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(false),
        Err(error) => return Err(other(&error)),
    };
    if read_file(to, LARGEST, SymlinkPolicy::Refuse).is_ok_and(|there| there == bytes) {
        return Ok(false);
    }
    replace_file(to, &bytes, base)?;
    Ok(true)
}

/// Returns whether two files can be read and have the same content. A link in the place of the second is none.
#[must_use]
pub fn is_same_content(one: &Path, other: &Path) -> bool {
    let one = read_file(one, LARGEST, SymlinkPolicy::Follow);
    let other = read_file(other, LARGEST, SymlinkPolicy::Refuse);
    matches!((one, other), (Ok(one), Ok(other)) if one == other)
}

fn other(error: &ReadError) -> io::Error {
    io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_what_is_other_is_copied_and_no_link_leads_out() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (base, outside) = (root.join("base"), root.join("outside"));
        fs::create_dir(&base).unwrap();
        fs::create_dir(&outside).unwrap();
        let from = root.join("PROMPT.md");
        let to = base.join("docs/PROMPT.md");
        assert!(!copy_if_other(&from, &to, &base).unwrap() && !is_same_content(&from, &to));
        fs::write(&from, "new").unwrap();
        symlink(&outside, base.join("docs")).unwrap();
        assert!(copy_if_other(&from, &to, &base).unwrap());
        assert!(!copy_if_other(&from, &to, &base).unwrap());
        assert!(is_same_content(&from, &to));
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        fs::remove_file(&to).unwrap();
        symlink(&from, &to).unwrap();
        assert!(copy_if_other(&from, &to, &base).unwrap());
        assert!(!to.is_symlink());
    }
}
