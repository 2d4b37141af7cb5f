//! Rollbacks, and what they must not lose.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use ralph_orchestrator_git::{
    Checkpoint, CheckpointName, FilePolicy, GitError, RepoPath, RollbackGuard, RollbackOutcome,
    SkipReason,
};

use crate::fixture::{Fixture, Step, run};

const TO_ONE: CheckpointName = CheckpointName::Iteration(1);

#[test]
fn restores_files_and_leaves_head_branches_index_and_ignored_files() {
    let fixture = Fixture::committed();
    fixture.git(&["config", "core.autocrlf", "true"]);
    fixture.write("crlf.txt", "a\r\nb\r\n");
    fixture.write("gone.sh", "x");
    fs::set_permissions(fixture.path("gone.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("a.txt", fixture.path("link")).unwrap();
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    let before = fixture.user_state();
    fixture.write("crlf.txt", "changed\n");
    fixture.write("deep/er/new.txt", "new");
    fixture.write("ignored/build", "kept");
    fixture.write(".env", "kept");
    fs::remove_file(fixture.path("gone.sh")).unwrap();
    fs::remove_file(fixture.path("link")).unwrap();
    fixture.write("link/file", "a folder now");
    fixture.write("staged.txt", "staged");
    fixture.git(&["add", "staged.txt"]);
    let index = fixture.user_state().index;
    repository.checkpoint(&run(), 2, "m").unwrap();
    let outcome = repository.rollback(&run(), TO_ONE, RollbackGuard::RequireCheckpoint).unwrap();
    let saved = outcome.saved.map(|checkpoint| checkpoint.name);
    assert_eq!((saved, outcome.files.len()), (Some(CheckpointName::Iteration(2)), 6));
    let after = fixture.user_state();
    assert_eq!(after.index, index, "what was staged stays staged");
    assert_eq!((&after.refs, &after.head, &after.logs), (&before.refs, &before.head, &before.logs));
    let mut files = after.files;
    assert_eq!(files.remove(Path::new(".env")).unwrap().1, b"kept");
    assert_eq!(files.remove(Path::new("ignored/build")).unwrap().1, b"kept");
    assert_eq!(files, before.files);
    assert!(!fixture.path("deep").exists());
    // And forwards again.
    let two = CheckpointName::Iteration(2);
    repository.rollback(&run(), two, RollbackGuard::RequireCheckpoint).unwrap();
    assert_eq!(fixture.read("deep/er/new.txt"), b"new");
}

/// Returns what a rollback did not restore, by name.
fn list_not_restored(outcome: &RollbackOutcome) -> Vec<(String, SkipReason)> {
    outcome.not_restored.iter().map(|file| (file.path.to_string(), file.reason)).collect()
}

#[test]
fn leaves_what_the_checkpoint_left_out_as_it_is_and_names_it() {
    let key = "-----BEGIN PRIVATE KEY-----\nx\n";
    let changes: [(&str, Step); 3] = [
        ("changed", |fixture| {
            fixture.write("big.db", "ruined");
            fixture.write("key.txt", "harmless now");
        }),
        ("a folder now", |fixture| {
            for name in ["big.db", "key.txt"] {
                fs::remove_file(fixture.path(name)).unwrap();
            }
            fixture.write("big.db/part", "x");
            fixture.write("key.txt/part", "x");
        }),
        ("unchanged", |_| {}),
    ];
    for (name, change) in changes {
        let fixture = Fixture::committed();
        fixture.write("big.db", "x".repeat(100));
        fixture.write("key.txt", key);
        let repository = fixture.open().with_file_policy(FilePolicy { max_file_bytes: 90 });
        let outcome = repository.checkpoint(&run(), 0, "m").unwrap();
        assert_eq!(outcome.checkpoint.left_out.len(), 2, "{name}");
        change(&fixture);
        fixture.write("new.txt", "x");
        let before = fixture.user_state().files;
        let start = CheckpointName::Iteration(0);
        let outcome = repository.rollback(&run(), start, RollbackGuard::SaveFirst).unwrap();
        let mut after = fixture.user_state().files;
        assert_eq!(
            after.insert("new.txt".into(), before[Path::new("new.txt")].clone()),
            None,
            "{name}"
        );
        assert_eq!(after, before, "{name}");
        assert_eq!(
            list_not_restored(&outcome),
            [
                ("big.db".to_owned(), SkipReason::TooLarge),
                ("key.txt".to_owned(), SkipReason::Secret)
            ],
            "{name}"
        );
        // And forwards again.
        let saved = outcome.saved.unwrap().name;
        repository.rollback(&run(), saved, RollbackGuard::SaveFirst).unwrap();
        assert_eq!(fixture.user_state().files, before, "{name}");
    }
}

#[test]
fn names_repositories_within_and_new_large_files_as_not_restored() {
    let fixture = Fixture::committed();
    fixture.git(&["init", "-q", "nested"]);
    fixture.write("nested/x", "before");
    let repository = fixture.open().with_file_policy(FilePolicy { max_file_bytes: 90 });
    repository.checkpoint(&run(), 0, "m").unwrap();
    fixture.write("nested/x", "after");
    fixture.write("new.db", "x".repeat(100));
    let start = CheckpointName::Iteration(0);
    let names = |outcome: &RollbackOutcome| {
        list_not_restored(outcome).into_iter().map(|(path, _)| path).collect::<Vec<_>>()
    };
    let outcome = repository.rollback(&run(), start, RollbackGuard::SaveFirst).unwrap();
    assert!(outcome.files.is_empty());
    assert_eq!(names(&outcome), ["nested", "new.db"]);
    // Its files are no less the user's when it is no repository any more.
    fs::remove_dir_all(fixture.path("nested/.git")).unwrap();
    let outcome = repository.rollback(&run(), start, RollbackGuard::SaveFirst).unwrap();
    assert_eq!(fixture.read("nested/x"), b"after");
    assert_eq!(names(&outcome), ["nested", "new.db"]);
}

#[test]
fn loses_nothing_that_no_checkpoint_has() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    fixture.write("a.txt", "by hand");
    fixture.write("new.txt", "by hand");
    let before = fixture.user_state();
    let error = repository.rollback(&run(), TO_ONE, RollbackGuard::RequireCheckpoint).unwrap_err();
    assert!(matches!(&error, GitError::Unsaved { others: 1, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "a.txt: its content is in no checkpoint (and 1 more); make a checkpoint first"
    );
    assert_eq!(fixture.user_state(), before);
    let outcome = repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap();
    let saved = outcome.saved.unwrap();
    assert_eq!(saved.name, CheckpointName::BeforeRollback(1));
    assert_eq!(fixture.read("a.txt"), b"one\n");
    assert!(!fixture.path("new.txt").exists());
    // The rollback can be taken back.
    repository.rollback(&run(), saved.name, RollbackGuard::RequireCheckpoint).unwrap();
    assert_eq!(fixture.user_state().files, before.files);
    let again = repository.rollback(&run(), saved.name, RollbackGuard::SaveFirst).unwrap();
    assert!(again.files.is_empty() && again.saved.is_none());
}

#[test]
fn leaves_files_that_are_kept_as_they_are() {
    let fixture = Fixture::committed();
    fixture.write("list.json", "one");
    fixture.write("notes", "a file");
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    fixture.write("a.txt", "two");
    fixture.write("list.json", "two");
    fixture.write("notes.new", "new");
    fs::remove_file(fixture.path("notes")).unwrap();
    fixture.write("notes/deep", "a folder now");
    let is_kept = |path: &RepoPath| !path.as_bytes().starts_with(b"a");
    let guard = RollbackGuard::SaveFirst;
    let outcome = repository.rollback_except(&run(), TO_ONE, guard, &is_kept, &|_| Ok(())).unwrap();
    assert_eq!(outcome.files.len(), 1);
    assert_eq!(fixture.read("a.txt"), b"one\n");
    assert_eq!(fixture.read("list.json"), b"two");
    assert_eq!(fixture.read("notes.new"), b"new");
    assert_eq!(fixture.read("notes/deep"), b"a folder now");
    let again = repository.rollback_except(&run(), TO_ONE, guard, &is_kept, &|_| Ok(())).unwrap();
    assert!(again.files.is_empty(), "{again:?}");
    // A file that is gone stays gone.
    fs::remove_file(fixture.path("list.json")).unwrap();
    fixture.write("a.txt", "three");
    repository.rollback_except(&run(), TO_ONE, guard, &is_kept, &|_| Ok(())).unwrap();
    assert!(!fixture.path("list.json").exists());
}

#[test]
fn accepts_content_that_head_has() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    fixture.write("a.txt", "committed by the agent");
    fixture.git(&["commit", "-qam", "agent"]);
    let head = fixture.git(&["rev-parse", "HEAD"]);
    repository.rollback(&run(), TO_ONE, RollbackGuard::RequireCheckpoint).unwrap();
    assert_eq!(fixture.read("a.txt"), b"one\n");
    assert_eq!(fixture.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn refuses_when_a_file_that_checkpoints_leave_out_is_in_the_way() {
    let fixture = Fixture::committed();
    fixture.write("data.log.txt", "x");
    fixture.write("folder/inner", "x");
    fixture.write("plain", "x");
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    // The same names are ignored, or hold ignored files, now.
    fixture.write(".gitignore", "ignored/\ndata.log.txt\n/folder\nplain/secret\n");
    fixture.write("data.log.txt", "ignored content");
    fs::remove_dir_all(fixture.path("folder")).unwrap();
    fixture.write("folder", "an ignored file");
    fs::remove_file(fixture.path("plain")).unwrap();
    fixture.write("plain/secret", "ignored in a folder");
    repository.checkpoint(&run(), 2, "m").unwrap();
    let before = fixture.user_state();
    for guard in [RollbackGuard::SaveFirst, RollbackGuard::RequireCheckpoint] {
        let error = repository.rollback(&run(), TO_ONE, guard).unwrap_err();
        assert!(
            matches!(&error, GitError::WouldOverwrite { first, others: 2 }
                if first.as_bytes() == b"data.log.txt"),
            "{error}"
        );
        assert_eq!(fixture.user_state(), before);
    }
}

#[test]
fn keeps_permissions_of_files_that_are_written_anew() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    fixture.write("a.txt", "two");
    let path = fixture.path("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fixture.read("a.txt"), b"one\n");
}

#[test]
fn writes_nothing_through_a_link_that_took_a_folders_place() {
    let fixture = Fixture::committed();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("lib.rs"), "another project").unwrap();
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    fs::remove_dir_all(fixture.path("src")).unwrap();
    symlink(&outside, fixture.path("src")).unwrap();
    repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap();
    assert_eq!(fs::read(outside.join("lib.rs")).unwrap(), b"another project");
    assert_eq!(fixture.read("src/lib.rs"), b"fn main() {}\n");
    assert!(!fixture.path("src").is_symlink());
}

#[test]
fn refuses_an_unknown_checkpoint_and_a_rebase_in_progress() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    let error = repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap_err();
    assert!(matches!(error, GitError::NoCheckpoint(_)), "{error}");
    repository.checkpoint(&run(), 1, "m").unwrap();
    fixture.write("a.txt", "two");
    fs::create_dir(fixture.path(".git/rebase-merge")).unwrap();
    let error = repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap_err();
    assert!(matches!(error, GitError::InProgress(_)), "{error}");
    assert_eq!(fixture.read("a.txt"), b"two");
}

/// Files whose names are folders of others' names, and links.
fn arbitrary_files() -> impl Strategy<Value = Vec<(String, u8)>> {
    proptest::collection::vec(("[ab]{1}(/[ab]{1}){0,2}", any::<u8>()), 0..8)
}

/// Writes what can be written; a name that is a folder, or below a file, is left out.
fn write_files(fixture: &Fixture, files: &[(String, u8)]) {
    for folder in ["a", "b"] {
        let path = fixture.path(folder);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            let _ = fs::remove_file(path);
        }
    }
    for (name, content) in files {
        let path = fixture.path(name);
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.is_dir() {
            continue;
        }
        let _ = fs::remove_file(&path);
        if content % 5 == 0 {
            symlink("../nowhere", &path).unwrap();
        } else {
            fs::write(&path, content.to_string()).unwrap();
            let mode = if content % 2 == 0 { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn restores_any_tree_from_any_other_and_back(
        first in arbitrary_files(),
        second in arbitrary_files(),
    ) {
        let fixture = Fixture::new();
        let repository = fixture.open();
        write_files(&fixture, &first);
        repository.checkpoint(&run(), 1, "m").unwrap();
        let one = fixture.user_state();
        write_files(&fixture, &second);
        let two = fixture.user_state();
        let outcome = repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap();
        prop_assert_eq!(fixture.user_state(), one);
        if let Some(saved) = outcome.saved {
            let guard = RollbackGuard::RequireCheckpoint;
            repository.rollback(&run(), saved.name, guard).unwrap();
            prop_assert_eq!(fixture.user_state(), two);
        }
    }
}

#[test]
fn a_file_that_was_written_again_with_the_same_content_is_no_obstacle() {
    let fixture = Fixture::committed();
    fixture.write("other", "1");
    let repository = fixture.open();
    repository.checkpoint(&run(), 1, "m").unwrap();
    fixture.write("a.txt", "two");
    fixture.write("other", "2");
    repository.checkpoint(&run(), 2, "m").unwrap();
    // Another inode, other times, other permissions.
    fs::remove_file(fixture.path("a.txt")).unwrap();
    fixture.write("a.txt", "two");
    fs::set_permissions(fixture.path("a.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let file = fs::OpenOptions::new().write(true).open(fixture.path("other")).unwrap();
    file.set_modified(long_ago).unwrap();
    repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap();
    assert_eq!(fixture.read("a.txt"), b"one\n");
    assert_eq!(fixture.read("other"), b"1");
}

/// A repository whose first checkpoint is recorded, and what an agent may do to it then.
fn recorded() -> (Fixture, String) {
    let fixture = Fixture::committed();
    let stored = fixture.open().checkpoint(&run(), 1, "m").unwrap();
    fixture.write("a.txt", "two");
    fixture.write("src/lib.rs", "evil");
    (fixture, stored.checkpoint.commit.to_string())
}

#[test]
fn a_checkpoint_is_what_was_recorded_whatever_its_ref_says() {
    let (fixture, commit) = recorded();
    let repository = fixture.open().with_recorded_checkpoints([(TO_ONE, commit)]);
    assert!(repository.list_moved_refs(&run()).unwrap().is_empty());
    fixture.git(&["commit", "-qam", "evil"]);
    fixture.git(&["update-ref", "refs/ralph/0198-run/1", "HEAD"]);
    fixture.git(&["update-ref", "refs/ralph/0198-run/rollback/7", "HEAD"]);
    let head = fixture.git(&["rev-parse", "HEAD"]);
    let moved = repository.list_moved_refs(&run()).unwrap();
    let [(name, Some(now))] = moved.as_slice() else { panic!("{moved:?}") };
    assert_eq!((name.as_str(), now.as_str()), ("refs/ralph/0198-run/1", head.as_str()));
    let listed = repository.list_checkpoints(&run()).unwrap();
    assert_eq!(listed.len(), 1, "what nobody recorded is none");
    assert_eq!(listed[0].subject, "m");
    let outcome = repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap();
    assert_eq!(fixture.read("a.txt"), b"one\n");
    assert_eq!(outcome.saved.unwrap().name, CheckpointName::BeforeRollback(8));
    fixture.git(&["update-ref", "-d", "refs/ralph/0198-run/1"]);
    assert_eq!(repository.list_moved_refs(&run()).unwrap()[0].1, None);
    repository.find_checkpoint(&run(), TO_ONE).unwrap();
}

#[test]
fn an_object_that_was_replaced_in_the_store_restores_nothing() {
    let place = |fixture: &Fixture, id: &str| {
        fixture.path(&format!(".git/objects/{}/{}", id.get(..2).unwrap(), id.get(2..).unwrap()))
    };
    let (fixture, commit) = recorded();
    let repository = fixture.open().with_recorded_checkpoints([(TO_ONE, commit.clone())]);
    fixture.git(&["commit", "-qam", "evil"]);
    for object in ["", "^{tree}", ":src", ":src/lib.rs"] {
        let [good, evil] =
            [&*commit, "HEAD"].map(|from| fixture.git(&["rev-parse", &format!("{from}{object}")]));
        let (good, evil) = (place(&fixture, &good), place(&fixture, &evil));
        let kept = fs::read(&good).unwrap();
        fs::set_permissions(&good, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&good, fs::read(&evil).unwrap()).unwrap();
        let error = repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap_err();
        assert!(matches!(error, GitError::ForgedObjects { .. }), "{object:?}: {error}");
        assert_eq!(fixture.read("src/lib.rs"), b"evil", "{object:?}");
        fs::write(&good, kept).unwrap();
    }
    repository.rollback(&run(), TO_ONE, RollbackGuard::SaveFirst).unwrap();
    assert_eq!(fixture.read("src/lib.rs"), b"fn main() {}\n");
}

#[test]
fn no_file_is_changed_before_the_beginning_is_recorded() {
    let (fixture, commit) = recorded();
    let repository = fixture.open().with_recorded_checkpoints([(TO_ONE, commit)]);
    let refuse = |_: Option<&Checkpoint>| Err(std::io::Error::other("full"));
    let guard = RollbackGuard::SaveFirst;
    let error = repository.rollback_except(&run(), TO_ONE, guard, &|_| false, &refuse);
    assert!(error.unwrap_err().to_string().ends_with("full"));
    assert_eq!(fixture.read("a.txt"), b"two");
}
