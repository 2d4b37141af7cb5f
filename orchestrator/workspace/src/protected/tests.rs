use std::fs;
use std::sync::Arc;

use ralph_orchestrator_safe_fs::FileFingerprint;

use super::walker::ProtectedHasher;
use super::*;

#[test]
fn what_was_read_is_read_again_only_when_it_was_touched() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let globs = ["*".to_owned()];
    fs::write(root.join("a"), "one").unwrap();
    fs::write(root.join("b"), "one").unwrap();
    let modified = fs::metadata(root.join("a")).unwrap().modified().unwrap();
    let mut hasher = ProtectedHasher::default();
    // As if all of it had been left alone for long.
    hasher.hasher.local_margin = i128::MIN / 4;
    let mut look = |reads| {
        let now = hasher.observe(&root, &globs, Arc::default()).unwrap();
        assert_eq!(hasher.files_read(), reads);
        now
    };
    let before = look(2);
    assert_eq!(look(0), before);
    // The clock of the file system has to move on for the fingerprint to differ.
    let ctime = |path: &Path| FileFingerprint::from_path(path).unwrap().ctime;
    let was = ctime(&root.join("a"));
    while ctime(&root.join("a")) == was {
        fs::write(root.join("a"), "two").unwrap();
    }
    fs::File::options().write(true).open(root.join("a")).unwrap().set_modified(modified).unwrap();
    let changes = before.changes(&look(1), &globs).unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    // What is executable counts, and is no content.
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(root.join("b"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(before.changes(&look(1), &globs).unwrap().len(), 2);
    fs::remove_file(root.join("b")).unwrap();
    assert_eq!(before.changes(&look(0), &globs).unwrap().len(), 2);
}
