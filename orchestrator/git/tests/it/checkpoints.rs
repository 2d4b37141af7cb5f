//! Checkpoints and what differs between them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ralph_orchestrator_git::{
    CheckpointName, DiffEnd, FilePolicy, FileStatus, GitError, RunRef, SkipReason,
};

use crate::fixture::{Fixture, bytes, run};

fn list_tree(fixture: &Fixture, commit: &str) -> Vec<String> {
    let names = fixture.git(&["-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", commit]);
    names.lines().map(str::to_owned).collect()
}

#[test]
fn stores_the_workspace_and_changes_nothing_of_the_users() {
    let fixture = Fixture::committed();
    fixture.write("a.txt", "stashed\n");
    fixture.git(&["stash", "-q"]);
    fixture.write("staged.txt", "staged\n");
    fixture.git(&["add", "staged.txt"]);
    fixture.write("a.txt", "two\n");
    fixture.write("new.txt", "new\n");
    fixture.write("ignored/build", "x");
    fixture.write(".env", "TOKEN=1");
    let (before, objects) = (fixture.user_state(), fixture.list_objects());
    let outcome = fixture.open().checkpoint(&run(), 1, "After iteration 1\n\nWhy.\n").unwrap();
    assert!(outcome.is_new);
    assert_eq!(fixture.user_state(), before);
    assert!(fixture.list_objects().is_superset(&objects));
    // Two files, the tree and the commit are new.
    assert_eq!(fixture.list_objects().len(), objects.len() + 4);
    assert_eq!(
        list_tree(&fixture, "refs/ralph/0198-run/1"),
        [".gitignore", "a.txt", "new.txt", "src/lib.rs", "staged.txt"]
    );
    assert_eq!(fixture.git(&["show", "refs/ralph/0198-run/1:a.txt"]), "two");
    assert_eq!(
        fixture.git(&["log", "-1", "--format=%an <%ae>|%B", "refs/ralph/0198-run/1"]),
        "Ada User <ada@example.org>|After iteration 1\n\nWhy.\n\nLeft out:\nsecret .env"
    );
    let skipped: Vec<_> =
        outcome.skipped.iter().map(|file| (file.path.to_string(), file.reason)).collect();
    assert_eq!(skipped, [(".env".to_owned(), SkipReason::Secret)]);
    assert!(fixture.git(&["fsck", "--strict"]).is_empty());
}

#[test]
fn a_lock_that_a_killed_git_left_does_not_hold_up_a_checkpoint() {
    let fixture = Fixture::committed();
    let lock = fixture.path(".git/refs/ralph/0198-run/1.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    assert!(fixture.open().checkpoint(&run(), 1, "one").unwrap().is_new);
    assert!(!lock.exists());
}

#[test]
fn returns_an_existing_checkpoint_and_adds_to_it_when_files_changed() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    let first = repository.checkpoint(&run(), 3, "m").unwrap();
    let again = repository.checkpoint(&run(), 3, "another message").unwrap();
    assert_eq!((again.is_new, &again.checkpoint), (false, &first.checkpoint));
    fixture.write("a.txt", "changed");
    let changed = repository.checkpoint(&run(), 3, "m2").unwrap();
    assert!(changed.is_new);
    let parent = fixture.git(&["rev-parse", "refs/ralph/0198-run/3^1"]);
    assert_eq!(parent, first.checkpoint.commit.as_str());
}

#[test]
fn lists_checkpoints_in_order_with_their_parents() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    for iteration in [2, 10, 9] {
        fixture.write("a.txt", format!("{iteration}"));
        repository.checkpoint(&run(), iteration, "m").unwrap();
    }
    fixture.git(&["update-ref", "refs/ralph/0198-run/tag", "HEAD"]);
    fixture.git(&["update-ref", "refs/ralph/0198-run/007", "HEAD"]);
    fixture.git(&["update-ref", "refs/ralph/0198-run2/1", "HEAD"]);
    let names: Vec<_> =
        repository.list_checkpoints(&run()).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [2, 9, 10].map(CheckpointName::Iteration));
    let two = fixture.git(&["rev-parse", "refs/ralph/0198-run/2"]);
    assert_eq!(fixture.git(&["rev-parse", "refs/ralph/0198-run/9^1"]), two);
    let head = fixture.git(&["rev-parse", "HEAD"]);
    assert_eq!(fixture.git(&["rev-parse", "refs/ralph/0198-run/9^2"]), head);
    let missing = repository.find_checkpoint(&run(), CheckpointName::Iteration(4)).unwrap_err();
    assert!(matches!(missing, GitError::NoCheckpoint(_)), "{missing}");
}

