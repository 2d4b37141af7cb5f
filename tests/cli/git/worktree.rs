//! `[git] worktree`: the run works in a git worktree of its own, and the user's checkout is never touched.

mod crash;
mod refused;
mod resumed;

use std::fs;
use std::path::{Path, PathBuf};

use super::{git, init, try_git, write_hook};
use crate::environment::TestEnvironment;

/// A repository with one commit that has everything but the configuration; runs work in worktrees.
fn repository(commit: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    set_mode(&env, commit, "");
    init(&env);
    env.write("a.txt", "one\n").write(".gitignore", "ignored/\n*.log\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "first"]);
    env
}

fn set_mode(env: &TestEnvironment, commit: &str, more: &str) {
    env.config(&format!("[git]\ncommit = \"{commit}\"\nworktree = true\n{more}"));
}

/// An agent that says where it works, and is done at once.
fn done_at_once(env: &TestEnvironment) {
    let seen = env.root().join("seen").display().to_string();
    let call = env.agent.default_call();
    let call = call.script(&format!(
        "pwd -P >> '{seen}'; git branch --show-current >> '{seen}'; touch done\n"
    ));
    call.out("<promise>COMPLETE: made it</promise>\n");
}

/// Where agents have worked, and on which branch, in order.
fn seen(env: &TestEnvironment) -> Vec<(PathBuf, String)> {
    let text = fs::read_to_string(env.root().join("seen")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.chunks(2).map(|pair| (pair[0].into(), pair[1].to_owned())).collect()
}

/// The folders of all worktrees but the user's.
fn worktrees(env: &TestEnvironment) -> Vec<PathBuf> {
    let all = git(env, &["worktree", "list", "--porcelain"]);
    let folders = all.lines().filter_map(|line| line.strip_prefix("worktree "));
    folders.skip(1).map(PathBuf::from).collect()
}

fn branches(env: &TestEnvironment) -> Vec<String> {
    let all = git(env, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    all.lines().map(str::to_owned).collect()
}

/// The branches that were made for runs.
fn run_branches(env: &TestEnvironment) -> Vec<String> {
    branches(env).into_iter().filter(|branch| branch.starts_with("ralph/")).collect()
}

/// What a run must leave as it is: every file, the index, HEAD and its branch.
fn checkout(env: &TestEnvironment) -> (String, String, Vec<u8>, Vec<u8>) {
    (
        git(env, &["status", "--porcelain", "--untracked-files=all", "--ignored"]),
        git(env, &["for-each-ref", "refs/heads/main", "refs/stash"]),
        fs::read(env.path(".git/HEAD")).unwrap(),
        fs::read(env.path(".git/index")).unwrap(),
    )
}

#[test]
fn the_agent_and_the_checks_work_in_the_worktree_and_the_checkout_is_unchanged() {
    let env = repository("iteration");
    let before = checkout(&env);
    done_at_once(&env);
    let ended = env.run().expect(0);
    assert_eq!(checkout(&env), before);
    let (trees, made) = (worktrees(&env), run_branches(&env));
    assert_eq!((trees.len(), made.len()), (1, 1), "{trees:?} {made:?}");
    assert_eq!(seen(&env), [(trees[0].clone(), made[0].clone())]);
    assert!(trees[0].join("done").exists() && !env.path("done").exists());
    let states = env.state().parent().unwrap().to_owned();
    assert!(!trees[0].starts_with(&states), "an agent would be beside the state");
    // The branch has the work, and the user is told what to do with it.
    assert_eq!(git(&env, &["diff", "--name-only", "main", &made[0]]), "done");
    let run = env.status()["run"].as_str().unwrap().to_owned();
    assert!(run.starts_with(made[0].trim_start_matches("ralph/")), "{run}");
    let merge = format!("git -C {} merge {}", env.workspace().display(), made[0]);
    let remove = format!("worktree remove {}", trees[0].display());
    ended.says(&merge).says(&remove).says("1 commit since");
    env.ralph(&["status"]).expect(0).says(&merge).says(&remove);
    let status = env.status();
    assert_eq!(status["worktree"]["path"], trees[0].to_str().unwrap());
    assert_eq!(
        (&status["worktree"]["commits"], &status["worktree"]["uncommitted"]),
        (&1.into(), &0.into())
    );
    // In the folder that was named, it is the same run.
    let there = |args: &[&str]| env.command(args).current_dir(&trees[0]).output().unwrap();
    let status = String::from_utf8(there(&["status"]).stdout).unwrap();
    assert!(status.contains(&merge), "{status}");
    let again = there(&["run"]);
    let said = String::from_utf8([again.stdout, again.stderr].concat()).unwrap();
    assert!(
        said.contains("already completed") && said.contains("is the worktree of its run"),
        "{said}"
    );
    assert_eq!((worktrees(&env).len(), env.agent.calls()), (1, 1));
    // Only there it is done.
    assert_eq!(there(&["verify"]).status.code(), Some(0));
    assert_ne!(env.ralph(&["verify"]).code, Some(0));
    // What was said works.
    git(&env, &["merge", "-q", &made[0]]);
    git(&env, &["worktree", "remove", trees[0].to_str().unwrap()]);
    assert!(env.path("done").exists());
    env.ralph(&["status"]).expect(0).says("does not exist any more");
    env.run().expect(0).says("already completed");
    env.ralph(&["diff", "0", "1", "--stat"]).expect(0).says("done (new)");
    env.ralph(&["rollback", "--list"]).expect(0).says("after iteration 1");
    env.ralph(&["rollback", "--to", "0"]).expect(78).says("was removed");
    assert!(env.path("done").exists());
    // Also where the checkout is now.
    let moved = env.root().join("moved");
    fs::rename(env.workspace(), &moved).unwrap();
    for args in [&["diff", "0", "1", "--stat"][..], &["rollback", "--list"]] {
        let output = env.command(args).current_dir(&moved).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    }
}

#[test]
fn a_clone_in_the_place_of_a_checkout_that_was_moved_has_nothing_of_its_run() {
    let mut env = repository("iteration");
    env.unset("RALPH_TRUST");
    done_at_once(&env);
    env.run().expect(0);
    let moved = env.root().join("moved");
    fs::rename(env.workspace(), &moved).unwrap();
    let mut clone = env.program(Path::new("git"));
    let clone = clone.args(["clone", "-q"]).args([&moved, &env.workspace()]);
    assert!(clone.current_dir(env.root()).status().unwrap().success());
    env.run().expect(65).says("another folder");
    let there = |args: &[&str]| env.command(args).current_dir(&moved).output().unwrap();
    assert_eq!(there(&["run"]).status.code(), Some(0));
    env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(env.agent.calls(), 2);
    let shown = String::from_utf8(there(&["status"]).stdout).unwrap();
    assert!(shown.contains("completed"), "{shown}");
}

#[test]
fn a_clone_does_not_go_on_in_the_worktree_of_the_checkout_that_it_has_taken_the_place_of() {
    let mut env = repository("iteration");
    env.unset("RALPH_TRUST");
    env.agent.default_call().out("hm\n");
    env.ralph(&["run", "--once"]).expect(0);
    let tree = worktrees(&env).remove(0);
    let moved = env.root().join("moved");
    fs::rename(env.workspace(), &moved).unwrap();
    let mut clone = env.program(Path::new("git"));
    let clone = clone.args(["clone", "-q"]).args([&moved, &env.workspace()]);
    assert!(clone.current_dir(env.root()).status().unwrap().success());
    for command in ["run", "doctor"] {
        let refused = env.ralph(&[command]).expect(65);
        refused.says("another folder").says("if that was moved, `run` there goes on");
    }
    env.ralph(&["status"]).expect(0).says("has no such worktree");
    env.ralph(&["trust"]).expect(0);
    let refused = env.run().expect(78);
    let repair = format!("`git worktree repair {}` connects them", tree.display());
    refused
        .says("has no such worktree")
        .says(&repair)
        .says("here `run --restart` begins a new run");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn without_commits_the_summary_says_that_the_work_is_not_in_git() {
    let env = repository("off");
    done_at_once(&env);
    let ended = env.run().expect(0);
    ended.says("no commit since").says("1 file there");
    assert_eq!(env.status()["worktree"]["uncommitted"], 1);
}

#[test]
fn commands_find_the_run_from_the_checkout() {
    let env = repository("checkpoint");
    done_at_once(&env);
    env.run().expect(0);
    env.ralph(&["log"]).expect(0).says("claim (promise, iteration 1)");
    env.ralph(&["why"]).expect(0);
    env.ralph(&["diff", "--stat"]).expect(0).says("done (new)");
    let tree = worktrees(&env).remove(0);
    env.ralph(&["rollback", "--to", "0"]).expect(0);
    assert!(!tree.join("done").exists());
    assert_eq!(env.ralph(&["runs", "--json"]).expect(0).stdout.matches("\"run\":").count(), 1);
}

#[test]
fn uncommitted_files_are_counted_and_only_the_prompt_is_copied() {
    let env = TestEnvironment::new();
    set_mode(&env, "iteration", "");
    init(&env);
    env.write("a.txt", "one\n");
    git(&env, &["add", "a.txt"]);
    git(&env, &["commit", "-qm", "first"]);
    env.write("a.txt", "mine\n").write("new.txt", "mine\n");
    done_at_once(&env);
    let ended = env.run().expect(0);
    ended.says("warning: 4 files in").says("but for PROMPT.md, copied as in your checkout");
    let tree = worktrees(&env).remove(0);
    assert_eq!(fs::read(tree.join("PROMPT.md")).unwrap(), fs::read(env.path("PROMPT.md")).unwrap());
    assert_eq!(fs::read_to_string(tree.join("a.txt")).unwrap(), "one\n");
    assert!(!tree.join("new.txt").exists());
    let branch = run_branches(&env).remove(0);
    assert_eq!(git(&env, &["diff", "--name-only", "main", &branch]), "done");
    // The copy is the user's own, so nothing is lost with the worktree.
    assert_eq!(env.status()["worktree"]["uncommitted"], 0);
    let remove = format!("worktree remove --force {}", tree.display());
    ended.says(&remove);
    fs::write(tree.join("PROMPT.md"), "edited by the agent").unwrap();
    assert_eq!(env.status()["worktree"]["uncommitted"], 1);
    env.ralph(&["status"]).expect(0).says(&format!("worktree remove {}", tree.display()));
}

#[test]
fn an_edited_prompt_is_given_as_the_user_sees_it() {
    let env = repository("off");
    env.write("PROMPT.md", "# Task\n\nEdited and not committed.\n");
    done_at_once(&env);
    env.run().expect(0);
    let given = String::from_utf8(env.agent.stdin(1)).unwrap();
    assert!(given.contains("Edited and not committed."), "{given}");
}

#[test]
fn a_workspace_within_the_repository_is_the_same_folder_of_the_worktree() {
    let env = TestEnvironment::new();
    init(&env);
    env.write("sub/deep/PROMPT.md", "# Task\n\nMake a file called done.\n").write("top.txt", "x\n");
    git(&env, &["add", "sub", "top.txt"]);
    git(&env, &["commit", "-qm", "first"]);
    set_mode(&env, "iteration", "");
    let text = env.read("ralph.toml").replacen(
        "[run]\n",
        "[run]\nworkspace = \"sub/deep\"\nprompt = \"sub/deep/PROMPT.md\"\n",
        1,
    );
    env.write("ralph.toml", text);
    done_at_once(&env);
    env.run().expect(0);
    let tree = worktrees(&env).remove(0);
    assert_eq!(seen(&env)[0].0, tree.join("sub/deep"));
    assert!(tree.join("top.txt").exists() && tree.join("sub/deep/done").exists());
    assert!(!env.path("sub/deep/done").exists());
}

#[test]
fn a_linked_worktree_a_detached_head_and_a_rebase_are_no_obstacle() {
    let env = repository("iteration");
    git(&env, &["checkout", "-q", "--detach"]);
    done_at_once(&env);
    env.run().expect(0).says("(HEAD is detached)");
    git(&env, &["checkout", "-q", "main"]);

    env.write("a.txt", "main\n");
    git(&env, &["commit", "-qam", "main"]);
    git(&env, &["checkout", "-qb", "topic", "HEAD~1"]);
    env.write("a.txt", "topic\n");
    git(&env, &["commit", "-qam", "topic"]);
    assert!(!try_git(&env, &["rebase", "-q", "main"]).status.success());
    let before = git(&env, &["status"]);
    env.ralph(&["run", "--restart"]).expect(0).says("warning: a rebase is in progress");
    assert_eq!(git(&env, &["status"]), before);

    let other = TestEnvironment::new();
    fs::remove_dir_all(other.workspace()).unwrap();
    git(
        &env,
        &["worktree", "add", "-q", "-b", "linked", other.workspace().to_str().unwrap(), "main"],
    );
    set_mode(&other, "iteration", "");
    done_at_once(&other);
    other.run().expect(0);
    assert!(seen(&other)[0].1.starts_with("ralph/"));
    assert_eq!(git(&other, &["branch", "--show-current"]), "linked");
}

#[test]
fn submodules_that_are_not_checked_out_are_named() {
    let env = repository("off");
    let part = env.root().join("part");
    fs::create_dir(&part).unwrap();
    let at = part.display().to_string();
    git(&env, &["-C", &at, "init", "-qb", "main"]);
    let commit = ["-C", &at, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q"];
    git(&env, &[&commit[..], &["--allow-empty", "-m", "part"]].concat());
    git(&env, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &at, "part"]);
    git(&env, &["commit", "-qm", "a submodule"]);
    done_at_once(&env);
    env.run().expect(0).says("(part)").says("submodule update --init");
}

#[test]
fn hooks_run_and_one_that_fails_is_a_warning() {
    let env = repository("off");
    let ran = env.root().join("hook");
    write_hook(
        &env,
        "post-checkout",
        &format!("pwd >> '{}'; echo 'no luck' >&2; exit 3", ran.display()),
    );
    done_at_once(&env);
    env.run().expect(0).says("no luck").says("status 3");
    let tree = worktrees(&env).remove(0);
    assert_eq!(fs::read_to_string(ran).unwrap().trim(), tree.to_str().unwrap());
}

#[test]
fn all_items_of_a_backlog_share_one_worktree_and_branch() {
    let env = TestEnvironment::new();
    init(&env);
    let list = r#"{"features": [
  {"id": "one", "name": "First", "description": "1", "status": "pending", "priority": 2},
  {"id": "two", "name": "Second", "description": "2", "status": "pending", "priority": 1}
]}
"#;
    let list = &list.replace("\"priority\"", "\"acceptance_criteria\": [\"x\"], \"priority\"");
    env.write("feature-list.json", list);
    git(&env, &["add", "PROMPT.md", "feature-list.json"]);
    git(&env, &["commit", "-qm", "first"]);
    set_mode(&env, "iteration", "[backlog]\nkind = \"json\"\npath = \"feature-list.json\"\n");
    done_at_once(&env);
    env.ralph(&["run", "--once"]).expect(0);
    env.ralph(&["next"]).expect(0).says("two  Second");
    env.run().expect(0).says("git -C").says("merge ralph/");
    let (trees, made) = (worktrees(&env), run_branches(&env));
    assert_eq!((trees.len(), made.len()), (1, 1));
    let place = (trees[0].clone(), made[0].clone());
    assert_eq!(seen(&env), [place.clone(), place]);
    assert_eq!(&env.read("feature-list.json"), list, "the user's is as it was");
    let there = fs::read_to_string(trees[0].join("feature-list.json")).unwrap();
    assert_eq!(there.matches("completed").count(), 2, "{there}");
    env.ralph(&["status"])
        .expect(0)
        .says("2/2")
        .says(&made[0])
        .says("before you remove the worktree");
    env.run().expect(0).says("already completed");
    env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(worktrees(&env).len(), 2);
}

#[test]
fn an_agent_in_a_sandbox_reads_the_repository_and_writes_only_the_worktree() {
    let env = repository("iteration");
    let agent = env.root().join("agent").display().to_string();
    set_mode(
        &env,
        "iteration",
        &format!("[sandbox]\nmode = \"landlock\"\nwrite = [\"{agent}\"]\n"),
    );
    let home = env.workspace().display().to_string();
    env.agent.default_call().script(&format!(
        "git log -1 > /dev/null && ! touch '{home}/x' && ! touch '{home}/.git/x' && touch done\n"
    ));
    env.agent.default_call().out("<promise>COMPLETE: made it</promise>\n");
    let ended = env.run();
    if ended.code == Some(69) {
        ended.says("Landlock");
        return;
    }
    ended.expect(0);
    assert!(!env.path("x").exists() && !env.path(".git/x").exists());
    let branch = run_branches(&env).remove(0);
    assert_eq!(git(&env, &["diff", "--name-only", "main", &branch]), "done");
}

#[test]
fn hooks_and_filters_of_a_new_worktree_are_confined_with_a_sandbox() {
    let env = repository("off");
    let (root, agent) = (env.root(), env.root().join("agent").display().to_string());
    let sandbox = format!("[sandbox]\nmode = \"landlock\"\nwrite = [\"{agent}\"]\n");
    set_mode(&env, "off", &sandbox);
    let body =
        |name: &str| format!("touch '{agent}/{name}'; touch '{}/escaped-{name}'", root.display());
    for name in ["post-checkout", "reference-transaction"] {
        write_hook(&env, name, &format!("{}; exit 0", body(name)));
    }
    for name in ["smudge", "clean"] {
        let key = format!("filter.own.{name}");
        git(&env, &["config", &key, &format!("sh -c \"{}; cat\"", body(name))]);
    }
    env.write(".git/info/attributes", "a.txt filter=own\n").write("a.txt", "two\n");
    done_at_once(&env);
    let seen = root.join("seen");
    fs::write(&seen, "").unwrap();
    let write = format!("sandbox.write=['{agent}','{}']", seen.display());
    let ended = env.ralph(&["run", "--set", &write]);
    if ended.code == Some(69) {
        ended.says("Landlock");
        return;
    }
    ended.expect(0);
    assert!(worktrees(&env).remove(0).join("a.txt").exists());
    for name in ["post-checkout", "reference-transaction", "smudge"] {
        assert!(root.join("agent").join(name).exists(), "{name} ran");
    }
    for name in ["post-checkout", "reference-transaction", "smudge", "clean"] {
        assert!(!root.join(format!("escaped-{name}")).exists(), "{name} was not confined");
    }
}

#[test]
fn a_question_is_answered_and_a_run_is_stopped_from_the_checkout() {
    let env = repository("off");
    env.agent.call(1).out("<promise>NEEDS_HUMAN: which name?</promise>\n");
    let early = "remove      not before `run` has completed: git -C";
    env.run().expect(2).says(early);
    env.ralph(&["answer", "done"]).expect(0);
    let gate = env.fifo("gate");
    env.agent.call(2).script(&format!("echo up > '{}'; sleep 600\n", gate.display()));
    let mut running = env.start(&["run"]);
    assert_eq!(fs::read_to_string(&gate).unwrap(), "up\n");
    env.ralph(&["stop"]).expect(0);
    running.wait().expect(143);
    done_at_once(&env);
    let ended = env.run().expect(0);
    assert!(!ended.stdout.contains(early), "{}", ended.stdout);
    assert_eq!(worktrees(&env), [seen(&env)[0].0.clone()]);
    let given = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(given.contains("which name?"), "{given}");
}

#[test]
fn where_the_agent_has_moved_head_nobody_is_advised_to_commit() {
    let env = repository("off");
    let call = env.agent.default_call();
    call.script("git symbolic-ref HEAD refs/heads/main; touch done\n")
        .out("<promise>COMPLETE: made it</promise>\n");
    let ended = env.run().expect(0);
    ended.says("its HEAD or its .git file was changed");
    assert!(!ended.stderr.contains("add -A"), "{}", ended.stderr);
    assert_eq!(env.status()["worktree"]["on_branch"], false);
}
