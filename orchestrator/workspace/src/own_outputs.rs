//! Files in the workspace that this program itself writes to, because somebody has redirected its output there.

use std::fs;
use std::io::{stderr, stdout};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::FileFingerprint;
use rustix::fs::FileType;

use super::file_id::FileId;

/// Returns the files beneath the workspace that are this process's standard output or standard error, such as that of
/// `run > run.log`. They grow while nobody works: counted as work, each iteration would have changed something.
#[must_use]
pub fn own_outputs(workspace: &Path) -> Vec<PathBuf> {
    let (stdout, stderr) = (stdout(), stderr());
    let mut found: Vec<PathBuf> = [stdout.as_fd(), stderr.as_fd()]
        .into_iter()
        .filter_map(|output| file_beneath(workspace, output))
        .collect();
    found.dedup();
    found
}

/// Returns the path of an open regular file, if it lies beneath the workspace.
fn file_beneath(workspace: &Path, file: BorrowedFd<'_>) -> Option<PathBuf> {
    let open = FileFingerprint::from_fd(file).ok()?;
    if open.file_type() != FileType::RegularFile {
        return None;
    }
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let inside = path.strip_prefix(workspace.canonicalize().ok()?).ok()?;
    // One that was removed or renamed since has no name here, or is another file by now.
    let named = FileFingerprint::from_path(&path).ok()?;
    let is_same = FileId::from_fingerprint(&named) == FileId::from_fingerprint(&open);
    is_same.then(|| workspace.join(inside))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_is_found_by_its_name_as_long_as_it_has_one_in_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("w");
        fs::create_dir(&workspace).unwrap();
        let path = workspace.join("run.log");
        let log = File::create(&path).unwrap();
        assert_eq!(file_beneath(&workspace, log.as_fd()), Some(path.clone()));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&workspace, &link).unwrap();
        assert_eq!(file_beneath(&link, log.as_fd()), Some(link.join("run.log")));
        assert_eq!(file_beneath(&workspace.join("other"), log.as_fd()), None);
        let outside = File::create(dir.path().join("outside.log")).unwrap();
        assert_eq!(file_beneath(&workspace, outside.as_fd()), None);
        let folder = File::open(&workspace).unwrap();
        assert_eq!(file_beneath(dir.path(), folder.as_fd()), None, "no regular file");
        fs::remove_file(&path).unwrap();
        assert_eq!(file_beneath(&workspace, log.as_fd()), None);
        fs::write(&path, "another file").unwrap();
        assert_eq!(file_beneath(&workspace, log.as_fd()), None);
    }
}
