//! What each policy stores, and says.

use super::{checkpoints, committed, git, set_mode, try_git, two_iterations, write_hook};
use crate::environment::TestEnvironment;

#[test]
fn nothing_is_stored_by_default() {
    let env = committed("off");
    env.config("");
    two_iterations(&env);
    let before = git(&env, &["rev-parse", "HEAD"]);
    env.run().expect(0);
    assert_eq!(git(&env, &["rev-parse", "HEAD"]), before);
    assert!(checkpoints(&env).is_empty());
    assert!(env.records("saved").is_empty());
}

#[test]
fn a_checkpoint_is_made_of_the_start_and_of_each_iteration_and_nothing_else_changes() {
    let env = committed("checkpoint");
    two_iterations(&env);
    let before = git(&env, &["rev-parse", "HEAD"]);
    let ended = env.run().expect(0);
    ended.says("checkpoint ");
    assert_eq!(checkpoints(&env), ["0", "1", "2"]);
    assert_eq!(git(&env, &["rev-parse", "HEAD"]), before);
    assert_eq!(git(&env, &["status", "--porcelain"]), "?? done\n?? work.txt");
    let run = git(&env, &["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    let first = run.lines().nth(1).unwrap();
    assert_eq!(git(&env, &["show", &format!("{first}:work.txt")]), "1");
    let saved = env.records("saved");
    assert_eq!(saved.len(), 3);
    assert_eq!(saved[1]["iteration"], 1);
    assert_eq!(saved[1]["checkpoint"], git(&env, &["rev-parse", first]));
    let status = env.status();
    assert_eq!(status["git"]["checkpoint"], saved[2]["checkpoint"]);
    assert_eq!(status["git"]["iteration"], 2);
    env.ralph(&["log"]).expect(0).says("checkpoint ").says("of the run's start");
    env.ralph(&["log", "2"]).expect(0).says("checkpoint ").says("of iteration 2");
}

#[test]
fn a_commit_of_an_iteration_has_its_files_and_says_what_and_why() {
    let env = committed("iteration");
    env.write("a.txt", "the user's change\n");
    two_iterations(&env);
    env.run().expect(0).says("commit ");
    let subjects = git(&env, &["log", "--reverse", "--format=%s|%an|%ae"]);
    let subjects: Vec<&str> = subjects.lines().skip(1).collect();
    assert_eq!(
        subjects,
        [
            "Add work.txt (iteration 1)|Ada User|ada@example.org",
            "the work is done (iteration 2)|Ada User|ada@example.org",
        ]
    );
    let body = git(&env, &["log", "-1", "--format=%b"]);
    for line in ["Claimed (promise):", "- the work is done", "- done (new)", "Ralph-Iteration: 2"] {
        assert!(body.contains(line), "{line} in {body}");
    }
    let files = git(&env, &["show", "--format=", "--name-only", "HEAD~1"]);
    assert_eq!(files, "work.txt", "nothing ignored, and nothing of the user's");
    assert_eq!(git(&env, &["status", "--porcelain"]), " M a.txt", "the user's change stays");
    let events = env.records("saved");
    assert_eq!(events[2]["commit"], git(&env, &["rev-parse", "HEAD"]));
    assert_eq!(env.status()["git"]["commit"], events[2]["commit"]);
}

#[test]
fn a_failing_hook_is_reported_and_neither_the_agent_nor_the_run_fails() {
    let env = committed("iteration");
    write_hook(&env, "pre-commit", "echo 'lint: no' >&2; exit 1");
    two_iterations(&env);
    let before = git(&env, &["rev-parse", "HEAD"]);
    let ended = env.run().expect(0);
    ended.says("warning: no commit: ").says("lint: no");
    assert_eq!(ended.stderr.matches("warning: no commit").count(), 1, "{}", ended.stderr);
    assert_eq!(git(&env, &["rev-parse", "HEAD"]), before);
    assert_eq!(env.status()["failures"], 0);
    assert_eq!(checkpoints(&env), ["0", "1", "2"]);
}

#[test]
fn a_hook_that_changes_files_is_observed_before_the_work_is_validated() {
    let env = committed("iteration");
    write_hook(&env, "post-commit", "echo formatted > formatted.txt");
    two_iterations(&env);
    env.run().expect(0);
    let journal = env.journal();
    let kinds: Vec<&str> = journal.iter().filter_map(|record| record["kind"].as_str()).collect();
    let saved = kinds.iter().rposition(|kind| *kind == "saved").unwrap();
    let validated = kinds.iter().rposition(|kind| *kind == "validated").unwrap();
    assert!(validated > saved, "{kinds:?}");
    assert!(env.path("formatted.txt").exists());
}

#[test]
fn a_workspace_without_a_repository_is_a_located_error_everywhere() {
    let env = TestEnvironment::new();
    set_mode(&env, "checkpoint");
    for args in [&["run"][..], &["config", "check"], &["run", "--dry-run"]] {
        env.ralph(args).expect(78).says("git.commit").says("expected a git repository");
    }
    env.ralph(&["doctor"]).expect(78).says("FAIL  git").says("expected a git repository");
    assert!(!env.has_state(), "nothing was begun");
    env.ralph(&["run", "--set", "git.commit=sometimes"]).expect(78).says("git.commit");
}

#[test]
fn a_missing_git_is_a_located_error() {
    let mut env = committed("checkpoint");
    let tools = env.root().join("tools");
    std::fs::create_dir(&tools).unwrap();
    env.var("PATH", &tools.display().to_string());
    env.ralph(&["run"]).expect(78).says("git.commit").says("the program `git` is not in PATH");
}

#[test]
fn states_without_a_branch_get_checkpoints_and_one_warning() {
    let env = committed("iteration");
    git(&env, &["checkout", "-q", "--detach"]);
    two_iterations(&env);
    let ended = env.run().expect(0);
    assert_eq!(ended.stderr.matches("warning: no commit").count(), 1, "{}", ended.stderr);
    assert_eq!(checkpoints(&env), ["0", "1", "2"]);
    assert!(try_git(&env, &["symbolic-ref", "-q", "HEAD"]).stdout.is_empty());
}

#[test]
fn two_runs_at_once_in_two_worktrees_of_a_repository_do_not_meet() {
    let one = committed("iteration");
    let other = TestEnvironment::new();
    std::fs::remove_dir_all(other.workspace()).unwrap();
    let path = other.workspace().display().to_string();
    git(&one, &["worktree", "add", "-q", "-b", "second", &path]);
    other.write("PROMPT.md", "# Task\n\nMake a file called done.\n");
    set_mode(&other, "iteration");
    for env in [&one, &other] {
        two_iterations(env);
    }
    let mut running = [one.start(&["run"]), other.start(&["run"])];
    for run in &mut running {
        run.wait().expect(0);
    }
    for branch in ["main", "second"] {
        assert_eq!(git(&one, &["rev-list", "--count", branch]), "3", "{branch}");
    }
    assert_eq!(checkpoints(&one).len(), 6);
}
