//! Merges: made as objects, and followed by branches and worktrees only when asked to.

use std::fs;

use ralph_orchestrator_git::{MergeRequest, ObjectId, RepoPath, WorktreeRequest};

use crate::fixture::Fixture;

fn path(name: &str) -> RepoPath {
    RepoPath::from_bytes(name)
}

fn commit(fixture: &Fixture, branch: &str) -> ObjectId {
    fixture.begin(1).find_branch_commit(branch).unwrap().unwrap()
}

/// Two branches from one commit, each with these files of its own.
fn diverged(ours: &[(&str, &str)], theirs: &[(&str, &str)]) -> (Fixture, ObjectId, ObjectId) {
    let fixture = Fixture::committed();
    fixture.write("list", "a\nb\nc\n");
    fixture.write("notes", "begin\n");
    fixture.git(&["add", "."]);
    fixture.git(&["commit", "-qm", "base"]);
    for (branch, files) in [("ours", ours), ("theirs", theirs)] {
        fixture.git(&["checkout", "-qb", branch, "main"]);
        files.iter().for_each(|(name, content)| fixture.write(name, content));
        fixture.git(&["add", "-A"]);
        fixture.git(&["commit", "-qm", branch]);
    }
    fixture.git(&["checkout", "-q", "main"]);
    let [one, other] = ["ours", "theirs"].map(|branch| commit(&fixture, branch));
    (fixture, one, other)
}

fn request(ours: &ObjectId, theirs: &ObjectId) -> MergeRequest {
    MergeRequest {
        ours: ours.clone(),
        theirs: theirs.clone(),
        kept: vec![path("list")],
        united: vec![path("notes")],
        message: "Merge\n".to_owned(),
    }
}

#[test]
fn a_merge_is_an_object_that_keeps_one_file_and_unites_another() {
    let (fixture, ours, theirs) = diverged(
        &[("list", "a\nours\nc\n"), ("notes", "begin\nours\n"), ("x", "1")],
        &[("list", "a\ntheirs\nc\n"), ("notes", "begin\ntheirs\n"), ("y", "2")],
    );
    let repository = fixture.begin(1);
    let before = fixture.user_state();
    let built = repository.build_merge(&request(&ours, &theirs)).unwrap();
    assert_eq!(fixture.user_state(), before, "no ref, index or file was written");
    assert!(built.conflicts.is_empty(), "{:?}", built.conflicts);
    let show = |file: &str| fixture.git(&["show", &format!("{}:{file}", built.commit)]);
    assert_eq!(show("list").trim_end(), "a\nours\nc");
    let notes = show("notes");
    assert!(
        notes.contains("ours") && notes.contains("theirs") && !notes.contains("<<<"),
        "{notes}"
    );
    assert_eq!((show("x").trim_end(), show("y").trim_end()), ("1", "2"));
    let parents = fixture.git(&["log", "-1", "--format=%P", built.commit.as_str()]);
    assert_eq!(parents.trim_end(), format!("{ours} {theirs}"));
    // What is merged already is not merged again.
    let again = repository.build_merge(&request(&built.commit, &theirs)).unwrap();
    assert_eq!(again.commit, built.commit);
}

#[test]
fn conflicts_are_named_and_their_marks_are_found_until_they_are_gone() {
    let (fixture, ours, theirs) = diverged(&[("a.txt", "ours\n")], &[("a.txt", "theirs\n")]);
    let repository = fixture.begin(1);
    let built = repository.build_merge(&request(&ours, &theirs)).unwrap();
    assert_eq!(built.conflicts, [path("a.txt")]);
    let marked = |commit: &ObjectId| {
        repository.find_conflict_marks(commit, &[path("a.txt"), path("list")]).unwrap()
    };
    assert_eq!(marked(&built.commit), [path("a.txt")]);
    assert!(marked(&ours).is_empty());
}

#[test]
fn a_branch_and_its_worktree_follow_a_merge_and_nothing_else_does() {
    let (fixture, ours, theirs) = diverged(&[("x", "1"), ("gone", "")], &[("y", "2")]);
    let repository = fixture.begin(1);
    let folder = fixture.folder.path().canonicalize().unwrap().join("tree");
    let (branch, start) = ("ralph/1".to_owned(), Some(theirs.clone()));
    repository.create_worktree(&WorktreeRequest { path: folder.clone(), branch, start }).unwrap();
    fs::write(folder.join("list"), "mine\n").unwrap();
    fs::write(folder.join("untracked"), "u").unwrap();
    let merged = repository.build_merge(&request(&ours, &theirs)).unwrap().commit;
    let main = fixture.user_state().head;
    for _ in 0..2 {
        // Both can be repeated.
        repository.move_branch("ralph/1", &theirs, &merged).unwrap();
        repository.restore_worktree(&folder, &merged, &[path("list")]).unwrap();
    }
    assert_eq!(commit(&fixture, "ralph/1"), merged);
    assert!(repository.move_branch("ralph/1", &theirs, &ours).is_err(), "it is elsewhere");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(
        (read("x"), read("list"), read("untracked")),
        ("1".into(), "mine\n".into(), "u".into())
    );
    let changed = repository.list_tracked_changes(&folder, &[]).unwrap();
    assert_eq!(changed, [path("list")]);
    assert_eq!(fixture.user_state().head, main);
    repository.discard_worktree(&folder).unwrap();
    repository.discard_worktree(&folder).unwrap();
    assert!(!folder.exists());
    assert!(repository.delete_branch("ralph/1", &theirs).is_err(), "it is elsewhere");
    // Another git works on the packed refs, and one was killed.
    let [lock, new] =
        ["lock", "new"].map(|name| fixture.workspace.join(format!(".git/packed-refs.{name}")));
    [&lock, &new].into_iter().for_each(|file| fs::write(file, "").unwrap());
    assert!(repository.delete_branch("ralph/1", &merged).is_err() && lock.exists());
    fs::remove_file(&new).unwrap();
    repository.delete_branch("ralph/1", &merged).unwrap();
    assert!(!lock.exists());
    repository.delete_branch("ralph/1", &merged).unwrap();
    assert!(repository.find_branch_commit("ralph/1").unwrap().is_none());
}

#[test]
fn what_is_left_of_a_detached_worktree_makes_room_for_the_next() {
    let (fixture, ours, theirs) = diverged(&[("x", "1")], &[("y", "2")]);
    let repository = fixture.begin(1);
    let folder = fixture.folder.path().canonicalize().unwrap().join("proof");
    repository.create_detached_worktree(&folder, &ours).unwrap();
    fs::write(folder.join("left"), "").unwrap();
    repository.create_detached_worktree(&folder, &theirs).unwrap();
    assert!(folder.join("y").exists() && !folder.join("x").exists());
    assert!(!folder.join("left").exists());
    fs::remove_dir_all(&folder).unwrap();
    repository.create_detached_worktree(&folder, &ours).unwrap();
    // As a git leaves it that is killed while it removes it, and as we do.
    fs::remove_file(folder.join(".git")).unwrap();
    repository.create_detached_worktree(&folder, &theirs).unwrap();
    let aside = folder.with_extension("discarded");
    fs::rename(&folder, &aside).unwrap();
    repository.create_detached_worktree(&folder, &ours).unwrap();
    assert!(folder.join("x").exists() && !aside.exists());
    assert!(folder.join("x").exists());
}
