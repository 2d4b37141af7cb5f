//! No container survives its job: not a stop, and not kill -9.

use std::fs::File;
use std::io::Read as _;
use std::process::Command;
use std::sync::mpsc::channel;

use rustix::process::Signal;
use serde_json::json;

use crate::environment::{PATIENCE, Running, TestEnvironment, eventually, of_run};

use super::{PODMAN, SOLVES, StandIn, add_task, environment, trial_files};

/// An agent that does not end when it is asked to, until `shared/go` is there. It and everything that it started hold
/// `shared/pipe` open.
fn stubborn() -> TestEnvironment {
    let holds = "if [ ! -e \"$shared/go\" ]; then\n\
        exec 9> \"$shared/pipe\"; trap '' TERM INT; (setsid sleep 3600 &)\n\
        touch \"$shared/up\"; while [ ! -e \"$shared/go\" ]; do sleep 0.02; done\nfi\n";
    let env = environment(&[("stubborn", &format!("{holds}{SOLVES}"))]);
    add_task(&env, "one", 600);
    let made = Command::new("mkfifo").arg(env.path("shared/pipe")).status().unwrap();
    assert!(made.success());
    env
}

/// Starts the agent. What is returned ends when no process of it is left.
fn start(env: &TestEnvironment) -> (Running, File) {
    let run = ["bench", "run", "--agents", "stubborn", "--out", "job"];
    let running = env.start(&[&run[..], &PODMAN].concat());
    let pipe = File::open(env.path("shared/pipe")).unwrap();
    eventually("the agent", || env.path("shared/up").exists());
    (running, pipe)
}

/// Waits until no process of the agent is left.
fn expect_end(mut pipe: File) {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(pipe.read_to_end(&mut Vec::new()).unwrap()));
    receiver.recv_timeout(PATIENCE).expect("a process of the agent is still there");
}

#[test]
fn kill_9_ends_what_runs_in_the_container_and_resume_removes_it() {
    let mut env = stubborn();
    let engine = StandIn::start(&mut env);
    let (mut running, pipe) = start(&env);
    running.signal(Signal::KILL);
    running.wait();
    expect_end(pipe);
    let left = engine.containers();
    assert_eq!(left.len(), 1, "{left:?}");
    // That of another job is not touched.
    let image = engine.calls("build")[0][2].clone();
    engine.call(&["create", "--name", "of-another", "--label", "ralph-orchestrator.job=x", &image]);

    env.write("shared/go", "");
    let ended = env.ralph(&["bench", "resume", "job"]).expect(0);
    ended.says(&format!("removed the container {}", left[0]));
    assert_eq!(engine.containers(), ["of-another"]);
    let trials = trial_files(&env, "job");
    let rewards: Vec<_> = trials.iter().map(|trial| trial["rewards"].clone()).collect();
    assert!(
        rewards.contains(&json!({})) && rewards.contains(&json!({ "reward": 1.0 })),
        "{rewards:?}"
    );
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn a_signal_ends_the_container_and_removes_it() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut env = stubborn();
        let engine = StandIn::start(&mut env);
        let (mut running, pipe) = start(&env);
        running.signal(signal);
        running.wait().expect(if signal == Signal::INT { 130 } else { 143 });
        expect_end(pipe);
        assert_eq!(engine.containers(), Vec::<String>::new());
        assert!(of_run(&env.root()).is_empty());
        let trials = trial_files(&env, "job");
        assert_eq!(trials[0]["fault"]["cause"], "cancelled", "{trials:#?}");
        env.write("shared/go", "");
        env.ralph(&["bench", "resume", "job"]).expect(0);
        assert_eq!(trial_files(&env, "job").len(), 2);
    }
}

#[test]
fn a_second_signal_kills_and_still_removes_the_container() {
    let mut env = stubborn();
    let engine = StandIn::start(&mut env);
    let (mut running, pipe) = start(&env);
    running.signal(Signal::INT);
    running.says("signal again");
    running.signal(Signal::INT);
    running.wait().expect(130);
    expect_end(pipe);
    assert_eq!(engine.containers(), Vec::<String>::new());
    assert!(of_run(&env.root()).is_empty());
    let trials = trial_files(&env, "job");
    assert_eq!(trials[0]["fault"]["cause"], "cancelled", "{trials:#?}");
}
