//! `diff` and `rollback`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::{checkpoints, committed, git, two_iterations};
use crate::environment::TestEnvironment;

fn finished() -> TestEnvironment {
    let env = committed("checkpoint");
    two_iterations(&env);
    env.run().expect(0);
    env
}

#[test]
fn diff_masks_secrets_in_names_and_contents() {
    let mut env = committed("checkpoint");
    env.config("[git]\ncommit = \"checkpoint\"\n[env]\npass = [\"ADDRESS\"]\n[env.set]\nPLAIN = \"hunter2-plain\"\n");
    env.var("ADDRESS", "hunter2-address");
    env.agent
        .call(1)
        .script("echo \"in $PLAIN\" > \"made-$ADDRESS\"; printf '\\377 %s\\n' \"$PLAIN\" > bytes; touch done\n")
        .out("<promise>COMPLETE: the work is done</promise>\n");
    env.run().expect(0);
    for args in [&["diff", "1"][..], &["diff", "1", "--stat"], &["diff", "1", "--json"]] {
        let ended = env.ralph(args).expect(0);
        assert!(!ended.stdout.contains("hunter2"), "{args:?}: {}", ended.stdout);
        ended.says("made-***");
    }
}

#[test]
fn diff_shows_an_iteration_against_the_one_before() {
    let env = finished();
    let last = env.ralph(&["diff"]).expect(0);
    last.says("-1\n+2").says("+++ b/work.txt");
    assert_eq!(env.ralph(&["diff", "2"]).expect(0).stdout, last.stdout);
    let first = env.ralph(&["diff", "1", "--stat"]).expect(0);
    assert_eq!(
        first.stdout,
        "work.txt (new) +1 -0\n1 file changed from iteration 0 to iteration 1\n"
    );
    let all = env.ralph(&["diff", "0", "2", "--json"]).expect(0);
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    let paths: Vec<&str> = all["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["done", "work.txt"]);
    env.ralph(&["diff", "7"]).expect(64).says("there is no checkpoint 7 of this run");
    env.ralph(&["diff", "0"]).expect(64).says("start of the run");
}

#[test]
fn the_log_of_an_iteration_shows_what_was_stored_also_when_it_is_followed() {
    let env = finished();
    for args in [&["log", "2"][..], &["log", "2", "--follow"]] {
        let log = env.ralph(args).expect(0);
        assert_eq!(log.stdout.matches(" of iteration 2\n").count(), 1, "{}", log.stdout);
        assert!(!log.stdout.contains("of iteration 1"), "{}", log.stdout);
    }
}

#[test]
fn rollback_restores_the_files_and_can_be_undone() {
    let env = finished();
    env.ralph(&["rollback", "--list"]).expect(0).says("after iteration 2").says("before the first");
    // Work that is in no checkpoint yet.
    env.write("a.txt", "edited by hand\n").write("mine.txt", "not saved\n");
    let head = git(&env, &["rev-parse", "HEAD"]);
    let done = env.ralph(&["rollback", "--to", "1"]).expect(0);
    done.says("restored to checkpoint 1").says("rollback --to rollback/1");
    assert_eq!((env.read("work.txt").as_str(), env.read("a.txt").as_str()), ("1\n", "one\n"));
    assert!(!env.path("done").exists() && !env.path("mine.txt").exists());
    assert_eq!(env.read("ignored/x"), "x\n", "ignored files stay");
    assert_eq!(git(&env, &["rev-parse", "HEAD"]), head);
    assert!(checkpoints(&env).contains(&"rollback/1".to_owned()));
    env.ralph(&["rollback", "--to", "rollback/1"]).expect(0);
    assert_eq!(env.read("a.txt"), "edited by hand\n");
    assert_eq!(
        (env.read("mine.txt").as_str(), env.read("work.txt").as_str()),
        ("not saved\n", "2\n")
    );
    env.ralph(&["rollback", "--to", "rollback/1"]).expect(0).says("already");
    // What was there may have a name already.
    env.ralph(&["rollback", "--to", "1"]).expect(0).says("rollback --to rollback/1` undoes this");
    env.ralph(&["rollback", "--to", "2"]).expect(0).says("rollback --to 1` undoes this");
    env.ralph(&["rollback", "--to", "9"]).expect(64).says("there is no checkpoint");
    env.ralph(&["rollback"]).expect(64);
}

#[test]
fn rollback_of_an_earlier_run_says_how_to_undo_it_and_leaves_bookkeeping() {
    let env = committed("checkpoint");
    let config = env.read("ralph.toml");
    env.raw_config(&config.replace("[run]\n", "[run]\nbookkeeping = [\"notes/**\"]\n"));
    env.agent.call(1).script("mkdir notes; echo 1 > notes/n; echo 1 > work.txt; touch done\n");
    env.agent.call(1).out("<promise>COMPLETE: made it</promise>\n");
    env.agent.call(2).script("echo 2 > notes/n; echo 2 > work.txt\n");
    env.agent.call(2).out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    let first = env.status()["run"].as_str().unwrap().to_owned();
    env.ralph(&["run", "--restart"]).expect(0);
    let done = env.ralph(&["rollback", "--to", "1", "--run", &first]).expect(0);
    assert_eq!((env.read("work.txt").as_str(), env.read("notes/n").as_str()), ("1\n", "2\n"));
    let undo = format!("rollback --to rollback/1 --run {first}");
    done.says(&format!("`ralph-orchestrator {undo}` undoes this"));
    env.ralph(&undo.split(' ').collect::<Vec<_>>()).expect(0);
    assert_eq!(env.read("work.txt"), "2\n");
    env.write("work.txt", "2\n").write("notes/n", "3\n");
    env.ralph(&undo.split(' ').collect::<Vec<_>>()).expect(0).says("already");
    assert_eq!(env.read("notes/n"), "3\n");
}

#[test]
fn checkpoints_are_those_that_the_run_recorded_whatever_the_agent_makes_of_their_refs() {
    let env = committed("checkpoint");
    env.write("a.txt", "not committed\n");
    env.agent.call(1).script(
        "echo evil > a.txt; echo work > work.txt; git add a.txt; \
         c=$(git commit-tree -m x $(git write-tree)); git reset -q; \
         for r in $(git for-each-ref --format='%(refname)' refs/ralph); do git update-ref $r $c; done\n",
    );
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    env.ralph(&["diff", "1", "--stat"]).expect(0).says("was set to").says("a.txt");
    env.ralph(&["rollback", "--to", "0"]).expect(0).says("was set to");
    assert_eq!(env.read("a.txt"), "not committed\n");
    // What was there before a rollback is recorded too.
    env.write("a.txt", "by hand\n");
    env.ralph(&["rollback", "--to", "0"]).expect(0);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    git(&env, &["update-ref", &format!("refs/ralph/{run}/rollback/1"), "HEAD"]);
    env.ralph(&["rollback", "--to", "rollback/1"]).expect(0).says("was set to");
    assert_eq!(env.read("a.txt"), "by hand\n");
    git(&env, &["update-ref", &format!("refs/ralph/{run}/rollback/2"), "HEAD"]);
    env.ralph(&["rollback", "--to", "rollback/2"]).expect(64).says("there is no checkpoint");
}

#[test]
fn a_rollback_that_is_killed_is_finished_by_the_next_run_and_the_next_rollback() {
    for next in [&["run"][..], &["rollback", "--to", "1"]] {
        let mut env = finished();
        // A git that waits before it changes the first file.
        let (at, go) = (env.fifo("at"), env.fifo("go"));
        let found = env.program(Path::new("sh")).args(["-c", "command -v git"]).output().unwrap();
        let real = String::from_utf8(found.stdout).unwrap();
        let folder = env.root().join("bin");
        fs::create_dir(&folder).unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *'read-tree -m -u'*) echo at > '{}'; cat '{}';; esac\nexec '{}' \"$@\"\n",
            at.display(),
            go.display(),
            real.trim()
        );
        fs::write(folder.join("git"), script).unwrap();
        fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap();
        env.var("PATH", &format!("{}:{path}", folder.display()));
        env.write("a.txt", "by hand\n");
        let mut running = env.start(&["rollback", "--to", "1"]);
        assert_eq!(fs::read_to_string(&at).unwrap(), "at\n");
        running.signal(Signal::KILL);
        drop(running.wait());
        // One file was written by half, another is as it was.
        env.write("work.txt", "");
        env.var("PATH", &path);
        env.ralph(&["status"]).expect(0).says("to checkpoint 1 was interrupted");
        env.ralph(&["doctor"]).expect(0).says("to checkpoint 1 was interrupted");
        let ended = env.ralph(next).expect(0);
        if next == ["run"] {
            ended.says("finished the rollback to checkpoint 1, which was interrupted");
        }
        assert_eq!((env.read("work.txt").as_str(), env.read("a.txt").as_str()), ("1\n", "one\n"));
        assert!(!env.run().expect(0).stderr.contains("rollback"), "it is finished once");
        env.ralph(&["rollback", "--to", "rollback/1"]).expect(0);
        assert_eq!(env.read("a.txt"), "by hand\n");
    }
}

