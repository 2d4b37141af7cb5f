//! What is done to the state from outside, while a run goes on and between two.

use std::fs;

use rustix::process::Signal;

use crate::environment::{TestEnvironment, eventually};

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";
const STATE: &str = "state=$(echo \"$HOME\"/.local/state/ralph-orchestrator/*)\n";

/// An agent that does `sabotage` to the state in its first call and the work in its second.
fn sabotaged(sabotage: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.agent.call(1).script(&format!("{STATE}{sabotage}\necho 1 > x\n"));
    env.agent.call(2).script("touch done\n").out(DONE);
    env
}

#[test]
fn an_agent_that_edits_or_deletes_the_state_gains_and_breaks_nothing() {
    for sabotage in [
        "rm -rf \"$state\"",
        "rm -rf \"$state\"/runs",
        "rm \"$state\"/latch",
        "rm \"$state\"/key",
        "rm \"$state\"/lock",
        "for j in \"$state\"/runs/*/journal.jsonl; do sed -i 's/open/completed/' $j; : > $j; done",
        "sed -i 's/\"state\":\"open\"/\"state\":\"completed\"/' \"$state\"/latch",
        "cp \"$state\"/latch x; echo '{}' > \"$state\"/latch",
        "head -c 32 /dev/zero > \"$state\"/key",
        "chmod 000 \"$state\"/latch",
        "git clean -fdx 2>/dev/null; rm -f done",
    ] {
        let env = sabotaged(sabotage);
        env.run().expect(0);
        assert_eq!(env.agent.calls(), 2, "{sabotage}");
        env.run().expect(0).says("already completed");
        assert_eq!(env.status()["iterations"], 2, "{sabotage}");
    }
}

#[test]
fn editing_the_configuration_while_it_runs_takes_effect_only_in_a_new_run() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("sed -i 's/\"test\", \"-e\", \"done\"/\"true\"/' ralph.toml\n");
    env.agent.call(1).out(DONE);
    env.agent.call(2).script("rm ralph.toml; touch done\n").out(DONE);
    let ended = env.run().expect(0);
    ended.says("was changed").says("is gone");
    assert_eq!(env.agent.calls(), 2, "the claim without work was refused");
}

#[test]
fn validators_changed_between_two_starts_take_effect_only_in_a_new_run() {
    let env = TestEnvironment::new();
    env.agent.call(1).out(DONE);
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let config = env.read("ralph.toml").replace("\"test\", \"-e\", \"done\"", "\"true\"");
    env.write("ralph.toml", config);
    env.agent.call(2).script("touch done\n");
    env.run().expect(0).says("goes on with those it began with");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_state_directory_deleted_between_runs_means_a_fresh_run() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0);
    fs::remove_dir_all(env.state()).unwrap();
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.calls(), 2);
    assert_eq!(env.status()["iterations"], 1);
}

#[test]
fn an_edited_state_is_refused_and_nothing_is_started() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("echo $n > x\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let journal = env.journal_path();
    let whole = fs::read_to_string(&journal).unwrap();
    let run = journal.parent().unwrap().to_owned();
    let edits: [(&str, &dyn Fn()); 6] = [
        ("a figure", &|| {
            fs::write(&journal, whole.replace("\"iteration\":1", "\"iteration\":0")).unwrap();
        }),
        ("a record less", &|| {
            let lines: Vec<&str> = whole.lines().collect();
            fs::write(&journal, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
        }),
        ("the middle", &|| {
            let lines: Vec<&str> = whole.lines().collect();
            fs::write(&journal, [lines[0], lines[2]].join("\n") + "\n").unwrap();
        }),
        ("nothing left", &|| fs::write(&journal, "").unwrap()),
        ("other validators", &|| {
            let path = run.join("config.toml");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace("\"done\"", "\"ralph.toml\"")).unwrap();
        }),
        ("no latch", &|| fs::remove_file(env.state().join("latch")).unwrap()),
    ];
    for (what, edit) in edits {
        let latch = fs::read(env.state().join("latch")).unwrap();
        let config = fs::read(run.join("config.toml")).unwrap();
        edit();
        env.run().expect(65).says("nothing was started");
        assert_eq!(env.agent.calls(), 1, "{what}");
        fs::write(&journal, &whole).unwrap();
        fs::write(env.state().join("latch"), latch).unwrap();
        fs::write(run.join("config.toml"), config).unwrap();
    }
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    assert_eq!(env.agent.calls(), 2, "put back, it goes on");
}

