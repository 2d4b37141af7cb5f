//! Repositories in every state that git knows.

use std::fs;
use std::os::unix::fs::chown;
use std::sync::Arc;

use ralph_orchestrator_git::{CommitPolicy, GitError, Head, Operation, Repository, SystemGit};

use crate::fixture::{Fixture, run};

#[test]
fn checkpoints_an_unborn_branch() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "one");
    let repository = fixture.open();
    assert_eq!(repository.state().unwrap().head, Head::Unborn { branch: "main".to_owned() });
    let before = fixture.user_state();
    repository.checkpoint(&run(), 1, "m").unwrap();
    assert_eq!(fixture.user_state(), before);
    assert_eq!(fixture.git(&["show", "refs/ralph/0198-run/1:a.txt"]), "one");
}

#[test]
fn checkpoints_during_a_conflict_with_a_detached_head() {
    let fixture = Fixture::committed();
    let first = fixture.git(&["rev-parse", "HEAD"]);
    fixture.write("a.txt", "two\n");
    fixture.git(&["commit", "-qam", "second"]);
    fixture.git(&["checkout", "-q", "-b", "side", &first]);
    fixture.write("a.txt", "other\n");
    fixture.git(&["commit", "-qam", "third"]);
    let repository = fixture.begin(1);
    assert!(!fixture.try_git(&["rebase", "main"]).status.success());
    let state = repository.state().unwrap();
    assert_eq!(state.operation, Some(Operation::Rebase));
    assert!(matches!(state.head, Head::Detached { .. }));
    let before = fixture.user_state();
    repository.checkpoint(&run(), 1, "m").unwrap();
    let error = repository.commit(1, "m", &CommitPolicy::default()).unwrap_err();
    assert_eq!(error.to_string(), "a rebase is in progress; finish or abort it first");
    assert_eq!(fixture.user_state(), before);
    fixture.git(&["rebase", "--abort"]);
    // Conflicts can be in the index without an operation.
    assert!(!fixture.try_git(&["merge", "main"]).status.success());
    assert_eq!(repository.state().unwrap().operation, Some(Operation::Merge));
    fs::remove_file(fixture.path(".git/MERGE_HEAD")).unwrap();
    let error = repository.commit(1, "m", &CommitPolicy::default()).unwrap_err();
    assert!(matches!(error, GitError::Unmerged { others: 0, .. }), "{error}");
}

#[test]
fn leaves_submodules_and_nested_repositories_alone() {
    let library = Fixture::committed();
    let fixture = Fixture::committed();
    let source = library.workspace.to_str().unwrap();
    fixture.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", source, "lib"]);
    fixture.git(&["commit", "-qm", "submodule"]);
    let repository = fixture.begin(1);
    fixture.write("lib/a.txt", "changed in the submodule");
    fixture.git(&["init", "-q", "nested"]);
    fixture.write("nested/x", "x");
    fixture.write("a.txt", "two");
    assert!(repository.state().unwrap().has_submodules);
    let outcome = repository.checkpoint(&run(), 1, "m").unwrap();
    assert_eq!(outcome.skipped.len(), 2, "{:?}", outcome.skipped);
    assert!(repository.commit(1, "m", &CommitPolicy::default()).unwrap().is_new);
    assert_eq!(fixture.git(&["show", "--format=", "--name-only"]), "a.txt");
    for commit in ["HEAD", "refs/ralph/0198-run/1"] {
        let names = fixture.git(&["ls-tree", "-r", "--name-only", commit]);
        assert!(!names.contains("nested") && !names.contains("lib/"), "{names}");
    }
}

#[test]
fn works_in_a_shallow_sparse_clone_and_in_a_linked_worktree() {
    let mut fixture = Fixture::committed();
    fixture.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let source = format!("file://{}", fixture.workspace.display());
    let clone = fixture.folder.path().canonicalize().unwrap().join("clone");
    fixture.git(&["clone", "-q", "--depth=1", &source, clone.to_str().unwrap()]);
    let tree = clone.with_file_name("tree");
    fixture.workspace = clone;
    fixture.git(&["sparse-checkout", "set", "src"]);
    let state = fixture.open().state().unwrap();
    assert!(state.is_shallow && state.is_sparse && !state.is_linked_worktree);
    fixture.write("src/lib.rs", "changed");
    let before = fixture.user_state();
    fixture.open().checkpoint(&run(), 1, "m").unwrap();
    assert_eq!(fixture.user_state(), before);
    fixture.git(&["worktree", "add", "-q", tree.to_str().unwrap()]);
    let private = fixture.folder.path().join("state/other");
    let git = Arc::new(SystemGit::find().unwrap());
    let repository =
        Repository::discover_with(&tree, &private, git, fixture.environment()).unwrap();
    assert!(repository.state().unwrap().is_linked_worktree);
    fs::write(tree.join("src/lib.rs"), "in the worktree").unwrap();
    repository.checkpoint(&run(), 2, "m").unwrap();
    assert_eq!(fixture.git(&["show", "refs/ralph/0198-run/2:src/lib.rs"]), "in the worktree");
}

