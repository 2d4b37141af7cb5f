//! Runs that outlive the terminal they were started on.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, getsid};

use crate::environment::{Running, TestEnvironment, alive, eventually, of_run};

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// An agent that says that it is there, and works until it is let go.
pub(crate) fn waiting() -> (TestEnvironment, PathBuf, PathBuf) {
    let env = TestEnvironment::new();
    let (up, go) = (env.fifo("up"), env.fifo("go"));
    env.agent
        .call(1)
        .script(&format!(
            "echo > '{}'; cat '{}' > /dev/null; touch done\n",
            up.display(),
            go.display()
        ))
        .out(DONE);
    (env, up, go)
}

fn pid(env: &TestEnvironment) -> i32 {
    i32::try_from(env.status()["pid"].as_i64().unwrap()).unwrap()
}

/// Lets the agent go on, and waits until nothing of the run is left.
fn ended(env: &TestEnvironment, go: &Path) {
    fs::write(go, "x").unwrap();
    eventually("the run is over", || of_run(&env.root()).is_empty());
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let (env, up, go) = waiting();
    let mut command = env.program(Path::new("nohup"));
    command.arg(env!("CARGO_BIN_EXE_ralph-orchestrator")).arg("run");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::new(command.spawn().unwrap());
    fs::read(&up).unwrap();
    for _ in 0..3 {
        running.signal(Signal::HUP);
    }
    // It is the journal that tells that no stop was requested.
    fs::write(&go, "x").unwrap();
    running.wait().expect(0).says("completed");
    assert!(env.records("cancelling").is_empty());
}

#[test]
fn other_signals_still_stop_a_run_that_ignores_hangups() {
    let (env, up, _go) = waiting();
    let mut command = env.program(Path::new("nohup"));
    command.arg(env!("CARGO_BIN_EXE_ralph-orchestrator")).arg("run");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::new(command.spawn().unwrap());
    fs::read(&up).unwrap();
    running.signal(Signal::HUP);
    running.signal(Signal::TERM);
    running.wait().expect(143);
}

#[test]
fn a_detached_run_has_a_session_of_its_own_and_says_how_to_follow_and_stop_it() {
    let (env, up, go) = waiting();
    // The pipes of its output are closed, or this would wait for the end of the run.
    let started = env.ralph(&["run", "--detach"]).expect(0);
    fs::read(&up).unwrap();
    let run = env.status()["run"].as_str().unwrap().to_owned();
    let pid = pid(&env);
    started
        .says(&run)
        .says(&format!("pid {pid}"))
        .says("ralph-orchestrator log --follow")
        .says("ralph-orchestrator stop")
        .says("ralph-orchestrator status");
    // Only its own session is asked for: that of this test may be outside of its PID namespace.
    let session = getsid(Pid::from_raw(pid)).unwrap();
    assert_eq!(session.as_raw_nonzero().get(), pid, "it leads a session of its own");
    for fd in 0..3 {
        let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
        let link = link.display().to_string();
        assert!(link == "/dev/null" || link.ends_with("/output.log"), "{fd}: {link}");
    }
    ended(&env, &go);
    assert_eq!(env.status()["phase"], "completed");
    let log = env.state().join("runs").join(&run).join("output.log");
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("iteration 1") && text.contains("completed: 1 iteration"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    started.says(&log.display().to_string());
}

#[test]
fn what_is_shown_next_is_the_new_run_and_not_the_one_before() {
    let env = TestEnvironment::new();
    // To read them takes a while.
    for number in 0..3_000 {
        env.write(&format!("files/{number}"), "x");
    }
    env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    let before = env.status()["run"].as_str().unwrap().to_owned();
    let (up, go) = (env.fifo("up"), env.fifo("go"));
    let script = format!("echo > '{}'; cat '{}'; touch done\n", up.display(), go.display());
    env.agent.call(2).script(&script).out(DONE);
    let started = env.ralph(&["run", "--detach", "--restart"]).expect(0);
    let now = env.status()["run"].as_str().unwrap().to_owned();
    assert_ne!(now, before);
    started.says(&now);
    fs::read(&up).unwrap();
    ended(&env, &go);
}

#[test]
fn stop_ends_a_detached_run() {
    let (env, up, _go) = waiting();
    env.ralph(&["run", "--detach"]).expect(0);
    fs::read(&up).unwrap();
    let pid = pid(&env);
    env.ralph(&["stop"]).expect(0).says("stopped");
    eventually("it is gone", || !alive(pid) && of_run(&env.root()).is_empty());
    assert_eq!(env.status()["phase"], "interrupted");
}

#[test]
fn a_mistake_in_the_configuration_keeps_no_run_from_being_stopped() {
    let (env, up, _go) = waiting();
    env.ralph(&["run", "--detach"]).expect(0);
    fs::read(&up).unwrap();
    let pid = pid(&env);
    let config = env.read("ralph.toml");
    env.write("ralph.toml", format!("{config}\n[nonsense]\nx = 1\n"));
    env.ralph(&["stop"]).expect(0).says("stopped");
    assert!(!alive(pid));
    env.ralph(&["stop"]).expect(0).says("no run is active");
    env.ralph(&["run"]).expect(78).says("nonsense");
}

#[test]
fn its_events_go_to_the_log_too() {
    let (env, up, go) = waiting();
    env.ralph(&["run", "--detach", "--json"]).expect(0);
    fs::read(&up).unwrap();
    ended(&env, &go);
    let run = env.status()["run"].as_str().unwrap().to_owned();
    let log = fs::read_to_string(env.state().join("runs").join(run).join("output.log")).unwrap();
    let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "run_finished");
}