#[test]
fn the_state_of_another_workspace_is_refused() {
    let (one, two) = (TestEnvironment::new(), TestEnvironment::new());
    for env in [&one, &two] {
        env.agent.default_call().script("echo $n > x\n");
        env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    }
    let (from, to) = (one.state(), two.state());
    fs::remove_dir_all(&to).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").args([&from, &to]).status().unwrap();
    assert!(copied.success());
    two.run().expect(65).says("belongs to the run of").says(&one.workspace().display().to_string());
    two.ralph(&["status"]).expect(65);
    two.ralph(&["run", "--restart", "--max-iterations", "1"]).expect(1);
    assert_eq!(two.status()["iterations"], 1);
    // It can be deleted as well.
    fs::remove_dir_all(&to).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").args([&from, &to]).status().unwrap();
    assert!(copied.success());
    two.ralph(&["reset", "--yes"]).expect(0);
    two.ralph(&["run", "--max-iterations", "1"]).expect(1);
}

#[test]
fn a_torn_last_record_is_cut_and_reported() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("echo $n > x\n");
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let journal = env.journal_path();
    let mut text = fs::read_to_string(&journal).unwrap();
    text.push_str("{\"seq\":99,\"time\":\"2026");
    fs::write(&journal, text).unwrap();
    env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("torn");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn the_user_s_repository_is_not_touched() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_failures = 10\n");
    let git = |args: &[&str]| {
        let out = std::process::Command::new("git")
            .args(args)
            .current_dir(env.workspace())
            .env("HOME", env.root().join("home"))
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b.c")])
            .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b.c")])
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "PROMPT.md", "ralph.toml"]);
    git(&["commit", "-qm", "start"]);
    env.write(".env", "SECRET=1");
    env.write("PROMPT.md", "# Task, edited\n");
    git(&["stash", "-q"]);
    let before = [git(&["rev-parse", "HEAD"]), git(&["stash", "list"]), git(&["status", "-s"])];
    // Nor is anything undone because an agent failed, again and again.
    for n in 1..=5 {
        env.agent.call(n).script(&format!("echo {n} >> notes; exit 1\n"));
    }
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0);
    assert_eq!(env.read("notes"), "1\n2\n3\n4\n5\n");
    let mut after = [git(&["rev-parse", "HEAD"]), git(&["stash", "list"]), git(&["status", "-s"])];
    after[2] = after[2].replace("?? done\n", "").replace("?? notes\n", "");
    assert_eq!(before, after);
}

/// What a killed start has left in the folder for temporary files goes with its run.
#[test]
fn the_private_folder_of_a_killed_run_is_removed_by_reset_and_restart() {
    let mut env = TestEnvironment::new();
    let tmp = env.root().join("tmp");
    fs::create_dir(&tmp).unwrap();
    env.var("TMPDIR", tmp.to_str().unwrap());
    env.agent.call(1).script("sleep 1000\n");
    env.agent.call(2).script("sleep 1000\n");
    env.agent.default_call().script("touch done\n").out(DONE);
    let left = || {
        let names = fs::read_dir(&tmp).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("ralph-0")).count()
    };
    let kill = |calls| {
        let mut running = env.start(&["run"]);
        eventually("the agent", || env.agent.calls() == calls);
        running.signal(Signal::KILL);
        running.wait();
        assert_eq!(left(), 1, "a kill leaves it");
    };
    kill(1);
    env.ralph(&["reset", "--yes"]).expect(0);
    assert_eq!(left(), 0, "after reset");
    kill(2);
    env.ralph(&["run", "--restart"]).expect(0);
    assert_eq!(left(), 0, "after run --restart");
}
