//! Repositories whose configuration an agent has written.

use std::fs;

use ralph_orchestrator_git::{
    CheckpointName, CommitPolicy, DiffEnd, GitError, RollbackGuard, WorktreeRequest,
};

use crate::fixture::{Fixture, run};

/// Makes everything that can name a program name one that leaves a trace, and returns the trace.
fn arm(fixture: &Fixture) -> std::path::PathBuf {
    let trace = fixture.folder.path().join("trace");
    let program = fixture.folder.path().join("evil");
    let script = format!("echo \"$0 $*\" >> '{}'; cat 2>/dev/null; exit 0", trace.display());
    fixture.write_script(&program, &script);
    let program = program.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "gpg.program",
        "gpg.ssh.program",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "merge.evil.driver",
        "credential.helper",
        "gc.recentObjectsHook",
        "uploadpack.packObjectsHook",
        "pager.diff-tree",
        "hook.evil.command",
        "remote.origin.uploadpack",
    ] {
        fixture.git(&["config", key, program]);
    }
    for (key, value) in [
        ("hook.evil.event", "reference-transaction"),
        ("commit.gpgSign", "true"),
        ("filter.evil.required", "true"),
        ("alias.status", "!evil"),
        ("remote.origin.url", "ext::evil"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
    ] {
        fixture.git(&["config", key, value]);
    }
    for hook in [
        "pre-commit",
        "post-commit",
        "commit-msg",
        "prepare-commit-msg",
        "reference-transaction",
        "post-index-change",
        "post-checkout",
    ] {
        fixture.write_script(&fixture.path(".git/hooks").join(hook), &script);
    }
    fixture.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    fixture.write(".git/info/attributes", "* filter=evil diff=evil\n");
    let _ = fs::remove_file(&trace);
    trace
}

#[test]
fn executes_no_program_of_the_agents_for_checkpoints_differences_and_rollbacks() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    let first = repository.checkpoint(&run(), 0, "m").unwrap().checkpoint;
    fixture.write("a.txt", "changed");
    let trace = arm(&fixture);
    let repository_again = fixture.open();
    for repository in [&repository, &repository_again] {
        repository.state().unwrap();
        repository.checkpoint(&run(), 1, "m").unwrap();
        let diff = repository.diff(&DiffEnd::Tree(first.commit.clone()), &DiffEnd::Workspace, 9999);
        assert!(!diff.unwrap().patch.is_empty());
        repository.list_checkpoints(&run()).unwrap();
        repository.list_worktrees().unwrap();
        let to = CheckpointName::Iteration(0);
        repository.rollback(&run(), to, RollbackGuard::SaveFirst).unwrap();
        let to = CheckpointName::Iteration(1);
        repository.rollback(&run(), to, RollbackGuard::RequireCheckpoint).unwrap();
    }
    assert_eq!(fs::read_to_string(&trace).unwrap_or_default(), "");
    assert_eq!(fixture.read("a.txt"), b"changed");
    // The traps work: git alone executes several of them.
    fixture.write("a.txt", "changed again");
    fixture.try_git(&["-p", "add", "a.txt"]);
    fixture.try_git(&["update-ref", "refs/ralph/x", "HEAD"]);
    let executed = fs::read_to_string(&trace).unwrap();
    for part in ["reference-transaction", "post-index-change", "evil"] {
        assert!(executed.contains(part), "{part}: {executed}");
    }
}

#[test]
fn refuses_commits_and_worktrees_without_running_anything_if_programs_changed() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    fixture.write("a.txt", "changed");
    let trace = arm(&fixture);
    let before = fixture.user_state();
    let request = WorktreeRequest {
        path: fixture.folder.path().join("tree"),
        branch: "b".to_owned(),
        start: None,
    };
    for error in [
        repository.commit(1, "m", &CommitPolicy::default()).unwrap_err(),
        repository.begin_iteration(2).unwrap_err(),
        repository.create_worktree(&request).unwrap_err(),
    ] {
        let GitError::ConfigurationChanged(names) = error else { panic!("{error}") };
        for expected in [
            "core.fsmonitor",
            "filter.evil.clean",
            "gpg.program",
            "hook pre-commit",
            "remote.origin.uploadpack",
        ] {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
    }
    assert_eq!(fs::read_to_string(&trace).unwrap_or_default(), "");
    assert_eq!(fixture.user_state(), before);
}