#[test]
fn stores_names_of_any_bytes_links_modes_and_line_ends_as_they_are() {
    let fixture = Fixture::committed();
    fixture.git(&["config", "core.autocrlf", "true"]);
    fixture.write(".gitattributes", "*.txt text eol=lf\n*.id ident\n");
    fixture.write("crlf.txt", "one\r\ntwo\r\n");
    fixture.write("x.id", "$Id$\n");
    fixture.write(bytes(b"new\nline\t\"quoted\" \xff"), "odd");
    fixture.write("-rf", "dash");
    fixture.write(":(top)magic", "magic");
    fixture.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(fixture.path("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/etc/passwd", fixture.path("link")).unwrap();
    symlink("/etc", fixture.path("folder-link")).unwrap();
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    let show = |name: &str| fixture.try_git(&["cat-file", "blob", name]).stdout;
    assert_eq!(show("refs/ralph/0198-run/1:crlf.txt"), b"one\r\ntwo\r\n");
    assert_eq!(show("refs/ralph/0198-run/1:x.id"), b"$Id$\n");
    assert_eq!(show("refs/ralph/0198-run/1:folder-link"), b"/etc");
    let tree = fixture.git(&["ls-tree", "refs/ralph/0198-run/1", "--", "run.sh", "link", "-rf"]);
    assert!(tree.contains("100755 blob") && tree.contains("120000 blob"), "{tree}");
    assert_eq!(list_tree(&fixture, "refs/ralph/0198-run/1").len(), 12);
}

#[test]
fn notices_a_case_only_rename_a_file_that_becomes_a_folder_and_the_reverse() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    let first = repository.checkpoint(&run(), 1, "m").unwrap().checkpoint;
    fs::rename(fixture.path("a.txt"), fixture.path("A.txt")).unwrap();
    fs::remove_dir_all(fixture.path("src")).unwrap();
    fixture.write("src", "a file now");
    let second = repository.checkpoint(&run(), 2, "m").unwrap().checkpoint;
    assert_eq!(list_tree(&fixture, second.commit.as_str()), [".gitignore", "A.txt", "src"]);
    fs::remove_file(fixture.path("src")).unwrap();
    fs::create_dir(fixture.path("src")).unwrap();
    fixture.write("src/lib.rs", "fn main() {}\n");
    fs::rename(fixture.path("A.txt"), fixture.path("a.txt")).unwrap();
    let third = repository.checkpoint(&run(), 3, "m").unwrap().checkpoint;
    assert_eq!(third.tree, first.tree);
}

#[test]
fn leaves_out_what_is_behind_a_folder_replaced_by_a_link() {
    let fixture = Fixture::committed();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("lib.rs"), "the user's other file").unwrap();
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    fs::remove_dir_all(fixture.path("src")).unwrap();
    symlink(&outside, fixture.path("src")).unwrap();
    repository.checkpoint(&run(), 2, "m").unwrap();
    let tree = fixture.git(&["ls-tree", "-r", "refs/ralph/0198-run/2", "src"]);
    assert!(tree.starts_with("120000"), "{tree}");
}

