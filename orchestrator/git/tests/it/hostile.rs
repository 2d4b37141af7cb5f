//! Repositories whose configuration an agent has written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ralph_orchestrator_git::{
    CheckpointName, CommitPolicy, DiffEnd, GitError, GitOutput, GitRequest, Repository,
    RollbackGuard, RunGit, SystemGit, WorktreeRequest,
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
    symlink("../../scripts/check", &hook).unwrap();
    let repository = fixture.begin(1);
    fixture.write_script(&target, "exit 1");
    let error = repository.commit(1, "m", &CommitPolicy::default()).unwrap_err();
    assert!(error.to_string().contains("hook pre-commit"), "{error}");
    fs::remove_file(&hook).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&hook).status().unwrap().success());
    let error = repository.commit(1, "m", &CommitPolicy::default()).unwrap_err();
    assert!(error.to_string().contains("hooks/pre-commit"), "{error}");
}

#[test]
fn refuses_another_repository_in_the_same_place() {
    let fixture = Fixture::committed();
    fixture.begin(1).checkpoint(&run(), 1, "m").unwrap();
    let other = Fixture::committed();
    let before = other.user_state();
    fs::rename(fixture.path(".git"), fixture.folder.path().join("moved")).unwrap();
    fs::write(fixture.path(".git"), format!("gitdir: {}\n", other.path(".git").display())).unwrap();
    let error = fixture.open_with(Arc::new(SystemGit::find().unwrap())).unwrap_err();
    assert!(matches!(error, GitError::RepositoryChanged { .. }), "{error}");
    assert_eq!(other.user_state(), before);
    assert_eq!(other.git(&["for-each-ref", "refs/ralph"]), "");
}

