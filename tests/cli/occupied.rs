//! One run in a workspace at a time, wherever the states of runs lie.

use std::fs;
use std::io::Write as _;

use rustix::process::Signal;

use crate::environment::{TestEnvironment, of_run};

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// `--set state.dir=…` for a state directory of this name.
fn state(env: &TestEnvironment, name: &str) -> String {
    format!("state.dir={}", env.root().join(name).display())
}

/// An agent that says that it is there and waits until it is let go.
fn waiting(env: &TestEnvironment) -> [std::path::PathBuf; 2] {
    let (up, go) = (env.fifo("up"), env.fifo("go"));
    env.agent.default_call().script(&format!(
        "echo > '{}'; cat '{}' > /dev/null; touch done\n",
        up.display(),
        go.display()
    ));
    env.agent.default_call().out(DONE);
    [up, go]
}

#[test]
fn a_second_run_in_the_same_workspace_is_refused_wherever_its_state_lies() {
    let env = TestEnvironment::new();
    let [up, go] = waiting(&env);
    let mut first = env.start(&["run"]);
    fs::read(&up).unwrap();
    let pid = first.pid().to_string();
    for args in [&["run", "--set"][..], &["run", "--restart", "--set"], &["run", "--once", "--set"]]
    {
        let other = state(&env, "other");
        env.ralph(&[args, &[other.as_str()]].concat()).expect(75).says(&format!("pid {pid}"));
    }
    // By another path to the same folder as well.
    std::os::unix::fs::symlink(env.workspace(), env.root().join("link")).unwrap();
    let config = env.read("ralph.toml").replace("[run]\n", "[run]\nworkspace = \"link\"\n");
    let file = env.root().join("other.toml");
    fs::write(&file, config).unwrap();
    fs::copy(env.path("PROMPT.md"), env.root().join("PROMPT.md")).unwrap();
    let (file, other) = (file.display().to_string(), state(&env, "third"));
    env.ralph(&["-c", &file, "run", "--set", &other]).expect(75).says(&pid);
    // Who only reads is not held up.
    assert_eq!(env.status()["phase"], "running");
    env.ralph(&["log"]).expect(0);
    assert_eq!(env.agent.calls(), 1);
    fs::OpenOptions::new().write(true).open(&go).unwrap().write_all(b"\n").unwrap();
    first.wait().expect(0);
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn a_run_inside_a_run_is_refused_in_the_same_workspace_and_in_another_it_is_not() {
    let env = TestEnvironment::new();
    let other = env.root().join("elsewhere");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("PROMPT.md"), "# Another task\n").unwrap();
    let agent = "[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n";
    fs::write(
        other.join("ralph.toml"),
        format!(
            "{agent}program = [\"echo\", \"<promise>COMPLETE: inner</promise>\"]\n\
             [[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n"
        ),
    )
    .unwrap();
    let bin = env!("CARGO_BIN_EXE_ralph-orchestrator");
    env.agent.call(1).script(&format!(
        "'{bin}' run --set '{}' > same 2>&1; echo $? >> same
         (cd '{}'; '{bin}' run > ../inner 2>&1; echo $? >> ../inner)\n",
        state(&env, "inner-state"),
        other.display()
    ));
    env.agent.call(2).script("touch done\n").out(DONE);
    env.run().expect(0);
    let same = env.read("same");
    assert!(same.ends_with("\n75\n"), "{same}");
    let run = env.status()["run"].as_str().unwrap().to_owned();
    assert!(same.contains("inside of run") && same.contains(&run), "{same}");
    let inner = fs::read_to_string(env.root().join("inner")).unwrap();
    assert!(inner.ends_with("\n0\n"), "{inner}");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn the_workspace_is_free_as_soon_as_a_killed_run_is_gone() {
    let env = TestEnvironment::new();
    let [up, _go] = waiting(&env);
    let mut first = env.start(&["run"]);
    fs::read(&up).unwrap();
    first.signal(Signal::KILL);
    env.agent.call(2).script("touch done\n");
    // No moment is lost: it waits for the agent of the killed one, not for anybody's help.
    env.ralph(&["run", "--set", &state(&env, "other")]).expect(0).says("completed");
    first.wait();
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn an_agent_that_deletes_or_locks_what_it_can_frees_nothing() {
    let env = TestEnvironment::new();
    let [up, go] = waiting(&env);
    env.agent.call(1).script(&format!(
        "rm -rf \"$HOME\"/.local/state/ralph-orchestrator; echo > '{}'; cat '{}' > /dev/null\n",
        up.display(),
        go.display()
    ));
    let mut first = env.start(&["run"]);
    fs::read(&up).unwrap();
    // Its own state is gone, so another start would find none.
    env.ralph(&["run", "--set", &state(&env, "other")]).expect(75);
    env.run().expect(75);
    assert_eq!(env.agent.calls(), 1);
    env.agent.call(2).script("touch done\n").out(DONE);
    fs::OpenOptions::new().write(true).open(&go).unwrap().write_all(b"\n").unwrap();
    first.wait().expect(0);
}

#[test]
fn a_run_begins_right_after_another_was_killed() {
    let env = TestEnvironment::new();
    let up = env.fifo("up");
    let script = format!("echo > '{}'; sleep 1000\n", up.display());
    (1..=5).for_each(|call| drop(env.agent.call(call).script(&script)));
    env.agent.call(6).script("touch done\n").out(DONE);
    let mut killed = Vec::new();
    for _ in 0..5 {
        let running = env.start(&["run"]);
        fs::read(&up).unwrap();
        running.signal(Signal::KILL);
        // Nobody has waited for it yet when the next one begins.
        killed.push(running);
    }
    env.run().expect(0).says("completed");
}
