//! Agents that misbehave, as real programs under the real orchestrator. Whatever they do, the run ends
//! as it should, for the reason it should, and nothing of them is left.

mod claims;
mod evidence;
mod floods;
mod links;
mod output;
pub(crate) mod own_binary;
pub(crate) mod packed;
mod processes;
mod replaced;
mod sizes;
mod state;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::environment::{Ended, Running, TestEnvironment, alive, eventually, of_run};

/// Most memory that the orchestrator may have, whatever is printed, in KiB. Without optimisation it has 51 MiB at the
/// beginning, so a line of 50 MiB that is kept once is too much.
const MOST_KIB: u64 = 90 * 1024;
/// A claim as its agent prints it.
const PROMISE: &str = "<promise>COMPLETE: made it</promise>\n";
/// What every agent does that has come to its senses.
const WORK: &str = "touch done\n";

/// How a run has to end.
#[derive(Clone, Copy, Debug)]
struct End<'a> {
    stop: &'a str,
    code: i32,
    iterations: u64,
    latch: &'a str,
    /// Names at the top of the workspace that the agent made.
    made: &'a [&'a str],
}

/// The end of a run whose agent did the work in the `iterations`-th iteration.
const fn completed<'a>(iterations: u64, made: &'a [&'a str]) -> End<'a> {
    End { stop: "completed", code: 0, iterations, latch: "completed", made }
}

/// The end of a run that a limit stopped; the latch never left `open`.
const fn stopped<'a>(stop: &'a str, iterations: u64, made: &'a [&'a str]) -> End<'a> {
    End { stop, code: 1, iterations, latch: "open", made }
}

/// An environment in which stray temporary files would be seen.
fn hostile() -> TestEnvironment {
    let mut env = TestEnvironment::new();
    let tmp = env.root().join("tmp");
    fs::create_dir(&tmp).unwrap();
    env.var("TMPDIR", &tmp.display().to_string());
    // What agents read is compared byte for byte.
    env.var("RALPH_COMPLETION__INSTRUCTIONS", "never");
    env
}

/// The same with an agent that prints what Claude prints, and costs money.
fn structured(limits: &str) -> TestEnvironment {
    let env = hostile();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\n{limits}\n"
    ));
    env
}

/// Checks how a run ended, and that nothing is left of it but what it may leave.
#[track_caller]
fn ends(env: &TestEnvironment, what: &str, ended: &Ended, end: End<'_>) {
    let output = || format!("{what}\n--- stdout\n{}\n--- stderr\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(end.code), "{}", output());
    let status = env.status();
    assert_eq!(status["stop_reason"], end.stop, "{status}\n{}", output());
    assert_eq!(status["iterations"], end.iterations, "{status}\n{}", output());
    assert_eq!(status["latch"]["state"], end.latch, "{status}\n{}", output());
    leaves_nothing(env, what, end.made);
}

/// No process, nothing in the workspace but what was there and what the agent made, nothing in the
/// folder for temporary files, nothing in the state but what belongs there.
#[track_caller]
fn leaves_nothing(env: &TestEnvironment, what: &str, made: &[&str]) {
    assert_eq!(of_run(&env.root()), Vec::<i32>::new(), "{what}: processes are left");
    let only = |folder: &Path, allowed: &[&str]| {
        let found: BTreeSet<String> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| !allowed.contains(&name.as_str()))
            .collect();
        assert!(found.is_empty(), "{what}: strays in {}: {found:?}", folder.display());
    };
    only(&env.workspace(), &[&["PROMPT.md", "ralph.toml"], made].concat());
    only(&env.root().join("tmp"), &[]);
    only(&env.root().join("home"), &[".local"]);
    let state = env.state();
    only(&state, &["agents.lock", "key", "latch", "lock", "owner.json", "runs", "tried-layers"]);
    for run in fs::read_dir(state.join("runs")).unwrap() {
        let known = [
            "baseline.json",
            "checkout",
            "checkout-contents.json",
            "checkout-kept.json",
            "checkout.json",
            "config.toml",
            "evidence",
            "heartbeat",
            "iterations",
            "journal.jsonl",
            "log.jsonl",
            "paths.json",
            "prompts.json",
            "steering.json",
            "tests.json",
            "validating.json",
        ];
        only(&run.unwrap().path(), &known);
    }
}

/// What the `n`-th call was told, as text.
fn prompt_given(env: &TestEnvironment, n: usize) -> String {
    String::from_utf8_lossy(&env.agent.stdin(n)).into_owned()
}

/// The process id that an agent wrote into its own folder.
#[track_caller]
fn pid_in(env: &TestEnvironment, name: &str) -> i32 {
    let path = env.agent.program().with_file_name(name);
    let mut pid = None;
    eventually("the agent has written a process id", || {
        pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

#[track_caller]
fn gone(env: &TestEnvironment, name: &str) {
    let pid = pid_in(env, name);
    assert!(!alive(pid), "{name} ({pid}) is still there");
}

/// Waits for the end of a command and says how much memory it had at most, in KiB.
fn wait_measured(running: &mut Running) -> (Ended, u64) {
    let path = format!("/proc/{}/status", running.pid());
    let mut most = 0;
    eventually("it ends", || {
        let status = fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(now.unwrap_or(0));
        running.child.try_wait().unwrap().is_some()
    });
    (running.wait(), most)
}