#[test]
fn rollback_refuses_while_a_run_is_active() {
    let env = committed("checkpoint");
    let gate = env.fifo("gate");
    env.agent.call(1).script(&format!("cat '{}'; touch done\n", gate.display()));
    env.agent.call(1).out("<promise>COMPLETE: made it</promise>\n");
    let mut running = env.start(&["run"]);
    let open = fs::OpenOptions::new().write(true).open(&gate).unwrap();
    env.ralph(&["rollback", "--to", "0"]).expect(75);
    env.ralph(&["rollback", "--list"]).expect(0).says("before the first");
    drop(open);
    running.wait().expect(0);
}

#[test]
fn rollback_overwrites_no_file_that_checkpoints_leave_out() {
    let env = committed("checkpoint");
    env.agent.call(1).script("echo agent > made.txt\n");
    env.agent.call(2).script("rm made.txt; touch done\n");
    env.agent.call(2).out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    env.write(".git/info/exclude", "made.txt\n").write("made.txt", "the user's\n");
    env.ralph(&["rollback", "--to", "1"]).expect(64).says("made.txt");
    assert_eq!(env.read("made.txt"), "the user's\n");
}

#[test]
fn a_run_without_checkpoints_says_so() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    env.ralph(&["diff"]).expect(64).says("no run");
    env.run().expect(0);
    env.ralph(&["diff"]).expect(64).says("has no checkpoints");
    env.ralph(&["rollback", "--list"]).expect(64).says("has no checkpoints");
    env.ralph(&["diff"]).expect(64).says("`[git] commit = \"checkpoint\"` makes one");
    // What is set is no longer advised.
    super::init(&env);
    super::set_mode(&env, "checkpoint");
    env.ralph(&["diff"]).expect(64).says("`git.commit` was set after this run had worked");
}
