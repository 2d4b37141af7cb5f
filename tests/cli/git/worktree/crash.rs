//! Killed starts, and several at once.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::{done_at_once, git, repository, run_branches, seen, worktrees, write_hook};
use crate::environment::{Ended, TestEnvironment, eventually, of_run};

#[test]
fn two_starts_at_once_make_one_worktree() {
    let env = repository("off");
    let gate = env.fifo("gate");
    env.agent.default_call().script(&format!("cat '{}'; touch done\n", gate.display()));
    env.agent.default_call().out("<promise>COMPLETE: made it</promise>\n");
    let mut running = [env.start(&["run"]), env.start(&["run"])];
    let open = fs::OpenOptions::new().write(true).open(&gate).unwrap();
    eventually("one of them to be refused", || {
        running.iter_mut().any(|run| run.child.try_wait().unwrap().is_some())
    });
    drop(open);
    let mut codes: Vec<_> = running.iter_mut().map(|run| run.wait().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(75)]);
    assert_eq!((worktrees(&env).len(), run_branches(&env).len()), (1, 1));
}

#[test]
fn two_configurations_of_a_workspace_work_in_two_worktrees_at_once() {
    let env = repository("iteration");
    let text = env.read("ralph.toml");
    env.write("other.toml", text);
    let (one, other) = (env.fifo("one"), env.fifo("other"));
    // Each agent waits for both to be at work.
    env.agent.default_call().script(&format!(
        "if mkdir '{0}/first'; then echo x > '{1}'; read y < '{2}'; else read y < '{1}'; echo x > '{2}'; fi; touch done\n",
        env.root().display(), one.display(), other.display()
    ));
    env.agent.default_call().out("<promise>COMPLETE: made it</promise>\n");
    let mut running = [env.start(&["run"]), env.start(&["-c", "other.toml", "run"])];
    for run in &mut running {
        run.wait().expect(0);
    }
    assert_eq!((worktrees(&env).len(), run_branches(&env).len()), (2, 2));
}

/// What has to hold after a crash and a restart.
#[track_caller]
fn check_once(env: &TestEnvironment, ended: &Ended, what: &str) {
    let (trees, made) = (worktrees(env), run_branches(env));
    assert_eq!((trees.len(), made.len()), (1, 1), "{what}: {trees:?} {made:?} {ended:?}");
    assert_eq!(seen(env).last(), Some(&(trees[0].clone(), made[0].clone())), "{what}");
    assert!(trees[0].join("a.txt").exists() && trees[0].join("done").exists(), "{what}");
    assert_eq!(git(env, &["status", "--porcelain"]), "", "{what}");
    assert!(of_run(&env.root()).is_empty(), "{what}");
}

/// A `git` that reports each of its invocations with `worktree` or `hook`, and waits before or after it.
fn slow_git(env: &mut TestEnvironment, step: &str, gate: &Path) {
    let bin = env.root().join("bin");
    fs::create_dir(&bin).unwrap();
    let real = which_git();
    let once = env.root().join("once");
    let wait = format!(
        "if mkdir '{}' 2>/dev/null; then echo at > '{}'; sleep 600; fi",
        once.display(),
        gate.display()
    );
    let (before, after) = match step {
        "before" => (wait.as_str(), ""),
        _ => ("", wait.as_str()),
    };
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' worktree add '*) {before}\n'{real}' \"$@\"; s=$?; {after}\nexit $s;; esac\nexec '{real}' \"$@\"\n",
    );
    let script = script.replace(") \n", ")\n");
    fs::write(bin.join("git"), script).unwrap();
    fs::set_permissions(bin.join("git"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    env.var("PATH", &path);
}

fn which_git() -> String {
    let paths = std::env::var("PATH").unwrap();
    let found =
        std::env::split_paths(&paths).map(|folder| folder.join("git")).find(|git| git.exists());
    found.unwrap().display().to_string()
}

#[test]
fn kill_9_while_git_makes_the_worktree_leaves_one_that_is_completed() {
    for step in ["before", "after", "smudge", "hook"] {
        let mut env = repository("iteration");
        let gate = env.fifo("gate");
        let once = env.root().join("once");
        let wait = format!(
            "if mkdir '{}' 2>/dev/null; then echo at > '{}'; sleep 600; fi",
            once.display(),
            gate.display()
        );
        match step {
            "hook" => write_hook(&env, "post-checkout", &format!("{wait}; echo x >> ignored.log")),
            "smudge" => {
                // In the middle of the checkout.
                env.write(".gitattributes", "z.txt filter=slow\n").write("z.txt", "z\n");
                git(&env, &["add", "."]);
                git(&env, &["commit", "-qm", "a filter"]);
                git(&env, &["config", "filter.slow.smudge", &format!("{wait}; cat")]);
            }
            _ => slow_git(&mut env, step, &gate),
        }
        done_at_once(&env);
        let mut running = env.start(&["run"]);
        assert_eq!(fs::read_to_string(&gate).unwrap(), "at\n", "{step}");
        running.signal(Signal::KILL);
        running.wait();
        let ended = env.run().expect(0);
        check_once(&env, &ended, step);
        if step == "hook" {
            assert!(worktrees(&env)[0].join("ignored.log").exists(), "the hook is finished");
        }
    }
}

#[test]
fn kill_9_at_any_file_of_the_state_leaves_one_worktree() {
    // From before the record of the worktree to the first records of the run.
    for records in 0..4 {
        let env = repository("iteration");
        done_at_once(&env);
        let mut running = env.start(&["run"]);
        eventually("the run to come that far", || {
            let ended = running.child.try_wait().unwrap().is_some();
            let recorded = env.has_state()
                && match records {
                    0 => env.state().join("worktree.lock").exists(),
                    1 => env.state().join("worktrees").exists(),
                    2 => env.path(".git/worktrees").exists(),
                    _ => env.state().join("runs").exists(),
                };
            ended || recorded
        });
        running.signal(Signal::KILL);
        running.wait();
        let ended = env.run().expect(0);
        check_once(&env, &ended, &format!("killed at {records}"));
    }
}
