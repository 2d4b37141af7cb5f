//! Linked worktrees: created once, removed only without loss.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_git::{
    CommitPolicy, GitError, IgnoredFiles, RepoPath, Repository, SystemGit, WorktreeRequest,
    WorktreeStart, WorktreeWork,
};

use crate::fixture::Fixture;

fn request(fixture: &Fixture) -> WorktreeRequest {
    WorktreeRequest {
        path: fixture.folder.path().canonicalize().unwrap().join("trees\n1"),
        branch: "ralph/0198".to_owned(),
        start: None,
    }
}

fn refusal(fixture: &Fixture, path: &Path, ignored: IgnoredFiles) -> String {
    let before = crate::fixture::list_files(path);
    let error = fixture.open().remove_worktree(path, ignored).unwrap_err();
    assert!(matches!(error, GitError::WorktreeInUse { .. }), "{error}");
    assert_eq!(crate::fixture::list_files(path), before);
    error.to_string()
}

#[test]
fn creates_a_worktree_once_and_leaves_the_users_alone() {
    let fixture = Fixture::committed();
    fixture.write("a.txt", "uncommitted");
    let repository = fixture.begin(1);
    let before = fixture.user_state();
    let request = request(&fixture);
    let first = repository.create_worktree(&request).unwrap();
    assert!(first.is_new);
    assert_eq!(fs::read(request.path.join("a.txt")).unwrap(), b"one\n");
    let second = repository.create_worktree(&request).unwrap();
    assert_eq!((second.is_new, second.worktree), (false, first.worktree));
    let after = fixture.user_state();
    assert_eq!((after.files, after.index, after.head), (before.files, before.index, before.head));
    assert_eq!(repository.list_worktrees().unwrap().len(), 2);
    assert!(repository.remove_worktree(&request.path, IgnoredFiles::Keep).unwrap());
    assert!(!request.path.exists());
    assert!(!repository.remove_worktree(&request.path, IgnoredFiles::Keep).unwrap());
    fixture.git(&["rev-parse", "--verify", "refs/heads/ralph/0198"]);
    // The branch stays, and serves the same request again.
    assert!(repository.create_worktree(&request).unwrap().is_new);
}

#[test]
fn completes_what_a_killed_attempt_left() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    let request = request(&fixture);
    repository.create_worktree(&request).unwrap();
    let metadata = fixture.path(".git/worktrees");
    let name = fs::read_dir(&metadata).unwrap().next().unwrap().unwrap().path();
    fs::write(name.join("locked"), "initializing").unwrap();
    fs::remove_file(request.path.join("a.txt")).unwrap();
    assert!(repository.create_worktree(&request).unwrap().is_new);
    assert!(request.path.join("a.txt").exists());
}

#[test]
fn completes_what_git_left_that_was_killed_before_it_had_written_its_files() {
    for written in [&["locked"][..], &["locked", "gitdir"], &["locked", "gitdir", "commondir"]] {
        let fixture = Fixture::committed();
        let mut request = request(&fixture);
        request.path.set_file_name("tree-1");
        let metadata = fixture.path(".git/worktrees/tree-1");
        fs::create_dir_all(&metadata).unwrap();
        for name in written {
            fs::write(metadata.join(name), "").unwrap();
        }
        fs::create_dir(&request.path).unwrap();
        fs::write(request.path.join(".git"), format!("gitdir: {}\n", metadata.display())).unwrap();
        let repository = fixture.begin(1);
        assert!(repository.create_worktree(&request).unwrap().is_new, "{written:?}");
        assert!(request.path.join("a.txt").exists());
        assert_eq!(repository.list_worktrees().unwrap().len(), 2);
    }
}

#[test]
fn a_lock_of_the_branch_that_a_killed_git_left_is_removed_and_that_of_one_at_work_is_waited_for() {
    let fixture = Fixture::committed();
    let request = request(&fixture);
    let lock = fixture.path(&format!(".git/refs/heads/{}.lock", request.branch));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    let repository = fixture.begin(1);
    assert!(repository.create_worktree(&request).unwrap().is_new);
    assert!(!lock.exists());

    let (mut request, lock) = (request, lock.with_file_name("another.lock"));
    request.branch = "ralph/another".to_owned();
    request.path.set_file_name("another");
    assert_eq!(lock, fixture.path(".git/refs/heads/ralph/another.lock"));
    // As git does it: written, then put into its place.
    fs::write(&lock, fixture.git(&["rev-parse", "HEAD"])).unwrap();
    let working = std::thread::spawn(move || fs::rename(&lock, lock.with_extension("")));
    assert!(repository.create_worktree(&request).unwrap().is_new);
    working.join().unwrap().unwrap();
}

