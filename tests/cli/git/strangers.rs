//! Repositories of others are unharmed by every policy: compared object by object, reflog by reflog.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{git, init, try_git, write_hook};
use crate::environment::TestEnvironment;

const POLICIES: [&str; 4] = ["off", "checkpoint", "iteration", "handoff"];
/// The branches of runs in worktrees of their own.
const RUN_BRANCHES: &str = "refs/heads/ralph/";

/// What `[git]` says.
#[derive(Clone, Copy, Debug)]
struct Mode {
    commit: &'static str,
    worktree: bool,
}

impl Mode {
    /// Every policy in the checkout itself, and the one that commits most in a worktree of the run's own.
    fn all() -> impl Iterator<Item = Self> {
        let in_worktree = Self { commit: "iteration", worktree: true };
        POLICIES.map(Self::in_checkout).into_iter().chain([in_worktree])
    }

    const fn in_checkout(commit: &'static str) -> Self {
        Self { commit, worktree: false }
    }

    /// The agent's files in the user's checkout: none if it works elsewhere.
    const fn own_files(self) -> &'static [&'static str] {
        if self.worktree { &[] } else { &["agent.txt", "done"] }
    }

    fn set(self, env: &TestEnvironment) {
        let Self { commit, worktree } = self;
        env.config(&format!("[git]\ncommit = \"{commit}\"\nworktree = {worktree}\n"));
    }
}

/// All of the user's in a repository.
#[derive(Debug, PartialEq, Eq)]
struct UserState {
    refs: String,
    head: Vec<u8>,
    reflogs: BTreeMap<PathBuf, Vec<u8>>,
    staged: String,
    config: Vec<u8>,
    stashes: String,
    hooks: BTreeMap<PathBuf, Vec<u8>>,
    operation: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

fn list_files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_path_buf();
                files.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    files
}

fn objects(env: &TestEnvironment) -> BTreeSet<String> {
    let all = git(env, &["cat-file", "--batch-all-objects", "--batch-check"]);
    all.lines().map(str::to_owned).collect()
}

fn user_state(env: &TestEnvironment, own_files: &[&str]) -> UserState {
    let folder = env.path(".git");
    let refs = git(env, &["for-each-ref"]);
    let is_users = |line: &&str| !line.contains("refs/ralph/") && !line.contains(RUN_BRANCHES);
    let refs = refs.lines().filter(is_users).collect::<Vec<_>>();
    let mut reflogs = list_files(&folder.join("logs"));
    reflogs.retain(|log, _| !log.starts_with(RUN_BRANCHES));
    let mut files = list_files(&env.workspace());
    files.retain(|path, _| !path.starts_with(".git"));
    files.retain(|path, _| !own_files.iter().any(|own| path == Path::new(own)));
    let states = ["rebase-merge", "rebase-apply", "MERGE_HEAD", "MERGE_MSG", "ORIG_HEAD"];
    UserState {
        refs: refs.join("\n"),
        head: fs::read(folder.join("HEAD")).unwrap(),
        reflogs,
        staged: git(env, &["diff", "--cached", "--raw", "--no-abbrev"]),
        config: fs::read(folder.join("config")).unwrap(),
        stashes: git(env, &["stash", "list"]),
        hooks: list_files(&folder.join("hooks")),
        operation: states.iter().map(PathBuf::from).filter(|s| folder.join(s).exists()).collect(),
        files,
    }
}

/// Uncommitted, staged, stashed, ignored and secret work, a failing hook, a submodule.
fn stranger(mode: Mode) -> TestEnvironment {
    let env = TestEnvironment::new();
    init(&env);
    mode.set(&env);
    env.write("a.txt", "one\n").write("b.txt", "one\n").write(".gitignore", "ignored/\n.env\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "first"]);
    env.write("a.txt", "stashed\n");
    git(&env, &["stash", "push", "-q", "-m", "mine"]);
    git(&env, &["branch", "other"]);
    let part = env.root().join("part");
    fs::create_dir(&part).unwrap();
    let at = part.display().to_string();
    git(&env, &["-C", &at, "init", "-qb", "main"]);
    git(
        &env,
        &[
            "-C",
            &at,
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@x",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "part",
        ],
    );
    git(&env, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &at, "part"]);
    git(&env, &["commit", "-qm", "a submodule"]);
    env.write("a.txt", "staged\n");
    git(&env, &["add", "a.txt"]);
    env.write("a.txt", "edited after staging\n").write("b.txt", "edited\n");
    env.write("untracked.txt", "mine\n").write("ignored/x", "build\n").write(".env", "TOKEN=1\n");
    env.write("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n");
    env
}

/// Runs an agent that makes files of its own, in a state in which no commit is possible or allowed.
#[track_caller]
fn unharmed(env: &TestEnvironment, mode: Mode) {
    let (own, what) = (mode.own_files(), format!("{mode:?}"));
    env.agent.call(1).script("echo 1 > agent.txt\n");
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    let (before, known) = (user_state(env, own), objects(env));
    env.run().expect(0);
    assert_eq!(user_state(env, own), before, "{what}");
    assert!(known.is_subset(&objects(env)), "objects are gone: {what}");
    let fsck = try_git(env, &["fsck", "--strict", "--no-dangling"]);
    assert!(fsck.status.success(), "{what}: {fsck:?}");
    let secrets = git(env, &["log", "--all", "--format=", "--name-only"]);
    for secret in [".env", "id_rsa", "ignored/x"] {
        assert!(!secrets.lines().any(|name| name == secret), "{secret} was stored: {what}");
    }
}

