//! Ctrl-C, `kill`, and what is left of the agent.

use std::fs;

use rustix::process::Signal;

use crate::environment::{TestEnvironment, alive, eventually, of_run};

fn talking() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.agent.call(1).script("setsid sleep 1000 & echo $! > \"$FAKE_DIR/daemon\"; sleep 1000\n");
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    env
}

fn daemon(env: &TestEnvironment) -> i32 {
    let path = env.agent.program().with_file_name("daemon");
    let mut pid = None;
    eventually("the agent has started its daemon", || {
        pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

#[test]
fn a_signal_ends_the_agent_and_the_run_goes_on_later() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        let env = talking();
        let mut running = env.start(&["run"]);
        let daemon = daemon(&env);
        running.signal(signal);
        running.wait().expect(status).says("interrupted");
        assert!(!alive(daemon), "the daemon is gone");
        assert!(of_run(&env.root()).is_empty(), "so is everything else");
        assert_eq!(env.status()["phase"], "interrupted");
        env.run().expect(0).says("goes on");
        assert_eq!(env.agent.env(2)["RALPH_ITERATION"], "2");
    }
}

#[test]
fn stop_ends_the_run_of_this_workspace() {
    let env = talking();
    env.ralph(&["stop"]).expect(0).says("no run goes on");
    let mut running = env.start(&["run"]);
    let daemon = daemon(&env);
    env.ralph(&["stop"]).expect(0).says("stopped");
    running.wait().expect(143);
    assert!(!alive(daemon));
}

#[test]
fn after_kill_9_nothing_is_left_and_a_run_starts_without_any_manual_step() {
    let env = talking();
    let mut running = env.start(&["run"]);
    let daemon = daemon(&env);
    running.signal(Signal::KILL);
    running.wait();
    // The next start waits by itself until the old agent is gone.
    env.run().expect(0);
    assert!(!alive(daemon));
    assert_eq!(env.records("iteration_ended")[0]["outcome"]["type"], "lost");
}

#[test]
fn a_second_run_in_the_same_workspace_is_refused_at_once() {
    let env = talking();
    let mut running = env.start(&["run"]);
    daemon(&env);
    let refused = env.run().expect(75);
    refused.says(&format!("pid {}", running.pid())).says("started 20");
    running.signal(Signal::TERM);
    running.wait().expect(143);
}

#[test]
fn an_agent_that_starts_the_orchestrator_in_its_own_workspace_is_refused() {
    let env = TestEnvironment::new();
    let program = env!("CARGO_BIN_EXE_ralph-orchestrator");
    env.agent
        .call(1)
        .script(&format!("'{program}' run; echo $? > \"$FAKE_DIR/nested\"; touch done\n"));
    env.agent.default_call().out("<promise>COMPLETE: x</promise>\n");
    env.run().expect(0);
    let nested = fs::read_to_string(env.agent.program().with_file_name("nested")).unwrap();
    assert_eq!(nested.trim(), "75");
}

#[test]
fn a_signal_during_validation_leaves_the_claim_pending() {
    let env = TestEnvironment::new();
    let fifo = env.fifo("fifo");
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"waits\"\n\
         program = [\"sh\", \"-c\", \"if [ -p '{0}' ]; then echo x > '{0}'; sleep 1000; fi\"]\n",
        fifo.display()
    ));
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert_eq!(env.status()["latch"]["state"], "claimed");
    assert!(of_run(&env.root()).is_empty());
    fs::remove_file(&fifo).unwrap();
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 1, "the claim was validated, no agent was needed");
}

#[test]
fn what_the_agent_leaves_behind_is_ended_and_named() {
    let env = TestEnvironment::new();
    env.agent
        .call(1)
        .script("setsid sleep 1000 & echo $! > \"$FAKE_DIR/daemon\"; touch done\n")
        .out("<promise>COMPLETE: x</promise>\n");
    env.run().expect(0).says("sleep");
    assert!(!alive(daemon(&env)));
}
