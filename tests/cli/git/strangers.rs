//! Repositories of others are unharmed by every policy: compared object by object, reflog by reflog.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{git, init, set_mode, try_git, write_hook};
use crate::environment::TestEnvironment;

const POLICIES: [&str; 4] = ["off", "checkpoint", "iteration", "handoff"];

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
    let refs = refs.lines().filter(|line| !line.contains("refs/ralph/")).collect::<Vec<_>>();
    let mut files = list_files(&env.workspace());
    files.retain(|path, _| !path.starts_with(".git"));
    files.retain(|path, _| !own_files.iter().any(|own| path == Path::new(own)));
    let states = ["rebase-merge", "rebase-apply", "MERGE_HEAD", "MERGE_MSG", "ORIG_HEAD"];
    UserState {
        refs: refs.join("\n"),
        head: fs::read(folder.join("HEAD")).unwrap(),
        reflogs: list_files(&folder.join("logs")),
        staged: git(env, &["diff", "--cached", "--raw", "--no-abbrev"]),
        config: fs::read(folder.join("config")).unwrap(),
        stashes: git(env, &["stash", "list"]),
        hooks: list_files(&folder.join("hooks")),
        operation: states.iter().map(PathBuf::from).filter(|s| folder.join(s).exists()).collect(),
        files,
    }
}

/// Uncommitted, staged, stashed, ignored and secret work, a failing hook, a submodule.
fn stranger(mode: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    init(&env);
    set_mode(&env, mode);
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
fn unharmed(env: &TestEnvironment, what: &str) {
    let own = ["agent.txt", "done"];
    env.agent.call(1).script("echo 1 > agent.txt\n");
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    let (before, known) = (user_state(env, &own), objects(env));
    env.run().expect(0);
    assert_eq!(user_state(env, &own), before, "{what}");
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
    for mode in POLICIES {
        let env = stranger(mode);
        write_hook(&env, "pre-commit", "exit 1");
        unharmed(&env, mode);
    }
}

#[test]
fn with_a_detached_head() {
    for mode in POLICIES {
        let env = stranger(mode);
        git(&env, &["checkout", "-q", "--detach"]);
        unharmed(&env, mode);
    }
}

#[test]
fn during_a_rebase() {
    for mode in POLICIES {
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
        set_mode(&env, mode);
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
        set_mode(&env, mode);
        env.write("mine.txt", "not committed\n");
        env.agent.call(1).script("echo 1 > agent.txt\n");
        env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
        env.run().expect(0);
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
    let env = stranger("iteration");
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