#[test]
fn what_keeps_it_from_starting_is_said_before_the_command_returns() {
    let (env, up, go) = waiting();
    let config = env.read("ralph.toml");
    env.write("ralph.toml", format!("{config}\n[nonsense]\nx = 1\n"));
    env.ralph(&["run", "--detach"]).expect(78).says("nonsense");
    env.write("ralph.toml", config.replace("fake-agent", "no-agent"));
    env.ralph(&["run", "--detach"]).expect(69).says("no-agent");
    env.write("ralph.toml", &config);
    let mut first = env.start(&["run"]);
    fs::read(&up).unwrap();
    env.ralph(&["run", "--detach"]).expect(75).says(&format!("pid {}", first.pid()));
    fs::write(&go, "x").unwrap();
    first.wait().expect(0);
    env.ralph(&["run", "--detach"]).expect(0).says("already completed");
    assert_eq!(env.agent.calls(), 1);
    assert!(of_run(&env.root()).is_empty());
    env.ralph(&["run", "--detach", "--dry-run"]).expect(64);
}

#[test]
fn an_open_question_is_not_left_behind_in_the_background() {
    let env = TestEnvironment::new();
    env.agent.call(1).out("<promise>NEEDS_HUMAN: which colour?</promise>\n");
    env.run().expect(2);
    env.ralph(&["run", "--detach"]).expect(2).says("which colour?").says("answer");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_detached_run_lives_on_when_its_terminal_is_gone() {
    let (env, up, go) = waiting();
    // `script` gives it a terminal, which hangs up when its shell has ended.
    let bin = env!("CARGO_BIN_EXE_ralph-orchestrator");
    let mut command = env.program(Path::new("script"));
    command.args(["-qec", &format!("'{bin}' run --detach"), "/dev/null"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("in the background"), "{shown}");
    fs::read(&up).unwrap();
    ended(&env, &go);
    assert_eq!(env.status()["phase"], "completed");
}

#[test]
fn a_unit_for_systemd_starts_the_run_of_this_configuration() {
    let env = TestEnvironment::new();
    let folder = env.root().join("home/.config/systemd/user");
    let ended = env.ralph(&["init", "--systemd"]).expect(0);
    let unit = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let name = unit.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("ralph-orchestrator-w-") && name.ends_with(".service"), "{name}");
    ended
        .says(&unit.display().to_string())
        .says("systemctl --user daemon-reload")
        .says(&format!("systemctl --user enable --now {name}"))
        .says("loginctl enable-linger");
    let text = fs::read_to_string(&unit).unwrap();
    let config = env.path("ralph.toml");
    assert!(text.contains(&format!("WorkingDirectory={}", env.workspace().display())), "{text}");
    assert!(text.contains(&format!(" -c \"{}\" run", config.display())), "{text}");
    assert!(text.contains("KillMode=mixed"), "{text}");
    if let Ok(checked) =
        Command::new("systemd-analyze").args(["verify", "--user"]).arg(&unit).output()
    {
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(!said.contains(&name), "{said}");
    }
    // It is not written over unless that is asked for.
    fs::write(&unit, "mine").unwrap();
    env.ralph(&["init", "--systemd"]).expect(64).says("already exists");
    assert_eq!(fs::read_to_string(&unit).unwrap(), "mine");
    env.ralph(&["init", "--systemd", "--force"]).expect(0);
    assert_eq!(fs::read_to_string(&unit).unwrap(), text);
    // What it starts has to be there.
    fs::remove_file(&config).unwrap();
    env.ralph(&["init", "--systemd", "--force"]).expect(64).says("ralph.toml");
}

#[test]
fn the_command_of_the_unit_runs() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch done\n").out(DONE);
    env.ralph(&["init", "--systemd"]).expect(0);
    let folder = env.root().join("home/.config/systemd/user");
    let unit = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(unit).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    // No word of it means anything else to a shell here.
    let mut command = env.program(Path::new("sh"));
    command.args(["-c", line]).current_dir("/");
    assert!(command.status().unwrap().success());
    assert_eq!(env.status()["phase"], "completed");
}

#[test]
fn the_runtime_of_a_run_that_goes_on_is_that_until_now() {
    let (mut env, up, go) = waiting();
    env.var("TZ", "Asia/Kolkata");
    env.ralph(&["run", "--detach"]).expect(0);
    fs::read(&up).unwrap();
    let runtime = || env.status()["runtime_s"].as_f64().unwrap();
    let first = runtime();
    let records = env.journal().len();
    eventually("time passes", || runtime() >= first + 0.2);
    assert_eq!(env.journal().len(), records, "nothing was recorded meanwhile");
    let status = env.ralph(&["status"]).expect(0).stdout;
    // One format for all times.
    assert_eq!(status.matches(" IST").count(), 2, "{status}");
    assert!(!status.contains('Z') && !status.contains("UTC"), "{status}");
    ended(&env, &go);
    let last = runtime();
    assert!(last >= first);
    assert_eq!(runtime().to_bits(), last.to_bits(), "it stands still when the run has ended");
}
