//! Which worktree a later start works in.

use std::fs;

use super::{done_at_once, git, repository, run_branches, seen, worktrees};
use crate::environment::TestEnvironment;

#[test]
fn a_run_that_stopped_is_resumed_in_its_worktree_and_a_restart_makes_another() {
    let env = repository("off");
    env.agent.call(1).script("echo 1 > half\n");
    env.ralph(&["run", "--once"]).expect(0);
    done_at_once(&env);
    env.run().expect(0);
    assert_eq!(worktrees(&env).len(), 1);
    assert!(worktrees(&env)[0].join("half").exists());
    env.ralph(&["run", "--restart"]).expect(0);
    let trees = worktrees(&env);
    assert_eq!((trees.len(), run_branches(&env).len()), (2, 2));
    assert!(!trees[1].join("half").exists() || !trees[0].join("half").exists());
    let [first, second] = [0, 1].map(|n| seen(&env)[n].clone());
    assert_ne!(first.0, second.0);
    // In the first one, what shows a run is about its own.
    let output = env.command(&["status"]).current_dir(&first.0).output().unwrap();
    let [shown, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(shown.contains(&first.1) && said.contains("its newest run is"), "{shown}{said}");
    env.ralph(&["-w", first.0.to_str().unwrap(), "status"]).expect(0).says(&first.1);
    env.ralph(&["status"]).expect(0).says(&second.1);
}

#[test]
fn a_run_that_goes_on_beside_another_prompt_in_the_checkout_says_so() {
    let env = repository("iteration");
    env.agent.call(1).script("echo 1 > half; echo noted >> PROMPT.md\n");
    env.ralph(&["run", "--once"]).expect(0);
    let unchanged = env.ralph(&["doctor"]).expect(0);
    assert!(!unchanged.stdout.contains("asks for something else"), "{}", unchanged.stdout);
    env.write("PROMPT.md", "# Task\n\nSomething else.\n");
    let other = "asks for something else than when the worktree of run";
    env.ralph(&["doctor"]).expect(0).says("warn  run").says(other);
    done_at_once(&env);
    env.run().expect(0).says(other).says("`run --restart`");
}

#[test]
fn a_prompt_that_is_changed_after_completion_begins_a_run_in_a_new_worktree() {
    let env = repository("iteration");
    done_at_once(&env);
    env.run().expect(0);
    env.run().expect(0).says("already completed");
    env.write("PROMPT.md", "# Task\n\nSomething else.\n");
    env.run().expect(0).says("the prompt changed since its worktree was made");
    let last = seen(&env).pop().unwrap().0;
    assert_eq!(fs::read_to_string(last.join("PROMPT.md")).unwrap(), "# Task\n\nSomething else.\n");
    assert_eq!(worktrees(&env).len(), 2);
    env.run().expect(0).says("already completed");
}

#[test]
fn another_task_is_not_complete_because_its_configuration_is_not_accepted() {
    let mut env = repository("iteration");
    env.unset("RALPH_TRUST");
    done_at_once(&env);
    env.run().expect(0);
    let text = env.read("ralph.toml").replace("delay = \"0s\"", "delay = \"1s\"");
    env.write("ralph.toml", text);
    env.run().expect(0).says("already completed");
    env.write("PROMPT.md", "# Task\n\nSomething else.\n");
    env.run().expect(78).says("run.delay");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_deleted_worktree_of_an_unfinished_run_is_an_error_that_says_what_to_do() {
    let env = repository("off");
    env.ralph(&["run", "--once"]).expect(0);
    let tree = worktrees(&env).remove(0);
    fs::remove_dir_all(&tree).unwrap();
    done_at_once(&env);
    let ended = env.run().expect(78);
    ended.says("does not exist any more").says("run --restart");
    assert!(seen(&env).is_empty());
    env.ralph(&["run", "--restart"]).expect(0);
    assert_ne!(seen(&env)[0].0, tree);
}

#[test]
fn a_run_that_began_in_the_checkout_goes_on_there() {
    let env = repository("off");
    env.ralph(&["run", "--once", "--set", "git.worktree=false"]).expect(0);
    done_at_once(&env);
    env.run().expect(0).says("goes on in the workspace itself");
    assert_eq!(seen(&env)[0].0, env.workspace());
    assert!(worktrees(&env).is_empty());
}

#[test]
fn reset_deletes_what_is_recorded_and_not_the_worktree() {
    let env = repository("off");
    done_at_once(&env);
    env.run().expect(0);
    let tree = worktrees(&env).remove(0);
    let reset = env.ralph(&["reset", "--yes"]).expect(0);
    reset.says(&format!("its worktree {}", tree.display()));
    // What git removes without a word is said before.
    reset.says(&format!("`git -C {} status --ignored`", tree.display()));
    assert!(tree.join("done").exists());
    let output = env.command(&["status"]).current_dir(&tree).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let whose = format!("an earlier run made this worktree for {}", env.workspace().display());
    assert!(said.contains(&whose), "{said}");
    env.run().expect(0);
    assert_eq!(worktrees(&env).len(), 2);
}

#[test]
fn a_task_on_the_command_line_is_found_again_without_a_file() {
    let env = repository("off");
    fs::remove_file(env.path("ralph.toml")).unwrap();
    git(&env, &["commit", "-qam", "no configuration"]);
    done_at_once(&env);
    let agent = env.agent.program().display().to_string();
    let goal = |text: &str| {
        let set = ["--set", "git.worktree=true", "--set", "agent.unmetered=true"];
        let task = ["run", "--goal", text, "--check", "test -e done"];
        env.ralph(&[&task[..], &set, &["--", &agent]].concat())
    };
    goal("make it").expect(0);
    assert_eq!(worktrees(&env).len(), 1);
    let branch = run_branches(&env).remove(0);
    env.ralph(&["status"]).expect(0).says(&branch);
    goal("make it").expect(0).says("already completed");
    goal("make something else").expect(0).says("its task is another one now");
    assert_eq!(worktrees(&env).len(), 2);
}

#[test]
fn an_unfinished_run_goes_on_in_its_worktree_although_the_key_was_removed() {
    let env = repository("off");
    env.ralph(&["run", "--once"]).expect(0);
    done_at_once(&env);
    let ended = env.ralph(&["run", "--set", "git.worktree=false"]).expect(0);
    ended.says("goes on in its worktree");
    assert_eq!(seen(&env)[0].0, worktrees(&env)[0]);
    env.ralph(&["run", "--set", "git.worktree=false"]).expect(0).says("already completed");
    env.write("PROMPT.md", "# Task\n\nAnother one, in the checkout.\n");
    env.ralph(&["run", "--set", "git.worktree=false"]).expect(0);
    assert_eq!(seen(&env)[1].0, env.workspace());
    assert_eq!(worktrees(&env).len(), 1);
}

#[test]
fn what_is_complete_stays_so_with_a_broken_configuration() {
    let env = repository("off");
    done_at_once(&env);
    env.run().expect(0);
    env.ralph(&["run", "--set", "agent.adapter=nothing"]).expect(0).says("already completed");
}

#[test]
fn a_worktree_of_a_run_that_did_not_begin_is_used_by_the_next_start() {
    let env = repository("off");
    // The agent's program is not there.
    let failed = env.ralph(&["run", "--set", "agent.config.program=[\"./none\"]"]);
    assert_ne!(failed.code, Some(0));
    let made = worktrees(&env);
    done_at_once(&env);
    if made.is_empty() {
        env.run().expect(0);
    } else {
        env.run().expect(0);
        assert_eq!(worktrees(&env), made);
    }
    assert_eq!(worktrees(&env).len(), 1);
}

#[test]
fn a_worktree_that_is_not_used_after_all_is_named() {
    let env = repository("off");
    let failed = env.ralph(&["run", "--set", "validator.0.program=[\"./none.sh\"]"]);
    assert_ne!(failed.code, Some(0));
    let Some(made) = worktrees(&env).pop() else { return };
    env.write("a.txt", "two\n");
    git(&env, &["commit", "-qam", "second"]);
    done_at_once(&env);
    env.run().expect(0).says("was made for a run that did not begin").says(made.to_str().unwrap());
    assert!(made.exists() && worktrees(&env).len() == 2);
}

#[test]
fn a_run_goes_on_in_its_worktree_after_the_checkout_was_moved_and_connected_again() {
    let env = repository("checkpoint");
    env.agent.default_call().script("date +%N > x\n").out("hm\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let tree = worktrees(&env).remove(0);
    let moved = env.root().join("moved");
    fs::rename(env.workspace(), &moved).unwrap();
    let ralph = |args: &[&str]| {
        let output = env.command(args).current_dir(&moved).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let run = || ralph(&["run", "--max-iterations", "2"]);
    let (moved_to, tree_at) = (moved.to_str().unwrap(), tree.to_str().unwrap());
    let (status, said) = run();
    let advice = format!("git -C {moved_to} worktree repair {tree_at}");
    assert!(status == Some(78) && said.contains(&advice), "{status:?} {said}");
    let (status, said) = ralph(&["doctor"]);
    assert!(status == Some(78) && said.contains(&advice), "{status:?} {said}");
    let mut repair = env.program("git".as_ref());
    repair.current_dir("/").args(["-C", moved_to, "worktree", "repair", tree_at]);
    assert!(repair.output().unwrap().status.success());
    let (status, said) = run();
    assert_eq!((status, env.agent.calls()), (Some(1), 2), "{said}");
    assert_eq!(env.agent.cwd(2), tree);
}

#[test]
fn a_run_goes_on_in_a_worktree_that_was_moved() {
    let mut env = repository("iteration");
    env.agent.default_call().script("date +%N > x\n").out("hm\n");
    let run = |env: &TestEnvironment, most: &str| env.ralph(&["run", "--max-iterations", most]);
    run(&env, "1").expect(1);
    let first = worktrees(&env).remove(0);
    let name = first.file_name().unwrap().to_str().unwrap();
    let mut at = first.clone();
    // Back as well: where it was before is no end.
    for (most, to) in [("2", env.root().join("a tree")), ("3", first.clone())] {
        git(&env, &["worktree", "move", at.to_str().unwrap(), to.to_str().unwrap()]);
        at = to;
        env.ralph(&["doctor"]).says(&format!("ok    worktree       {}", at.display()));
        let output = env.command(&["status"]).current_dir(&at).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains(at.to_str().unwrap()), "{shown}");
        run(&env, most).expect(1).says("resumed");
        assert_eq!(env.agent.cwd(env.agent.calls()), at);
    }
    // By hand, of which git is not told: it is known by what it is, where it is.
    let by_hand = env.root().join("by hand");
    fs::rename(&at, &by_hand).unwrap();
    let to = format!("git -C {} worktree repair", env.workspace().display());
    run(&env, "4").expect(78).says(&format!("{to} FOLDER"));
    let output = env.command(&["run"]).current_dir(&by_hand).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(78) && said.contains(&format!("{to} '")), "{said}");
    fs::rename(&by_hand, &at).unwrap();
    // With all state.
    let states = env.root().join("states");
    fs::rename(env.root().join("home/.local/state"), &states).unwrap();
    env.var("XDG_STATE_HOME", states.to_str().unwrap());
    at = states.join("ralph-orchestrator-worktrees").join(name);
    let repair = ["worktree", "repair", at.to_str().unwrap()];
    for args in [&["run"][..], &["doctor"], &["status"]] {
        env.ralph(args).says(&format!("git -C {} {}", env.workspace().display(), repair.join(" ")));
    }
    let status = env.ralph(&["status"]).stdout;
    assert!(!status.contains("WARNING") && env.agent.calls() == 3, "{status}");
    git(&env, &repair);
    run(&env, "4").expect(1).says("resumed");
    assert_eq!((env.agent.cwd(4), run_branches(&env).len()), (at.clone(), 1));
    // Another folder that git is made to name is none of the run's.
    let forged = env.root().join("forged");
    fs::create_dir(&forged).unwrap();
    fs::rename(at.join(".git"), forged.join(".git")).unwrap();
    let link = env.path(&format!(".git/worktrees/{name}/gitdir"));
    fs::write(link, format!("{}\n", forged.join(".git").display())).unwrap();
    run(&env, "5").expect(78).says("does not exist any more");
}