#[test]
fn a_hook_that_fails_leaves_the_worktree_and_is_reported() {
    let fixture = Fixture::committed();
    fixture.write_script(&fixture.path(".git/hooks/post-checkout"), "echo no luck >&2; exit 3");
    let repository = fixture.begin(1);
    let made = repository.create_worktree(&request(&fixture)).unwrap();
    let problem = made.problem.unwrap();
    assert!(
        made.is_new && problem.contains("no luck") && problem.contains("status 3"),
        "{problem}"
    );
    let again = repository.repeat_checkout_hook(&made.worktree).unwrap().unwrap();
    assert!(again.contains("no luck"), "{again}");
    let second = repository.create_worktree(&request(&fixture)).unwrap();
    assert_eq!((second.is_new, second.problem), (false, None));
}

#[test]
fn counts_the_work_in_a_worktree_unless_filters_of_an_agent_would_run() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    let request = request(&fixture);
    let made = repository.create_worktree(&request).unwrap().worktree;
    let (tree, base) = (request.path.to_str().unwrap(), made.head.unwrap());
    fixture.git(&["-C", tree, "commit", "-q", "--allow-empty", "-m", "work"]);
    fs::write(request.path.join("a.txt"), "changed").unwrap();
    fs::write(request.path.join("new"), "x").unwrap();
    let work = |without: &[PathBuf]| {
        let branch = (request.branch.as_str(), base.as_str());
        repository.find_worktree_work(&request.path, branch, without).unwrap()
    };
    fs::create_dir(request.path.join("ignored")).unwrap();
    fs::write(request.path.join("ignored/model"), "x").unwrap();
    fs::write(request.path.join("src/run.log"), "x").unwrap();
    let with = |uncommitted, left_out| WorktreeWork {
        commits: 1,
        uncommitted,
        left_out,
        ignored: ["ignored", "src/run.log"].into_iter().map(RepoPath::from_bytes).collect(),
        is_on_branch: true,
    };
    assert_eq!(work(&[]), with(Some(2), 0));
    let without = [PathBuf::from("new"), PathBuf::from("src/lib.rs")];
    assert_eq!(work(&without), with(Some(1), 1));
    fixture.git(&["config", "filter.evil.clean", "touch ran"]);
    assert_eq!(work(&[]), with(None, 0));
}

#[test]
fn the_start_of_a_worktree_is_read_without_writing() {
    let fixture = Fixture::committed();
    fixture.write("a.txt", "changed");
    fixture.write("sub/new", "x");
    let before = fixture.user_state();
    let environment = fixture.environment();
    let find = |folder: &Path, prefix: &str| {
        WorktreeStart::find(folder, prefix, &SystemGit::find().unwrap(), &environment)
    };
    let start = find(&fixture.workspace, "ralph").unwrap();
    assert_eq!((start.uncommitted, start.inside.as_path()), (2, Path::new("")));
    let error = find(&fixture.path("sub"), "ralph").unwrap_err();
    assert!(matches!(error, GitError::NotInCommit { .. }), "{error}");
    let branch = start.branch.unwrap();
    let error = find(&fixture.workspace, &branch).unwrap_err();
    assert!(matches!(error, GitError::BranchInTheWay { .. }), "{error}");
    assert_eq!(fixture.user_state(), before);
}

