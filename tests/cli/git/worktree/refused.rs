//! Where no worktree is made: refusals, and what only says what would be.

use std::fs;

use super::{branches, git, init, repository, run_branches, seen, set_mode, worktrees};
use crate::environment::TestEnvironment;

#[track_caller]
fn refused(env: &TestEnvironment, why: &str) {
    for args in [&["run"][..], &["config", "check"], &["run", "--dry-run"]] {
        env.ralph(args).expect(78).says("git.worktree").says(why);
    }
    env.ralph(&["doctor"]).expect(78).says("FAIL  worktree").says(why);
    assert!(!env.has_state() && seen(env).is_empty(), "something was begun");
}

#[test]
fn a_repository_that_no_worktree_can_be_made_of_is_refused_with_the_reason() {
    let none = TestEnvironment::new();
    set_mode(&none, "off", "");
    refused(&none, "expected a git repository");

    let unborn = TestEnvironment::new();
    set_mode(&unborn, "off", "");
    init(&unborn);
    refused(&unborn, "branch main: has no commit");

    let taken = repository("off");
    git(&taken, &["branch", "ralph"]);
    refused(&taken, "no branch can be called ralph/");

    let bare = TestEnvironment::new();
    set_mode(&bare, "off", "");
    git(&bare, &["init", "-q", "--bare", "."]);
    refused(&bare, "a bare repository has no files to work on");

    let inside = TestEnvironment::new();
    init(&inside);
    git(&inside, &["commit", "-q", "--allow-empty", "-m", "first"]);
    set_mode(&inside, "off", "");
    let text = inside.read("ralph.toml").replacen("[run]\n", "[run]\nworkspace = \"sub\"\n", 1);
    inside.write("ralph.toml", text);
    fs::create_dir(inside.path("sub")).unwrap();
    fs::rename(inside.path("PROMPT.md"), inside.path("sub/PROMPT.md")).unwrap();
    inside
        .ralph(&["run", "--set", "run.prompt=sub/PROMPT.md"])
        .expect(78)
        .says("is not part of commit");
}

#[test]
fn a_template_and_a_worktree_exclude_each_other() {
    let env = repository("off");
    let ended = env.ralph(&["run", "--set", "run.template=t"]).expect(78);
    ended.says("git.worktree").says("template");
}

#[test]
fn a_dry_run_and_doctor_say_what_would_be_made_and_make_nothing() {
    let env = repository("iteration");
    let (before, objects) = (branches(&env), git(&env, &["count-objects", "-v"]));
    let ended = env.ralph(&["run", "--dry-run"]).expect(0);
    ended.says("to be made: a worktree").says("on a new branch ralph/").says("(main)");
    let plan = env.ralph(&["run", "--dry-run", "--json"]).expect(0);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!(
        (&plan["worktree"]["exists"], &plan["worktree"]["uncommitted"]),
        (&false.into(), &0.into())
    );
    env.ralph(&["doctor"]).says("ok    worktree").says("on a new branch ralph/");
    assert_eq!((branches(&env), git(&env, &["count-objects", "-v"])), (before, objects));
    assert!(worktrees(&env).is_empty());
    assert!(!env.root().join("home/.local/state/ralph-orchestrator-worktrees").exists());
    // Of a run that has begun.
    env.ralph(&["run", "--once"]).expect(0);
    let branch = run_branches(&env).remove(0);
    env.ralph(&["run", "--dry-run"]).expect(0).says(&branch);
    env.ralph(&["doctor"]).says(&branch);
    env.ralph(&["run", "--dry-run", "--restart"]).expect(0).says("to be made");
    assert_eq!(worktrees(&env).len(), 1);
}

#[test]
fn worktrees_inside_of_the_repository_are_refused() {
    let mut env = repository("off");
    let inside = env.path("state").display().to_string();
    env.var("XDG_STATE_HOME", &inside);
    let ended =
        env.ralph(&["run", "--set", &format!("state.dir=\"{}\"", env.root().join("s").display())]);
    ended.expect(78).says("git.worktree").says("set XDG_STATE_HOME");
    assert!(!env.path("state").exists());
}

#[test]
fn an_agent_that_starts_a_run_in_its_worktree_begins_no_other() {
    let env = repository("off");
    let bin = env!("CARGO_BIN_EXE_ralph-orchestrator");
    env.agent
        .default_call()
        .script(&format!("'{bin}' run > inner.log 2>&1; echo $? >> inner.log; touch done\n"));
    env.agent.default_call().out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    let trees = worktrees(&env);
    assert_eq!((trees.len(), env.agent.calls()), (1, 1));
    let inner = fs::read_to_string(trees[0].join("inner.log")).unwrap();
    assert!(inner.contains("inside of run") && inner.ends_with("\n75\n"), "{inner}");
}
