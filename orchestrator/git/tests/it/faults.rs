//! The orchestrator killed after every call of git, and every call failing on a full disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ralph_orchestrator_git::{
    CheckpointName, CommitPolicy, GitExit, GitOutput, GitRequest, RepoPath, Repository, Result,
    RollbackGuard, RunGit, SystemGit, WorktreeRequest,
};

use crate::fixture::{Fixture, run};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// The orchestrator is gone as soon as this call of git has ended.
    KilledAfter(usize),
    /// This call of git fails, and the orchestrator goes on.
    FullDisk(usize),
    None,
}

struct FaultyGit {
    git: SystemGit,
    fault: Fault,
    calls: AtomicUsize,
}

impl FaultyGit {
    fn new(fault: Fault) -> Arc<Self> {
        let git = SystemGit::find().unwrap();
        Arc::new(Self { git, fault, calls: AtomicUsize::new(0) })
    }
}

impl RunGit for FaultyGit {
    fn run_git(&self, request: &GitRequest) -> io::Result<GitOutput> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let killed = || Err(io::Error::other("killed"));
        match self.fault {
            Fault::KilledAfter(at) if call > at => killed(),
            Fault::KilledAfter(at) if call == at => {
                self.git.run_git(request)?;
                killed()
            }
            Fault::FullDisk(at) if call == at => Ok(GitOutput {
                exit: GitExit::Status(128),
                stdout: Vec::new(),
                is_truncated: false,
                stderr: b"fatal: No space left on device".to_vec(),
            }),
            _ => self.git.run_git(request),
        }
    }
}

/// Performs something under each fault, then again without; compares the end with an unfaulted one.
fn survive<T: PartialEq + std::fmt::Debug>(
    prepare: impl Fn() -> Fixture,
    perform: impl Fn(&Repository, &Fixture) -> Result<()>,
    untouched: impl Fn(&Fixture, Fault),
    observe: impl Fn(&Fixture) -> T,
) {
    let fixture = prepare();
    let git = FaultyGit::new(Fault::None);
    perform(&fixture.open_with(git.clone()).unwrap(), &fixture).unwrap();
    let expected = observe(&fixture);
    let calls = git.calls.load(Ordering::SeqCst);
    assert!(calls > 5, "{calls} calls");
    for call in 0..calls {
        for fault in [Fault::KilledAfter(call), Fault::FullDisk(call)] {
            let fixture = prepare();
            let outcome = fixture
                .open_with(FaultyGit::new(fault))
                .and_then(|repository| perform(&repository, &fixture));
            if outcome.is_err() {
                untouched(&fixture, fault);
            }
            let repository = fixture.open();
            perform(&repository, &fixture).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            assert_eq!(observe(&fixture), expected, "{fault:?}");
            fixture.git(&["fsck", "--strict"]);
        }
    }
}

#[test]
fn a_checkpoint_survives_every_fault() {
    let prepare = || {
        let fixture = Fixture::committed();
        fixture.write("staged", "x");
        fixture.git(&["add", "staged"]);
        fixture.write("a.txt", "two");
        fixture
    };
    let user_state = prepare().user_state();
    survive(
        prepare,
        |repository, _| repository.checkpoint(&run(), 1, "m").map(drop),
        |fixture, fault| {
            let now = fixture.user_state();
            assert_eq!(now.files, user_state.files, "{fault:?}");
            assert_eq!(now.refs.lines().count(), 1, "{fault:?}");
        },
        |fixture| {
            let now = fixture.user_state();
            assert_eq!(now.logs.len(), 2, "no reflog of a checkpoint");
            let tree = fixture.git(&["rev-parse", "refs/ralph/0198-run/1^{tree}"]);
            let count = fixture.git(&["rev-list", "--count", "refs/ralph/0198-run/1"]);
            (tree, count, now.files, fixture.git(&["status", "--porcelain"]))
        },
    );
}