#[test]
fn works_with_sha256_a_split_index_and_without_an_identity() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.path(".git")).unwrap();
    fixture.git(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    fixture.git(&["config", "core.splitIndex", "true"]);
    fixture.git(&["config", "user.useConfigOnly", "true"]);
    let repository = fixture.begin(1);
    fixture.write("a.txt", "one");
    let commit = repository.checkpoint(&run(), 1, "m").unwrap().checkpoint.commit;
    assert_eq!(commit.as_str().len(), 64);
    assert_eq!(
        fixture.git(&["log", "-1", "--format=%an", "refs/ralph/0198-run/1"]),
        "ralph-orchestrator"
    );
    let error = repository.commit(1, "m", &CommitPolicy::default()).unwrap_err();
    assert!(matches!(error, GitError::CommitFailed { .. }), "{error}");
    fixture.git(&["config", "user.email", "ada@example.org"]);
    fixture.git(&["config", "user.name", "Ada"]);
    fixture.write("b.txt", "user");
    fixture.git(&["add", "a.txt"]);
    // `user.useConfigOnly` was there when the configuration was trusted.
    assert!(repository.commit(1, "m", &CommitPolicy::default()).unwrap().is_new);
}

#[test]
fn refuses_no_repository_a_bare_one_and_a_private_folder_in_the_workspace() {
    let fixture = Fixture::committed();
    let git: Arc<SystemGit> = Arc::new(SystemGit::find().unwrap());
    let discover = |workspace: &std::path::Path, private: &std::path::Path| {
        Repository::discover_with(workspace, private, git.clone(), fixture.environment())
            .unwrap_err()
    };
    let empty = fixture.folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let private = fixture.folder.path().join("state/x");
    let error = discover(&empty, &private);
    assert!(matches!(error, GitError::NotARepository(_)), "{error}");
    fixture.git(&["init", "-q", "--bare", empty.to_str().unwrap()]);
    let error = discover(&empty, &private);
    assert!(matches!(error, GitError::Bare(_)), "{error}");
    let error = discover(&fixture.path(".git"), &private);
    assert!(matches!(error, GitError::NotARepository(_)), "{error}");
    let error = discover(&fixture.workspace, &fixture.path(".ralph/git"));
    assert!(matches!(error, GitError::PrivateFolderInWorkspace(_)), "{error}");
}

#[test]
fn writes_nothing_where_a_link_is_in_the_place_of_its_own_folder() {
    let fixture = Fixture::committed();
    let git: Arc<SystemGit> = Arc::new(SystemGit::find().unwrap());
    let private = fixture.folder.path().join("state/x");
    let open = || {
        Repository::discover_with(&fixture.workspace, &private, git.clone(), fixture.environment())
    };
    let repository = open().unwrap();
    let theirs = fixture.folder.path().join("theirs");
    fs::create_dir_all(theirs.join("git")).unwrap();
    fs::write(theirs.join("git/index.lock"), "mine").unwrap();
    fs::rename(&private, fixture.folder.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(&theirs, &private).unwrap();
    let error = repository.trust_configuration().unwrap_err();
    assert!(matches!(error, GitError::PrivateFolderReplaced(_)), "{error}");
    let error = open().unwrap_err();
    assert!(matches!(error, GitError::PrivateFolderReplaced(_)), "{error}");
    assert_eq!(fs::read_to_string(theirs.join("git/index.lock")).unwrap(), "mine");
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
}

#[test]
fn refuses_a_repository_of_an_unknown_owner() {
    // Only root can give a repository away.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let fixture = Fixture::committed();
    for path in [fixture.workspace.clone(), fixture.path(".git")] {
        chown(path, Some(54_321), Some(54_321)).unwrap();
    }
    let error = fixture.open_with(Arc::new(SystemGit::find().unwrap())).unwrap_err();
    assert!(matches!(error, GitError::UnsafeOwnership { .. }), "{error}");
    assert!(error.to_string().contains("safe.directory"), "{error}");
}

#[test]
fn reports_a_second_operation_at_the_same_time() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    let lock = fs::File::open(fixture.private().join("lock")).unwrap();
    lock.lock().unwrap();
    let error = repository.checkpoint(&run(), 1, "m").unwrap_err();
    assert!(matches!(error, GitError::Busy(_)), "{error}");
    lock.unlock().unwrap();
    repository.checkpoint(&run(), 1, "m").unwrap();
}

#[test]
fn two_runs_checkpoint_one_repository_at_once() {
    let fixture = Fixture::committed();
    std::thread::scope(|scope| {
        for number in 0..2 {
            let fixture = &fixture;
            scope.spawn(move || {
                let private = fixture.folder.path().join(format!("state/{number}"));
                let git = Arc::new(SystemGit::find().unwrap());
                let repository = Repository::discover_with(
                    &fixture.workspace,
                    &private,
                    git,
                    fixture.environment(),
                )
                .unwrap();
                let run = ralph_orchestrator_git::RunRef::new(format!("run-{number}")).unwrap();
                for iteration in 1..4 {
                    repository.checkpoint(&run, iteration, "m").unwrap();
                }
            });
        }
    });
    assert_eq!(fixture.git(&["for-each-ref", "refs/ralph"]).lines().count(), 6);
    fixture.git(&["fsck", "--strict"]);
}