#[test]
fn with_a_failing_hook() {
    for mode in Mode::all() {
        let env = stranger(mode);
        write_hook(&env, "pre-commit", "exit 1");
        unharmed(&env, mode);
    }
}

#[test]
fn with_a_detached_head() {
    for mode in Mode::all() {
        let env = stranger(mode);
        git(&env, &["checkout", "-q", "--detach"]);
        unharmed(&env, mode);
    }
}

#[test]
fn during_a_rebase() {
    for mode in Mode::all() {
        let env = stranger(mode);
        git(&env, &["stash", "push", "-q", "-m", "all"]);
        git(&env, &["checkout", "-qb", "topic", "HEAD~1"]);
        env.write("b.txt", "topic\n");
        git(&env, &["commit", "-qam", "topic"]);
        git(&env, &["checkout", "-q", "main"]);
        env.write("b.txt", "main\n");
        git(&env, &["commit", "-qam", "main"]);
        assert!(!try_git(&env, &["rebase", "-q", "main", "topic"]).status.success());
        // The conflict is the user's, and so is the configuration that the stash took away.
        mode.set(&env);
        env.write("PROMPT.md", "# Task\n\nMake a file called done.\n");
        assert!(env.path(".git/rebase-merge").exists());
        unharmed(&env, mode);
    }
}

#[test]
fn an_unborn_branch_gets_only_the_agents_files() {
    for mode in POLICIES {
        let env = TestEnvironment::new();
        init(&env);
        Mode::in_checkout(mode).set(&env);
        env.write("mine.txt", "not committed\n");
        env.agent.call(1).script("echo 1 > agent.txt\n");
        env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
        env.write(".env", "TOKEN=1\n").write("staged.txt", "staged\n");
        git(&env, &["add", "staged.txt"]);
        let own = ["agent.txt", "done"];
        let (before, known) = (user_state(&env, &own), objects(&env));
        env.run().expect(0);
        assert!(known.is_subset(&objects(&env)), "objects are gone: {mode}");
        if mode != "iteration" {
            assert_eq!(user_state(&env, &own), before, "{mode}");
        }
        if mode == "iteration" {
            assert_eq!(git(&env, &["ls-tree", "--name-only", "main"]), "agent.txt\ndone");
        } else {
            assert!(!try_git(&env, &["rev-parse", "-q", "--verify", "HEAD"]).status.success());
        }
        assert_eq!(env.read("mine.txt"), "not committed\n");
    }
}

#[test]
fn commits_take_only_the_agents_files_and_leave_the_rest_as_it_was() {
    let env = stranger(Mode::in_checkout("iteration"));
    let own = ["agent.txt", "done"];
    env.agent.call(1).script("echo 1 > agent.txt; echo agent >> b.txt; echo k > .env\n");
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    let (before, known) = (user_state(&env, &own), objects(&env));
    let head = git(&env, &["rev-parse", "HEAD"]);
    env.run().expect(0);
    let after = user_state(&env, &own);
    assert_eq!(git(&env, &["diff", "--name-only", &head, "HEAD"]), "agent.txt\ndone");
    assert_eq!(
        (after.staged, after.stashes, after.config),
        (before.staged, before.stashes, before.config)
    );
    assert_eq!((after.hooks, after.head), (before.hooks, before.head));
    for (log, content) in &before.reflogs {
        assert!(after.reflogs[log].starts_with(content), "{}", log.display());
    }
    assert!(known.is_subset(&objects(&env)));
    assert_eq!(env.read("b.txt"), "edited\nagent\n", "the user's file stays uncommitted");
}

#[test]
fn a_worktree_takes_the_commits_of_a_stranger_s_repository_and_the_checkout_nothing() {
    let env = stranger(Mode { commit: "iteration", worktree: true });
    env.agent.call(1).script("echo 1 > agent.txt; echo agent >> b.txt; echo k > .env\n");
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    let (before, known) = (user_state(&env, &[]), objects(&env));
    let index = fs::read(env.path(".git/index")).unwrap();
    env.run().expect(0);
    assert_eq!(user_state(&env, &[]), before);
    assert_eq!(fs::read(env.path(".git/index")).unwrap(), index);
    assert!(known.is_subset(&objects(&env)));
    let branch = git(&env, &["for-each-ref", "--format=%(refname:short)", "refs/heads/ralph"]);
    assert_eq!(git(&env, &["diff", "--name-only", "main", &branch]), "agent.txt\nb.txt\ndone");
}

#[test]
fn an_unborn_branch_begins_no_worktree_and_nothing_is_touched() {
    for commit in POLICIES {
        let env = TestEnvironment::new();
        init(&env);
        Mode { commit, worktree: true }.set(&env);
        let before = list_files(&env.workspace());
        env.run().expect(78).says("has no commit");
        assert_eq!(list_files(&env.workspace()), before, "{commit}");
    }
}