#[test]
fn a_commit_survives_every_fault() {
    let prepare = || {
        let fixture = Fixture::committed();
        fixture.write("staged", "x");
        fixture.git(&["add", "staged"]);
        fixture.write("dirty", "x");
        fixture.begin(1);
        fixture.write("a.txt", "two");
        fixture.write("new", "new");
        std::fs::remove_file(fixture.path("src/lib.rs")).unwrap();
        fixture
    };
    survive(
        prepare,
        |repository, _| {
            let outcome = repository.commit(1, "wip: work\n", &CommitPolicy::default())?;
            assert!(outcome.commit.is_some());
            Ok(())
        },
        |fixture, fault| {
            let count = fixture.git(&["rev-list", "--count", "HEAD"]);
            assert!(count == "1" || count == "2", "{fault:?}: {count}");
            assert_eq!(fixture.read("a.txt"), b"two", "{fault:?}");
        },
        |fixture| {
            (
                fixture.git(&["rev-parse", "HEAD^{tree}"]),
                fixture.git(&["rev-list", "--count", "HEAD"]),
                fixture.git(&["diff", "--cached", "--name-status"]),
                fixture.git(&["status", "--porcelain"]),
            )
        },
    );
}

#[test]
fn a_commit_of_one_file_survives_every_fault() {
    let prepare = || {
        let fixture = Fixture::committed();
        fixture.write("staged", "x");
        fixture.git(&["add", "staged"]);
        fixture.begin(1);
        fixture.write("a.txt", "two");
        fixture.write("src/lib.rs", "edited");
        fixture
    };
    survive(
        prepare,
        |repository, _| {
            let (path, policy) = (RepoPath::from_bytes("a.txt"), CommitPolicy::default());
            let outcome = repository.commit_file(&path, "m\n", &policy, &|before, now| {
                (before, now) == (b"one\n", b"two")
            })?;
            assert!(outcome.commit.is_some());
            Ok(())
        },
        |fixture, fault| {
            let count = fixture.git(&["rev-list", "--count", "HEAD"]);
            assert!(count == "1" || count == "2", "{fault:?}: {count}");
        },
        |fixture| {
            assert_eq!(fixture.git(&["show", "HEAD:a.txt"]), "two");
            (
                fixture.git(&["rev-parse", "HEAD^{tree}"]),
                fixture.git(&["rev-list", "--count", "HEAD"]),
                fixture.git(&["status", "--porcelain"]),
            )
        },
    );
}

#[test]
fn the_next_iteration_finishes_the_commit_of_a_killed_one() {
    for call in 0.. {
        let fixture = Fixture::committed();
        fixture.begin(1);
        fixture.write("a.txt", "two");
        let git = FaultyGit::new(Fault::KilledAfter(call));
        let opened = fixture.open_with(git);
        let is_tried = opened.is_ok();
        let outcome = opened.and_then(|it| it.commit(1, "m", &CommitPolicy::default()));
        let is_committed = fixture.git(&["rev-list", "--count", "HEAD"]) == "2";
        let start = fixture.open().begin_iteration(2).unwrap();
        assert_eq!(start.dirty.is_empty(), is_tried, "{call}: {start:?}");
        let status = fixture.git(&["status", "--porcelain"]);
        assert_eq!(status, if is_committed { "" } else { " M a.txt" }, "{call}");
        if outcome.is_ok() {
            assert!(is_committed && call > 10, "{call}");
            break;
        }
        if is_tried && !is_committed {
            fixture.open().commit(2, "m", &CommitPolicy::default()).unwrap();
            assert_eq!(fixture.git(&["show", "HEAD:a.txt"]), "two", "{call}");
        }
    }
}

#[test]
fn a_rollback_that_keeps_a_file_survives_every_fault() {
    let prepare = || {
        let fixture = Fixture::committed();
        fixture.write("list.json", "pending");
        fixture.open().checkpoint(&run(), 1, "m").unwrap();
        fixture.write("a.txt", "unsaved work");
        fixture.write("list.json", "completed");
        fixture
    };
    survive(
        prepare,
        |repository, _| {
            let (to, guard) = (CheckpointName::Iteration(1), RollbackGuard::SaveFirst);
            let is_kept = |path: &RepoPath| path.as_bytes() == b"list.json";
            repository.rollback_except(&run(), to, guard, &is_kept, &|_| Ok(())).map(drop)
        },
        |fixture, fault| assert_eq!(fixture.read("list.json"), b"completed", "{fault:?}"),
        |fixture| fixture.user_state().files,
    );
}