#[test]
fn refuses_a_branch_or_a_folder_that_is_in_use() {
    let fixture = Fixture::committed();
    fixture.git(&["branch", "ralph/0198"]);
    fixture.write("a.txt", "two");
    fixture.git(&["commit", "-qam", "second"]);
    let repository = fixture.begin(1);
    let mut request = request(&fixture);
    let error = repository.create_worktree(&request).unwrap_err();
    assert!(matches!(error, GitError::BranchExists(_)), "{error}");
    request.branch = "other".to_owned();
    fs::create_dir(&request.path).unwrap();
    fs::write(request.path.join("mine"), "x").unwrap();
    let error = repository.create_worktree(&request).unwrap_err();
    assert!(matches!(error, GitError::Failed { .. }), "{error}");
    assert!(request.path.join("mine").exists());
    for name in ["-d", "a..b", "a b", ""] {
        request.branch = name.to_owned();
        repository.create_worktree(&request).unwrap_err();
    }
    request.path.clone_from(&fixture.workspace);
    let error = repository.create_worktree(&request).unwrap_err();
    assert!(matches!(error, GitError::WorktreeInUse { .. }), "{error}");
}

#[test]
fn removes_a_worktree_only_if_nothing_would_be_lost() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    let WorktreeRequest { path, .. } = request(&fixture);
    repository.create_worktree(&request(&fixture)).unwrap();
    let tree = path.to_str().unwrap();

    fs::write(path.join("untracked"), "x").unwrap();
    assert!(refusal(&fixture, &path, IgnoredFiles::Delete).contains("untracked"));
    fs::remove_file(path.join("untracked")).unwrap();

    fs::write(path.join("a.txt"), "changed").unwrap();
    assert!(refusal(&fixture, &path, IgnoredFiles::Delete).contains("a.txt"));
    fixture.git(&["-C", tree, "checkout", "-q", "a.txt"]);

    fs::write(path.join("x.log"), "ignored").unwrap();
    assert!(refusal(&fixture, &path, IgnoredFiles::Keep).contains("x.log"));

    fixture.git(&["-C", tree, "checkout", "-q", "--detach"]);
    fixture.git(&["-C", tree, "commit", "-q", "--allow-empty", "-m", "on no branch"]);
    assert!(refusal(&fixture, &path, IgnoredFiles::Delete).contains("on no branch"));
    fixture.git(&["-C", tree, "branch", "kept"]);

    fixture.git(&["worktree", "lock", "--reason", "mine", tree]);
    assert!(refusal(&fixture, &path, IgnoredFiles::Delete).contains("a lock: mine"));
    fixture.git(&["worktree", "unlock", tree]);

    fixture.git(&["-C", tree, "bisect", "start"]);
    assert!(refusal(&fixture, &path, IgnoredFiles::Delete).contains("a bisect"));
    fixture.git(&["-C", tree, "bisect", "reset"]);

    assert!(repository.remove_worktree(&path, IgnoredFiles::Delete).unwrap());
    for other in [fixture.workspace.clone(), fixture.folder.path().to_path_buf()] {
        let error = repository.remove_worktree(&other, IgnoredFiles::Delete).unwrap_err();
        assert!(matches!(error, GitError::NoWorktree(_)), "{error}");
    }
}

#[test]
fn takes_what_a_lost_commit_should_have_had_into_the_next_one() {
    let fixture = Fixture::committed();
    let request = request(&fixture);
    fixture.begin(1).create_worktree(&request).unwrap();
    let (tree, private) = (&request.path, fixture.folder.path().join("state/tree"));
    let git = Arc::new(SystemGit::find().unwrap());
    let open = Repository::discover_with(tree, &private, git, fixture.environment());
    let repository = open.unwrap();
    repository.trust_configuration().unwrap();
    fs::write(tree.join("users"), "x").unwrap();
    repository.begin_iteration(1).unwrap();
    fs::write(tree.join("lost"), "x").unwrap();
    let moved = fixture.folder.path().join("moved");
    fs::rename(&fixture.workspace, &moved).unwrap();
    let commit = |iteration| repository.commit(iteration, "m\n", &CommitPolicy::default());
    let error = commit(1).unwrap_err();
    assert!(matches!(error, GitError::RepositoryGone { .. }), "{error}");
    assert!(error.to_string().contains("git worktree repair"), "{error}");
    assert!(repository.begin_iteration(2).is_err());
    fs::rename(&moved, &fixture.workspace).unwrap();
    repository.begin_iteration(3).unwrap();
    fs::write(tree.join("next"), "x").unwrap();
    assert!(commit(3).unwrap().is_new);
    let names = fixture.git(&["show", "--format=", "--name-only", &request.branch]);
    assert_eq!(names, "lost\nnext");
}
