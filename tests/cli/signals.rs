//! Ctrl-C, `kill`, and what is left of the agent.

use std::fs;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{Running, TestEnvironment, alive, eventually, of_run, tested_program};

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

/// `run`, though these tests may have been started by `nohup`.
fn hangups_end_it(env: &TestEnvironment) -> Running {
    let mut command = env.program(Path::new("env"));
    command.arg("--default-signal=HUP").arg(tested_program()).arg("run");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::new(command.spawn().unwrap())
}

#[test]
fn a_signal_ends_the_agent_and_the_run_goes_on_later() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        let env = talking();
        let mut running = hangups_end_it(&env);
        let daemon = daemon(&env);
        running.signal(signal);
        running.wait().expect(status).says("interrupted");
        let named = signal == Signal::HUP;
        for command in ["status", "why", "log"] {
            let shown = env.ralph(&[command]).stdout;
            assert_eq!(shown.contains("the terminal was closed"), named, "{command}: {shown}");
        }
        assert!(!alive(daemon), "the daemon is gone");
        assert!(of_run(&env.root()).is_empty(), "so is everything else");
        assert_eq!(env.status()["phase"], "interrupted");
        env.run().expect(0).says(" resumed after ");
        assert_eq!(env.agent.env(2)["RALPH_ITERATION"], "2");
    }
}

#[test]
fn stop_ends_the_run_of_this_workspace() {
    let env = talking();
    env.ralph(&["stop"]).expect(0).says("no run is active");
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
    assert_eq!(env.records("iteration_ended")[0]["outcome"]["type"], "interrupted");
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
    // Before any work, in the baseline: it is broken off, and run again by the next start.
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    running.signal(Signal::INT);
    running.wait().expect(130);
    assert_eq!(env.status()["latch"]["state"], "open");
    assert!(env.records("baseline").is_empty() && env.agent.calls() == 0);
    let mut running = env.start(&["run", "--set", "completion.baseline=off"]);
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
        .script(
            "setsid sleep 1000 & echo $! > \"$FAKE_DIR/daemon\"
             until grep -q sleep /proc/$!/comm; do :; done\n",
        )
        .out("the tests run in the background\n");
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    env.run().expect(0).says("sleep");
    assert!(!alive(daemon(&env)));
    let told = String::from_utf8_lossy(&env.agent.stdin(2)).into_owned();
    let expected =
        "in the background was ended with it:\n- sleep 1000\nNothing runs on between sessions";
    assert!(told.contains(expected), "{told}");
}

/// An agent, and a child of it in another session, that end only when killed.
fn stubborn() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.agent.call(1).script(
        "trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM; while :; do sleep 1; done' &
         echo $! > \"$FAKE_DIR/daemon\"; while :; do sleep 1; done\n",
    );
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    env
}

#[test]
pub(crate) fn a_second_signal_kills_at_once_and_nothing_is_left_when_the_program_ends() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let env = stubborn();
        let mut running = env.start(&["run"]);
        let daemon = daemon(&env);
        running.signal(signal);
        running.says("stopping");
        assert!(alive(daemon), "the first one is only a request");
        let begin = Instant::now();
        running.signal(signal);
        running.wait().expect(status).says("interrupted");
        assert!(of_run(&env.root()).is_empty(), "something was left when the program had ended");
        assert!(!alive(daemon));
        // Ten seconds are the graces that were not given.
        assert!(begin.elapsed() < Duration::from_secs(9), "{:?}", begin.elapsed());
        assert_eq!(env.records("iteration_ended")[0]["outcome"]["type"], "stopped_early");
        env.run().expect(0).says(" resumed after ");
    }
}

#[test]
pub(crate) fn a_third_signal_leaves_at_once_and_the_tree_ends_all_the_same() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let env = stubborn();
        let mut running = env.start(&["run"]);
        let daemon = daemon(&env);
        let begin = Instant::now();
        for text in ["stopping", "at once"] {
            running.signal(signal);
            running.says(text);
        }
        // It may have ended by the second one already.
        let _ = kill_process(Pid::from_raw(running.pid()).unwrap(), signal);
        running.wait().expect(status);
        eventually("everything is gone", || of_run(&env.root()).is_empty());
        assert!(!alive(daemon));
        assert!(begin.elapsed() < Duration::from_secs(9), "{:?}", begin.elapsed());
        env.run().expect(0).says(" resumed after ");
    }
}

#[test]
fn the_exit_status_is_that_of_the_first_signal() {
    for (signals, status) in
        [([Signal::INT, Signal::TERM], 130), ([Signal::TERM, Signal::INT], 143)]
    {
        let env = stubborn();
        let mut running = env.start(&["run"]);
        daemon(&env);
        running.signal(signals[0]);
        running.says("stopping");
        running.signal(signals[1]);
        running.wait().expect(status);
    }
}