#[test]
fn a_rollback_survives_every_fault_and_loses_nothing() {
    let prepare = || {
        let fixture = Fixture::committed();
        fixture.open().checkpoint(&run(), 1, "m").unwrap();
        fixture.write("a.txt", "unsaved work");
        fixture.write("new/file", "unsaved work");
        fixture
    };
    survive(
        prepare,
        |repository, _| {
            let to = CheckpointName::Iteration(1);
            repository.rollback(&run(), to, RollbackGuard::SaveFirst).map(drop)
        },
        |fixture, fault| {
            if fixture.read("a.txt") != b"unsaved work" {
                let saved = fixture.git(&["show", "refs/ralph/0198-run/rollback/1:a.txt"]);
                assert_eq!(saved, "unsaved work", "{fault:?}");
            }
        },
        |fixture| {
            let state = fixture.user_state();
            let saved = fixture.git(&["rev-parse", "refs/ralph/0198-run/rollback/1^{tree}"]);
            (state.files, state.refs.lines().count(), saved)
        },
    );
}

#[test]
fn a_worktree_survives_every_fault() {
    let prepare = || {
        let fixture = Fixture::committed();
        fixture.begin(1);
        fixture
    };
    survive(
        prepare,
        |repository, fixture| {
            let request = WorktreeRequest {
                path: fixture.folder.path().join("tree"),
                branch: "ralph/1".to_owned(),
                start: None,
            };
            repository.create_worktree(&request).map(drop)
        },
        |_, _| {},
        |fixture| {
            let tree = fixture.folder.path().join("tree");
            let status = fixture.git(&["-C", tree.to_str().unwrap(), "status", "--porcelain"]);
            let worktrees = fixture.git(&["worktree", "list"]).lines().count();
            (status, worktrees, std::fs::read(tree.join("a.txt")).unwrap())
        },
    );
}

/// Dies while git writes files: one is half written, and git's own lock is left.
struct DyingGit {
    git: SystemGit,
    workspace: std::path::PathBuf,
    lock: std::path::PathBuf,
}

impl RunGit for DyingGit {
    fn run_git(&self, request: &GitRequest) -> io::Result<GitOutput> {
        if request.arguments.iter().any(|argument| argument == "read-tree") {
            std::fs::write(self.workspace.join("a.txt"), "on")?;
            std::fs::write(&self.lock, "")?;
            return Err(io::Error::other("killed"));
        }
        self.git.run_git(request)
    }
}

#[test]
fn a_rollback_completes_after_git_was_killed_in_the_middle_of_a_file() {
    let fixture = Fixture::committed();
    fixture.open().checkpoint(&run(), 1, "m").unwrap();
    fixture.write("a.txt", "unsaved work");
    fixture.write("new", "unsaved work");
    let git = DyingGit {
        git: SystemGit::find().unwrap(),
        workspace: fixture.workspace.clone(),
        lock: fixture.private().join("git/index.lock"),
    };
    let to = CheckpointName::Iteration(1);
    let repository = fixture.open_with(Arc::new(git)).unwrap();
    repository.rollback(&run(), to, RollbackGuard::SaveFirst).unwrap_err();
    let repository = fixture.open();
    // Half a file is in no checkpoint.
    let error = repository.rollback(&run(), to, RollbackGuard::RequireCheckpoint).unwrap_err();
    assert!(error.to_string().starts_with("a.txt: "), "{error}");
    repository.rollback(&run(), to, RollbackGuard::SaveFirst).unwrap();
    assert_eq!(fixture.read("a.txt"), b"one\n");
    assert!(!fixture.path("new").exists());
    assert_eq!(fixture.git(&["show", "refs/ralph/0198-run/rollback/1:a.txt"]), "unsaved work");
}