#[test]
fn knows_a_repository_again_that_was_moved_with_its_workspace() {
    let mut fixture = Fixture::committed();
    fixture.begin(1).checkpoint(&run(), 1, "m").unwrap();
    let moved = fixture.workspace.with_file_name("moved");
    fs::rename(&fixture.workspace, &moved).unwrap();
    fixture.workspace = moved;
    let repository = fixture.open();
    repository.begin_iteration(2).unwrap();
    repository.checkpoint(&run(), 2, "m").unwrap();
    assert_eq!(repository.list_checkpoints(&run()).unwrap().len(), 2);
    // The same git directory in another place of the workspace is not what a person has moved.
    fs::rename(fixture.path(".git"), fixture.path("inside")).unwrap();
    fs::write(fixture.path(".git"), "gitdir: inside\n").unwrap();
    let error = fixture.open_with(Arc::new(SystemGit::find().unwrap())).unwrap_err();
    assert!(matches!(error, GitError::RepositoryChanged { .. }), "{error}");
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

/// Says that it confines, and keeps what it runs.
struct Confining {
    git: SystemGit,
    requests: Mutex<Vec<GitRequest>>,
}

impl RunGit for Confining {
    fn run_git(&self, request: &GitRequest) -> std::io::Result<GitOutput> {
        self.requests.lock().unwrap().push(request.clone());
        self.git.run_git(request)
    }

    fn confines(&self) -> bool {
        true
    }
}

fn confining() -> Arc<Confining> {
    Arc::new(Confining { git: SystemGit::find().unwrap(), requests: Mutex::default() })
}

/// Opens the repository where programs are confined, with this configuration of the user's, in a folder of one run.
fn open_confined(fixture: &Fixture, git: Arc<Confining>, user: &str, run: &str) -> Repository {
    let file = fixture.folder.path().join("gitconfig");
    fs::write(&file, user).unwrap();
    let mut environment = fixture.environment();
    environment.insert("GIT_CONFIG_GLOBAL".into(), file.into());
    let folder = fixture.folder.path().join("state").join(run);
    Repository::discover_with(&fixture.workspace, &folder, git, environment).unwrap()
}

#[test]
fn signs_with_nothing_that_the_repository_names() {
    let fixture = Fixture::committed();
    let trace = fixture.folder.path().join("trace");
    fixture.write_script(&fixture.path("evil"), &format!("echo evil >> '{}'", trace.display()));
    let real = fixture.path("evil").display().to_string();
    for (key, value) in [
        ("gpg.program", "/proc/self/cwd/evil".to_owned()),
        ("gpg.program", format!("/usr/../{real}")),
        ("gpg.openpgp.program", real.clone()),
        ("gpg.ssh.defaultKeyCommand", format!("/bin/sh {real}")),
    ] {
        let format = if key.starts_with("gpg.ssh") { "ssh" } else { "openpgp" };
        fixture.git(&["config", "gpg.format", format]);
        fixture.git(&["config", "commit.gpgSign", "true"]);
        fixture.git(&["config", key, &value]);
        let repository = open_confined(&fixture, confining(), "", "run");
        repository.trust_configuration().unwrap();
        repository.begin_iteration(1).unwrap();
        fixture.write("a.txt", format!("{key} {value}"));
        let outcome = repository.commit(1, "m", &CommitPolicy::default()).unwrap();
        assert!(outcome.is_new);
        let key = key.to_lowercase();
        assert!(outcome.unused_signing.contains(&key), "{key}: {outcome:?}");
        assert!(!fixture.git(&["cat-file", "commit", "HEAD"]).contains("gpgsig"), "{key}");
        assert!(!trace.exists(), "{key} was executed");
        fixture.git(&["config", "--unset", &key]);
    }
}

#[test]
fn signs_as_the_user_says_whatever_the_repository_says() {
    let fixture = Fixture::committed();
    let signer = fixture.folder.path().join("signer");
    let script = "cat > /dev/null; echo '[GNUPG:] SIG_CREATED ' >&2
        printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'";
    fixture.write_script(&signer, script);
    fixture.git(&["config", "commit.gpgSign", "false"]);
    fixture.git(&["config", "gpg.program", "/proc/self/cwd/evil"]);
    let git = confining();
    let user = |program: &Path| {
        format!("[commit]\ngpgSign = true\n[gpg]\nprogram = {}\n", program.display())
    };
    let repository = open_confined(&fixture, git.clone(), &user(&signer), "run");
    repository.trust_configuration().unwrap();
    repository.begin_iteration(1).unwrap();
    fixture.write("a.txt", "signed");
    repository.commit(1, "m", &CommitPolicy::default()).unwrap();
    assert!(fixture.git(&["cat-file", "commit", "HEAD"]).contains("BEGIN PGP SIGNATURE"));
    // An agent may have led the reflog of the branch to a file of the user's.
    let requests = git.requests.lock().unwrap();
    let mut updates = requests.iter().filter(|request| {
        request.arguments.iter().any(|argument| argument == "refs/heads/main")
            && request.arguments.iter().any(|argument| argument == "update-ref")
    });
    assert!(updates.next().unwrap().confined_to.is_some());
    drop(requests);
    // A program of the user's own choice that an agent can write signs nothing.
    fixture.write_script(&fixture.path("signer"), script);
    let user = user(&fixture.path("signer"));
    let repository = open_confined(&fixture, confining(), &user, "other");
    repository.trust_configuration().unwrap();
    repository.begin_iteration(2).unwrap();
    fixture.write("a.txt", "again");
    let before = fixture.user_state();
    let error = repository.commit(2, "m", &CommitPolicy::default()).unwrap_err();
    assert!(matches!(error, GitError::SigningProgram { .. }), "{error}");
    let after = fixture.user_state();
    assert_eq!((after.refs, after.index, after.files), (before.refs, before.index, before.files));
    // Nor is one waited for.
    let waiting = fixture.folder.path().join("waiting");
    fixture.write_script(&waiting, "exec tail -f /dev/null");
    let user = format!("[commit]\ngpgSign = true\n[gpg]\nprogram = {}\n", waiting.display());
    let repository = open_confined(&fixture, confining(), &user, "third");
    let repository = repository.with_signing_timeout(Duration::from_millis(100));
    repository.trust_configuration().unwrap();
    repository.begin_iteration(3).unwrap();
    fixture.write("b.txt", "x");
    let head = fixture.git(&["rev-parse", "HEAD"]);
    repository.commit(3, "m", &CommitPolicy::default()).unwrap_err();
    assert_eq!(fixture.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(fixture.git(&["status", "--porcelain", "b.txt"]), "?? b.txt");
}

#[test]
fn adopts_nothing_that_an_earlier_run_s_agent_wrote() {
    let fixture = Fixture::committed();
    let kept = fixture.folder.path().join("kept");
    let begin = |run: &str| {
        let repository = open_confined(&fixture, confining(), "", run);
        repository.trust_as_before(&kept).map(|()| repository)
    };
    begin("first").unwrap();
    fixture.git(&["config", "filter.x.clean", "./evil"]);
    fixture.write_script(&fixture.path(".git/hooks/pre-commit"), "exit 0");
    for run in ["second", "third"] {
        let repository = begin(run).unwrap();
        let error = repository.begin_iteration(1).unwrap_err();
        let GitError::ConfigurationChanged(names) = error else { panic!("{error}") };
        assert_eq!(names, ["filter.x.clean", "hook pre-commit"]);
    }
    // The folder is the same wherever a person moves it.
    let moved = Fixture { workspace: fixture.workspace.with_file_name("moved"), ..Fixture::new() };
    fs::rename(&fixture.workspace, &moved.workspace).unwrap();
    let repository = open_confined(&moved, confining(), "", "moved");
    repository.trust_as_before(&kept).unwrap();
    repository.begin_iteration(1).unwrap_err();
    fs::rename(&moved.workspace, &fixture.workspace).unwrap();
    // A person accepts it, or takes it back.
    let repository = begin("third").unwrap();
    assert_eq!(repository.accept(&kept).unwrap(), ["filter.x.clean", "hook pre-commit"]);
    begin("fourth").unwrap().begin_iteration(1).unwrap();
    fixture.git(&["config", "--unset", "filter.x.clean"]);
    begin("fifth").unwrap().begin_iteration(1).unwrap_err();
    fixture.git(&["config", "filter.x.clean", "./evil"]);
    begin("sixth").unwrap().begin_iteration(1).unwrap();
}

#[test]
fn follows_no_link_of_an_earlier_run_to_another_repository() {
    let fixture = Fixture::committed();
    let kept = fixture.folder.path().join("kept");
    let begin = |run: &str| open_confined(&fixture, confining(), "", run).trust_as_before(&kept);
    begin("first").unwrap();
    let (other, moved) = (Fixture::committed(), fixture.folder.path().join("moved"));
    let away = || fs::rename(fixture.path(".git"), &moved).unwrap();
    let back = || {
        fs::remove_file(fixture.path(".git")).unwrap();
        fs::rename(&moved, fixture.path(".git")).unwrap();
    };
    let refused = |run: &str| {
        let error = begin(run).unwrap_err();
        assert!(matches!(error, GitError::RepositoryChanged { .. }), "{run}: {error}");
        assert!(error.to_string().contains(other.path(".git").to_str().unwrap()), "{error}");
    };
    away();
    fs::write(fixture.path(".git"), format!("gitdir: {}\n", other.path(".git").display())).unwrap();
    refused("file");
    back();
    away();
    symlink(other.path(".git"), fixture.path(".git")).unwrap();
    refused("link");
    back();
    fixture.write(".git/commondir", other.path(".git").to_str().unwrap());
    refused("commondir");
    fs::remove_file(fixture.path(".git/commondir")).unwrap();
    fs::rename(fixture.path(".git/objects"), fixture.path(".git/objects2")).unwrap();
    symlink(other.path(".git/objects"), fixture.path(".git/objects")).unwrap();
    refused("objects");
}

#[test]
fn writes_no_checkpoint_through_links_in_the_git_directory() {
    let fixture = Fixture::committed();
    let repository = fixture.begin(1);
    repository.checkpoint(&run(), 1, "m").unwrap();
    let home = fixture.folder.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("profile"), "mine\n").unwrap();
    let refused = |number| {
        fixture.write("a.txt", format!("work {number}"));
        let error = repository.checkpoint(&run(), number, "m").unwrap_err();
        assert!(matches!(error, GitError::LinkInRepository(_)), "{number}: {error}");
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(home.join("profile")).unwrap(), "mine\n");
    };
    let objects = fixture.path(".git/objects");
    let free =
        (0..=255).map(|byte| objects.join(format!("{byte:02x}"))).find(|path| !path.exists());
    let free = free.unwrap();
    symlink(&home, &free).unwrap();
    refused(2);
    fs::remove_file(&free).unwrap();
    let refs = fixture.path(".git/refs/ralph");
    fs::rename(&refs, fixture.folder.path().join("refs")).unwrap();
    symlink(&home, &refs).unwrap();
    refused(3);
    fs::remove_file(&refs).unwrap();
    // A line of it would have the name that the repository gives the user.
    let log = fixture.path(".git/logs/refs/ralph/0198-run/4");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    symlink(home.join("profile"), &log).unwrap();
    refused(4);
}

#[test]
fn commits_nothing_through_links_in_the_git_directory() {
    let home = tempfile::tempdir().unwrap();
    let profile = home.path().join("profile");
    for name in ["COMMIT_EDITMSG", "logs/HEAD", "logs", "refs/heads", "logs/refs/heads/main"] {
        let fixture = Fixture::committed();
        let repository = fixture.begin(1);
        fixture.write("a.txt", "work\n");
        fs::write(&profile, "mine\n").unwrap();
        let path = fixture.path(&format!(".git/{name}"));
        let target = if path.is_dir() { home.path() } else { &profile };
        fs::rename(&path, fixture.path("moved")).unwrap_or_default();
        symlink(target, &path).unwrap();
        let error = repository.commit(1, "m", &CommitPolicy::default()).unwrap_err();
        assert!(matches!(error, GitError::LinkInRepository(_)), "{name}: {error}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "{name}");
        assert_eq!(fs::read_to_string(&profile).unwrap(), "mine\n", "{name}");
    }
}