#[test]
fn leaves_out_secrets_large_special_and_unreadable_things_and_says_so() {
    let fixture = Fixture::committed();
    fixture.write("large.bin", vec![0; 2000]);
    fixture.write("notes.txt", "-----BEGIN RSA PRIVATE KEY-----\nabc\n");
    fixture.write("deploy.pem", "x");
    fixture.write("id_rsa", "x");
    fixture.write("config/credentials.json", "{}");
    let fifo = std::process::Command::new("mkfifo").arg(fixture.path("pipe")).status().unwrap();
    assert!(fifo.success());
    fixture.git(&["add", "-f", "notes.txt"]);
    // A tracked file that became a pipe must not be waited for.
    fs::remove_file(fixture.path("a.txt")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(fixture.path("a.txt")).status().unwrap();
    assert!(fifo.success());
    let repository = fixture.open().with_file_policy(FilePolicy { max_file_bytes: 1999 });
    let outcome = repository.checkpoint(&run(), 1, "m").unwrap();
    let skipped: Vec<_> =
        outcome.skipped.iter().map(|file| (file.path.to_string(), file.reason)).collect();
    assert_eq!(
        skipped,
        [
            ("a.txt", SkipReason::Special),
            ("config/credentials.json", SkipReason::Secret),
            ("deploy.pem", SkipReason::Secret),
            ("id_rsa", SkipReason::Secret),
            ("large.bin", SkipReason::TooLarge),
            ("notes.txt", SkipReason::Secret),
        ]
        .map(|(path, reason)| (path.to_owned(), reason))
    );
    assert_eq!(list_tree(&fixture, "refs/ralph/0198-run/1"), [".gitignore", "src/lib.rs"]);
    // What is found secret later leaves the next checkpoint.
    fixture.write("src/lib.rs", "// ghp_0123456789abcdefghijABCDEFGHIJ012345\n");
    repository.checkpoint(&run(), 2, "m").unwrap();
    assert_eq!(list_tree(&fixture, "refs/ralph/0198-run/2"), [".gitignore"]);
}

#[test]
fn stores_only_the_workspace_of_a_larger_repository() {
    let mut fixture = Fixture::committed();
    fixture.write("packages/one/x", "1");
    fixture.write("packages/two/y", "2");
    fixture.workspace = fixture.path("packages/one");
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    assert_eq!(
        fixture.git(&["ls-tree", "-r", "--full-tree", "--name-only", "refs/ralph/0198-run/1"]),
        "x"
    );
}

#[test]
fn rebuilds_a_damaged_private_index_and_removes_a_stale_lock() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    let first = repository.checkpoint(&run(), 1, "m").unwrap();
    fs::write(fixture.private().join("git/index"), b"\0garbage").unwrap();
    fs::write(fixture.private().join("git/index.lock"), b"").unwrap();
    let second = repository.checkpoint(&run(), 2, "m").unwrap();
    assert_eq!(second.checkpoint.tree, first.checkpoint.tree);
}

#[test]
fn rejects_ids_that_would_leave_the_namespace() {
    for run in ["", "a/b", "..", "a.lock", "x y", "-\n", &"x".repeat(65)] {
        assert!(matches!(RunRef::new(run), Err(GitError::InvalidRun(_))), "{run:?}");
    }
}

#[test]
fn compares_trees_with_counts_and_a_bounded_patch() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    let first = repository.checkpoint(&run(), 1, "m").unwrap().checkpoint;
    fixture.write("a.txt", "one\ntwo\nthree\n");
    fs::remove_file(fixture.path("src/lib.rs")).unwrap();
    fixture.write(bytes(b"n\n\xff"), "x\n");
    fixture.write("binary", b"\0\x01");
    let from = DiffEnd::Tree(first.commit);
    let diff = repository.diff(&from, &DiffEnd::Workspace, 1_000_000).unwrap();
    let files: Vec<_> = diff
        .files
        .iter()
        .map(|file| (file.path.to_string(), file.status, file.added, file.removed))
        .collect();
    assert_eq!(
        files,
        [
            ("a.txt".to_owned(), FileStatus::Modified, Some(2), Some(0)),
            ("binary".to_owned(), FileStatus::Added, None, None),
            ("n\\x0a\\xff".to_owned(), FileStatus::Added, Some(1), Some(0)),
            ("src/lib.rs".to_owned(), FileStatus::Deleted, Some(0), Some(1)),
        ]
    );
    let patch = String::from_utf8_lossy(&diff.patch);
    assert!(patch.contains("+three") && !diff.is_patch_truncated);
    let bounded = repository.diff(&from, &DiffEnd::Workspace, 50).unwrap();
    assert_eq!((bounded.patch.len(), bounded.is_patch_truncated), (50, true));
    let all = repository.diff(&DiffEnd::Empty, &from, 0).unwrap();
    assert_eq!(all.files.len(), 3);
    assert!(repository.diff(&from, &from, 100).unwrap().files.is_empty());
}

#[test]
fn leaves_out_a_file_above_the_default_limit_without_reading_it() {
    let fixture = Fixture::committed();
    let limit = FilePolicy::default().max_file_bytes;
    fs::File::create(fixture.path("image.iso")).unwrap().set_len(limit + 1).unwrap();
    let outcome = fixture.open().checkpoint(&run(), 1, "m").unwrap();
    let [skipped] = &outcome.skipped[..] else { panic!("{:?}", outcome.skipped) };
    assert_eq!(
        (skipped.path.as_bytes(), skipped.reason),
        (&b"image.iso"[..], SkipReason::TooLarge)
    );
}