#[test]
fn a_signal_while_the_old_agents_are_waited_for_is_handled() {
    let env = stubborn();
    let mut running = env.start(&["run"]);
    let old = daemon(&env);
    running.signal(Signal::KILL);
    running.wait();
    // The old agent has its grace; this start waits for that, and is told not to.
    let mut waiting = env.start(&["run"]);
    let lock = env.state().join("lock");
    eventually("it has the lock", || {
        let file = fs::File::open(&lock).unwrap();
        file.try_lock().is_err() || waiting.child.try_wait().unwrap().is_some()
    });
    let begin = Instant::now();
    waiting.signal(Signal::INT);
    waiting.wait().expect(130);
    let took = begin.elapsed();
    assert!(alive(old) || took < Duration::from_secs(4), "it waited for the old agent: {took:?}");
    env.run().expect(0);
    assert!(of_run(&env.root()).is_empty());
}

#[test]
fn no_signal_ever_goes_to_the_group_of_the_caller() {
    for signals in [
        vec![Signal::INT],
        vec![Signal::TERM; 2],
        vec![Signal::HUP; 3],
        vec![Signal::TSTP, Signal::CONT, Signal::TERM],
        vec![Signal::KILL],
    ] {
        let env = stubborn();
        // A sibling leads the group, the orchestrator joins it: as in a pipeline of a shell.
        let mut sibling = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let group = i32::try_from(sibling.id()).unwrap();
        let mut command = env.program(Path::new("env"));
        // These tests may have been started by `nohup`.
        command.arg("--default-signal=HUP").arg(tested_program()).arg("run");
        command.process_group(group).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::new(command.spawn().unwrap());
        daemon(&env);
        for signal in &signals {
            // Later ones may find it gone.
            let _ = kill_process(Pid::from_raw(running.pid()).unwrap(), *signal);
        }
        running.wait();
        eventually("everything is gone", || of_run(&env.root()).is_empty());
        let untouched = sibling.try_wait().unwrap().is_none() && !is_stopped(group);
        assert!(untouched, "{signals:?} reached the sibling");
        sibling.kill().unwrap();
        sibling.wait().unwrap();
    }
}

/// The journal's records of passing time, while it is written.
fn ticks(env: &TestEnvironment) -> usize {
    let journal = fs::read_to_string(env.journal_path()).unwrap();
    journal.matches("\"kind\":\"clock\"").count()
}

fn is_stopped(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ")
}

fn stands_still(stop: Signal) {
    // Longer than every limit.
    const STANDSTILL: Duration = Duration::from_secs(9);
    let env = TestEnvironment::new();
    let fifo = env.fifo("go");
    env.config(
        "\n[limits]\nmax_runtime = \"8s\"\niteration_timeout = \"7500ms\"\nidle_timeout = \"7s\"\n",
    );
    env.agent
        .call(1)
        .script(&format!("echo here; cat '{}' >/dev/null; touch done\n", fifo.display()))
        .out("<promise>COMPLETE: x</promise>\n");
    let mut command = env.command(&["run"]);
    // Ctrl-Z stops no group that has nobody outside who could let it go on, so it is in one of its own.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::new(command.spawn().unwrap());
    eventually("the agent runs", || env.agent.calls() == 1);
    running.signal(stop);
    eventually("it is stopped", || is_stopped(running.pid()));
    let before = ticks(&env);
    std::thread::sleep(STANDSTILL);
    assert!(is_stopped(running.pid()) && ticks(&env) == before);
    running.signal(Signal::CONT);
    eventually("it looks at its clocks before the agent goes on", || ticks(&env) > before + 1);
    fs::write(&fifo, "x").unwrap();
    running.wait().expect(0);
    let runtime = env.status()["runtime_s"].as_f64().unwrap();
    assert!(runtime < 8.0, "{stop:?}: {runtime} s");
}

#[test]
fn a_time_of_standstill_is_charged_to_no_limit() {
    std::thread::scope(|scope| {
        for stop in [Signal::STOP, Signal::TSTP] {
            scope.spawn(move || stands_still(stop));
        }
    });
}

#[test]
fn stop_ends_a_run_whose_orchestrator_an_agent_has_stopped() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("sleep 1000\n");
    let mut running = env.start(&["run"]);
    eventually("the agent runs", || env.agent.calls() == 1);
    running.signal(Signal::STOP);
    eventually("it is stopped", || is_stopped(running.pid()));
    env.ralph(&["stop"]).expect(0).says("stopped");
    running.wait().expect(143);
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_with_its_place() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    let mut command = env.program(Path::new("sh"));
    let bin = env!("CARGO_BIN_EXE_ralph-orchestrator");
    command.args(["-c", "ulimit -f 1; exec \"$0\" run", bin]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = Running::new(command.spawn().unwrap()).wait();
    ended.expect(70).says("File too large").says("cannot write");
    env.run().expect(0);
}
