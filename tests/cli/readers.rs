//! Whoever reads what the program prints, or does not.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::environment::{PATIENCE, TestEnvironment, of_run};

/// How long a run may last whose limit is two seconds, and which waits five seconds for its reader.
const MOST_RUN: Duration = Duration::from_secs(30);
/// How long one may last that was asked to end: two seconds, and as many times more.
const MOST_WAIT: Duration = Duration::from_secs(12);

fn talking(script: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.agent.default_call().script(script);
    env
}

/// Waits for the end, without reading anything.
#[track_caller]
fn ends(child: &mut Child, within: Duration) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if began.elapsed() > within {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it did not end within {within:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn lines(from: impl std::io::Read) -> Vec<Value> {
    BufReader::new(from)
        .lines()
        .map(|line| line.unwrap())
        .map(|line| serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:.200}")))
        .collect()
}

#[test]
fn a_limit_holds_although_nobody_reads_the_events() {
    let env = talking("exec yes 'words and words and words'\n");
    let mut command = env.command(&["run", "--json", "--max-runtime", "2s"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(ends(&mut child, MOST_RUN), Some(1));
    assert_eq!(env.status()["stop_reason"], "max_runtime");
    let runtime = env.status()["runtime_s"].as_f64().unwrap();
    assert!(runtime < 15.0, "{runtime} s");
    assert!(of_run(&env.root()).is_empty());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("lines: the reader did not read them"), "{said}");
}

#[test]
fn a_limit_holds_although_nobody_reads_what_is_said() {
    let env = talking("exec yes 'words and words and words' >&2\n");
    let mut command = env.command(&["run", "--verbose", "--max-runtime", "2s"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(ends(&mut child, MOST_RUN), Some(1));
    let mut result = String::new();
    child.stdout.take().unwrap().read_to_string(&mut result).unwrap();
    assert!(result.starts_with("max_runtime: "), "the result has a stream of its own: {result}");
}

#[test]
fn a_signal_is_handled_although_nobody_reads() {
    for (args, flood) in [
        (["run", "--json"], "yes 'words and words and words'"),
        (["run", "--verbose"], "yes 'words and words and words'"),
    ] {
        let env = TestEnvironment::new();
        let fifo = env.fifo("floods");
        env.agent
            .default_call()
            .script(&format!("(sleep 0.7; echo x > '{}') &\nexec {flood}\n", fifo.display()));
        let mut command = env.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        fs::read(&fifo).unwrap();
        signal(&child, Signal::TERM);
        assert_eq!(ends(&mut child, MOST_WAIT), Some(143), "{args:?}");
        assert_eq!(env.status()["phase"], "interrupted");
        assert!(of_run(&env.root()).is_empty());
    }
}

#[test]
fn a_second_and_a_third_signal_are_handled_although_nobody_reads() {
    let env = TestEnvironment::new();
    let fifo = env.fifo("floods");
    env.agent.default_call().script(&format!(
        "trap '' INT TERM; (sleep 0.7; echo x > '{}') &\nwhile :; do echo 'words and words'; done\n",
        fifo.display()
    ));
    let mut command = env.command(&["run", "--verbose"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    fs::read(&fifo).unwrap();
    signal(&child, Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::TERM);
    assert_eq!(ends(&mut child, MOST_WAIT), Some(143));
}

#[test]
fn a_reader_that_comes_late_loses_nothing_of_a_usual_run() {
    // More than a pipe holds.
    let env = talking(
        "i=0; while [ $i -lt 300 ]; do echo \"$i: $(head -c 1000 /dev/zero | tr '\\0' w)\"; i=$((i + 1)); done
         touch done; echo '<promise>COMPLETE: x</promise>'\n",
    );
    let mut command = env.command(&["run", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let events = lines(child.stdout.take().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let text: String = events
        .iter()
        .filter(|event| event["event"] == "agent_text")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    for n in 0..300 {
        assert!(text.contains(&format!("{n}: w")), "line {n} is missing");
    }
    assert!(events.iter().all(|event| event["event"] != "lines_dropped"));
    assert_eq!(events.last().unwrap()["event"], "run_finished");
}

#[test]
fn a_reader_that_comes_at_the_end_gets_what_it_missed_and_how_it_ended() {
    // Several times what waits for a reader.
    let env = talking("yes 'words and words and words' | head -c 40000000\n");
    let mut command = env.command(&["run", "--json", "--max-iterations", "1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while env.has_state().then(|| env.state().join("latch").exists()) != Some(true)
        || env.ralph(&["status", "--json"]).stdout.contains("\"running\"")
    {
        assert!(began.elapsed() < PATIENCE);
    }
    let events = lines(child.stdout.take().unwrap());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let dropped = events.iter().find(|event| event["event"] == "lines_dropped");
    let dropped = dropped.expect("it is told that lines were dropped");
    assert!(dropped["lines"].as_u64().unwrap() > 0 && dropped["run"].is_string(), "{dropped}");
    let last = events.last().unwrap();
    assert_eq!(
        (&last["event"], &last["stop_reason"]),
        (&"run_finished".into(), &"max_iterations".into())
    );
}

#[test]
fn a_reader_that_goes_away_changes_nothing() {
    let env = talking("yes | head -n 100000; touch done; echo '<promise>COMPLETE: x</promise>'\n");
    let mut command = env.command(&["run", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(ends(&mut child, PATIENCE), Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "", "a closed pipe is no error");
    assert_eq!(env.status()["phase"], "completed");
}
