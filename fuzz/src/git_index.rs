//! Git's index as it lies in a workspace: it can add to what counts, and never takes away.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_workspace::TreeHasher;

use crate::folder;

const ALWAYS: [&str; 3] = [".gitignore", "dir/file", "tracked"];
const IGNORED: [&str; 2] = ["dir/ignored.log", "ignored.log"];

/// Takes the bytes for `.git/index`.
pub fn check(data: &[u8]) {
    folder::with(|folder| inside(&folder.join("workspace"), data));
}

fn inside(workspace: &Path, data: &[u8]) {
    if !workspace.exists() {
        fs::create_dir_all(workspace.join(".git/info")).unwrap();
        fs::create_dir(workspace.join("dir")).unwrap();
        fs::write(workspace.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        for name in ALWAYS.iter().chain(&IGNORED) {
            fs::write(workspace.join(name), "*.log\n").unwrap();
        }
    }
    fs::write(workspace.join(".git/index"), data).unwrap();
    let mut hasher = TreeHasher::new(workspace.to_owned(), Vec::new());
    let paths = hasher.snapshot().unwrap().paths().map(Path::to_owned).collect::<Vec<_>>();
    for name in ALWAYS {
        assert!(paths.contains(&PathBuf::from(name)), "{name} does not count");
    }
    for path in &paths {
        let known = ALWAYS.iter().chain(&IGNORED).any(|name| Path::new(name) == path);
        assert!(known, "{} is not there", path.display());
    }
    let first = hasher.digest().unwrap();
    assert_eq!(first.files, u64::try_from(paths.len()).unwrap());
    assert!(first.stable && first.unreadable.is_empty());
    let other = TreeHasher::new(workspace.to_owned(), Vec::new()).digest().unwrap();
    assert_eq!(other.digest, first.digest);
    if paths.len() > ALWAYS.len() {
        assert!(first.notes.is_empty(), "an index is believed and not: {:?}", first.notes);
    }
}