#[test]
fn accepts_honest_changes_of_the_configuration() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    fixture.git(&["config", "user.name", "Agent"]);
    fixture.git(&["remote", "add", "origin", "https://example.org/x.git"]);
    fixture.write("a.txt", "changed");
    assert!(repository.commit(1, "m", &CommitPolicy::default()).unwrap().is_new);
}

#[test]
fn requires_the_trusted_configuration() {
    let fixture = Fixture::committed();
    let error = fixture.open().begin_iteration(1).unwrap_err();
    assert!(matches!(error, GitError::ConfigurationNotRecorded), "{error}");
}

#[test]
fn notices_a_changed_hook_behind_a_link_and_a_pipe_in_its_place() {
    let fixture = Fixture::committed();
    let target = fixture.path("scripts/check");
    fixture.write_script(&target, "exit 0");
    fs::create_dir_all(fixture.path(".git/hooks")).unwrap();
    let hook = fixture.path(".git/hooks/pre-commit");
    std::os::unix::fs::symlink("../../scripts/check", &hook).unwrap();
    let repository = fixture.begin(1);
    fixture.write_script(&target, "exit 1");
    let error = repository.commit(1, "m", &CommitPolicy::default()).unwrap_err();
    assert!(error.to_string().contains("hook pre-commit"), "{error}");
    fs::remove_file(&hook).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&hook).status().unwrap().success());
    let error = repository.commit(1, "m", &CommitPolicy::default()).unwrap_err();
    assert!(error.to_string().contains("hook pre-commit"), "{error}");
}

#[test]
fn refuses_another_repository_in_the_same_place() {
    let fixture = Fixture::committed();
    fixture.begin(1).checkpoint(&run(), 1, "m").unwrap();
    let other = Fixture::committed();
    let before = other.user_state();
    fs::rename(fixture.path(".git"), fixture.folder.path().join("moved")).unwrap();
    fs::write(fixture.path(".git"), format!("gitdir: {}\n", other.path(".git").display())).unwrap();
    let error = fixture
        .open_with(std::sync::Arc::new(ralph_orchestrator_git::SystemGit::find().unwrap()))
        .unwrap_err();
    assert!(matches!(error, GitError::RepositoryChanged { .. }), "{error}");
    assert_eq!(other.user_state(), before);
    assert_eq!(other.git(&["for-each-ref", "refs/ralph"]), "");
}

#[test]
fn notices_another_repository_while_it_is_in_use() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    let other = Fixture::committed();
    let before = other.user_state();
    fs::write(fixture.path(".git/commondir"), other.path(".git").as_os_str().as_encoded_bytes())
        .unwrap();
    let error = repository.checkpoint(&run(), 1, "m").unwrap_err();
    assert!(matches!(error, GitError::RepositoryChanged { .. }), "{error}");
    fs::remove_file(fixture.path(".git/commondir")).unwrap();
    fixture.git(&["config", "core.worktree", other.folder.path().to_str().unwrap()]);
    repository.checkpoint(&run(), 1, "m").unwrap_err();
    let parent = fixture.folder.path().canonicalize().unwrap();
    fixture.git(&["config", "core.worktree", parent.to_str().unwrap()]);
    let error = repository.checkpoint(&run(), 1, "m").unwrap_err();
    assert!(matches!(error, GitError::RepositoryChanged { .. }), "{error}");
    assert_eq!(other.user_state(), before);
    assert_eq!(other.git(&["for-each-ref", "refs/ralph"]), "");
}

#[test]
fn takes_a_forged_checkpoint_for_none_of_its_own() {
    let fixture = Fixture::committed();
    let repository = fixture.open();
    fixture.write("a.txt", "the real work");
    fixture.git(&["update-ref", "refs/ralph/0198-run/1", "HEAD"]);
    let outcome = repository.checkpoint(&run(), 1, "m").unwrap();
    assert!(outcome.is_new);
    assert_eq!(fixture.git(&["show", "refs/ralph/0198-run/1:a.txt"]), "the real work");
    let blob = fixture.git(&["hash-object", "-w", "a.txt"]);
    fixture.git(&["update-ref", "refs/ralph/0198-run/2", &blob]);
    assert_eq!(repository.list_checkpoints(&run()).unwrap().len(), 1);
}
