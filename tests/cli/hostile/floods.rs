//! Agents that say more than anybody can listen to. Whatever comes in, deadlines and signals are kept and
//! the journal stays small.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::hostile;
use crate::environment::{Ended, Running, TestEnvironment, eventually, of_run};

/// How long such a run may last, by its configuration.
const ALLOWED: &str = "1s";
/// How long it may last really, on a machine that does much else, where nothing better can be measured. An
/// agent that is heeded before its deadline lasts as long as it likes.
const MOST_RUNTIME_S: f64 = 15.0;
/// How much processor time the program may use from a signal to its end: one that heeds a flood first uses
/// all that it gets. The time that it waits for a processor, or for a disk, is the machine's.
const MOST_AFTER_SIGNAL: Duration = Duration::from_secs(4);
/// The same for a whole run: of that second each of two threads may use all, and then as above.
const MOST_OF_RUN: Duration = Duration::from_secs(6);
const MOST_JOURNAL: u64 = 10_000_000;

/// An environment whose agent's output is of this kind.
fn printing(output: &str) -> TestEnvironment {
    let env = hostile();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"{output}\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\nmax_cost_usd = \"none\"\nmax_iterations = 3\n"
    ));
    env
}

fn journal_size(env: &TestEnvironment) -> u64 {
    fs::metadata(env.journal_path()).unwrap().len()
}

/// Waits until a program has ended. Returns the processor time that it has used, and how it ended.
#[track_caller]
fn end_of(mut running: Running) -> (Duration, Ended) {
    let pid = running.pid();
    // Before it is waited for, which forgets the time.
    eventually("the end of the run", || stat(pid)[0] == "Z");
    (processor_time(pid), running.wait())
}

/// Runs a command. Returns the processor time that it has used, and its exit status.
#[track_caller]
fn status_of(command: &mut Command) -> (Duration, Option<i32>) {
    let mut child = command.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    eventually("the end of the run", || stat(pid)[0] == "Z");
    (processor_time(pid), child.wait().unwrap().code())
}

/// Processor time that a process and its threads have used, to a hundredth of a second.
fn processor_time(pid: i32) -> Duration {
    let ticks = |field: &String| field.parse::<u64>().unwrap();
    Duration::from_millis(stat(pid)[11..13].iter().map(ticks).sum::<u64>() * 10)
}

/// What the system says of a process, from its state on.
fn stat(pid: i32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().map(str::to_owned).collect()
}

/// Runs the flood into `max_runtime`, and another one into a signal.
#[track_caller]
fn is_kept_in_bounds(env: &TestEnvironment, what: &str, flood: &str) {
    env.agent.default_call().script(flood);
    let running = env.start(&["run", "--max-runtime", ALLOWED]);
    let (used, ended) = end_of(running);
    ended.expect(1).says("max_runtime");
    assert!(used < MOST_OF_RUN, "{what}: {used:?} of processor time");
    let cut = env.records("cancelling");
    assert!(cut.iter().any(|record| record["reason"] == "max_runtime"), "{what}: {cut:?}");
    assert!(journal_size(env) < MOST_JOURNAL, "{what}: {} bytes", journal_size(env));

    // The cut may have come at any time.
    env.write("PROMPT.md", "# Task\n");
    let fifo = env.fifo("floods");
    let tell = format!("(sleep 0.4; echo x > '{}') &\n", fifo.display());
    env.agent.default_call().script(&format!("{tell}{flood}"));
    let running = env.start(&["run", "--restart", "--max-runtime", "1000s"]);
    fs::read(&fifo).unwrap();
    let before = processor_time(running.pid());
    running.signal(Signal::TERM);
    let (used, ended) = end_of(running);
    ended.expect(143);
    let used = used.saturating_sub(before);
    assert!(used < MOST_AFTER_SIGNAL, "{what}: SIGTERM took {used:?} of processor time");
    assert!(journal_size(env) < MOST_JOURNAL, "{what}: {} bytes", journal_size(env));
    assert!(of_run(&env.root()).is_empty(), "{what}: processes are left");
}

#[test]
fn text_without_end() {
    is_kept_in_bounds(&printing("text"), "stdout", "exec yes\n");
}

#[test]
fn standard_error_without_end() {
    is_kept_in_bounds(&printing("text"), "stderr", "exec yes >&2\n");
}

#[test]
fn both_streams_without_end() {
    is_kept_in_bounds(&printing("codex-json"), "both", "yes >&2 & exec yes '{}'\n");
}

#[test]
fn lines_that_are_no_messages_without_end() {
    is_kept_in_bounds(&printing("claude-json"), "lines", "exec yes\n");
}

/// A program that prints a line again and again, with `%d` growing.
fn counting(line: &str) -> String {
    let line = line.replace('"', "\\\"");
    format!("exec awk 'BEGIN {{ for (i = 1; ; i++) printf \"{line}\\n\", i, i, i }}'\n")
}

// The orchestrator is sent the same events whichever format the agent prints.
#[test]
fn usage_without_end() {
    let line = r#"{"type":"step_finish","part":{"type":"step-finish","cost":0.000001,"tokens":{"input":10,"output":%d,"reasoning":0,"cache":{"read":0,"write":0}}}}"#;
    is_kept_in_bounds(&printing("opencode-json"), "usage", &counting(line));
}

#[test]
fn tool_calls_without_end() {
    let call = r#"{"type":"assistant","session_id":"s","message":{"id":"m%d","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"echo %d"}}]}}"#;
    is_kept_in_bounds(&printing("claude-json"), "tools", &counting(call));
}

#[test]
fn a_prompt_file_that_grows_without_end() {
    let grows = "while :; do echo more >> PROMPT.md; done\n";
    is_kept_in_bounds(&printing("text"), "grows", grows);
}

#[test]
fn a_prompt_file_that_changes_hands_without_end() {
    let large = "while :; do head -c 20000000 /dev/zero > PROMPT.md; echo x > PROMPT.md; done\n";
    is_kept_in_bounds(&printing("text"), "large", large);
}

#[test]
fn markers_that_come_and_go_without_end() {
    let markers = "while :; do
        echo '- [x] TASK_COMPLETE' > PROMPT.md; echo 'Not yet.' > PROMPT.md
        echo '**TASK_COMPLETE**' > PROMPT.md; echo 'Is TASK_COMPLETE near?' > PROMPT.md
        echo 'Status: TASK_COMPLETE' > PROMPT.md; rm PROMPT.md
    done\n";
    is_kept_in_bounds(&printing("text"), "markers", markers);
}

/// A plugin that sends events of one kind without end: questions whatever it is sent, the others until it is cancelled.
const PLUGIN: &str = r#"
import json, os, sys, threading

def send(frame, **rest):
    os.write(1, (json.dumps({"frame": frame, **rest}) + "\n").encode())

def event(kind, n):
    if kind == "usage":
        return {"type": "usage", "usage": {"tokens": {"input": n, "output": n}}}
    if kind == "context":
        return {"type": "context", "used": n % 2 * 100000, "window": 200000}
    if kind == "windows":
        return {"type": "rate_window", "name": "w%d" % (n % 1000), "used": n % 100 / 50, "resets_at_ms": n * 10**9}
    if kind == "note":
        return {"type": "note", "text": "%d " % n + "\x01" * 8000}
    if kind == "claims":
        return {"type": "claim", "kind": ["complete", "needs_human"][n % 2], "text": "claim %d" % n}
    if kind == "warnings":
        return {"type": "warning", "message": "warning %d" % n}
    return {"type": "waiting", "reason": "for %d" % n, "delay_ms": n}

def flood(call, kind):
    n = 0
    while True:
        n += 1
        send("event", call=call, event=event(kind, n))

answered = threading.Semaphore(1)

def ask(call):
    send("event", call=call, event=event("claims", 0))
    n = 0
    while True:
        answered.acquire()
        n += 1
        send("judge", call=call, ask=n, final_text="on and on")

for line in sys.stdin:
    frame = json.loads(line)
    what = frame["frame"]
    if what == "hello":
        send("hello", protocol=1, name="flood", version="1.0", features=[],
             provides=[{"kind": "agent", "name": "flood", "summary": "floods"}])
    elif what == "open":
        send("opened", instance=frame["instance"],
             agent={"summary": "floods", "capabilities": {"tokens": True}})
    elif what == "call" and frame["method"] == "check":
        send("done", call=frame["call"], found="here")
    elif what == "call":
        kind = sys.argv[1]
        work = (ask, (frame["call"],)) if kind == "questions" else (flood, (frame["call"], kind))
        threading.Thread(target=work[0], args=work[1], daemon=True).start()
    elif what == "judgement":
        answered.release()
    elif what == "cancel" and sys.argv[1] != "questions":
        os._exit(1)
    elif what == "close":
        break
"#;

#[test]
fn events_of_a_plugin_without_end() {
    for kind in
        ["usage", "context", "windows", "note", "claims", "warnings", "waiting", "questions"]
    {
        let env = hostile();
        fs::write(env.root().join("flood.py"), PLUGIN).unwrap();
        env.raw_config(&format!(
            "[run]\ndelay = \"0s\"\n\
             [plugins.flood]\ncommand = [\"python3\", \"{}\", \"{kind}\"]\n\
             [agent]\nadapter = \"flood\"\nunmetered = true\n\
             [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
             program = [\"test\", \"-e\", \"done\"]\n\
             [limits]\nmax_cost_usd = \"none\"\nmax_iterations = 3\n",
            env.root().join("flood.py").display()
        ));
        ends_in_time(&env, kind);
    }
}

/// As for a program, but that the graces of a plugin, which does not listen, are longer.
#[track_caller]
fn ends_in_time(env: &TestEnvironment, what: &str) {
    const GRACES_S: f64 = 25.0;
    let ended = env.ralph(&["run", "--max-runtime", ALLOWED]);
    let runtime = env.status()["runtime_s"].as_f64().unwrap();
    assert!(runtime < MOST_RUNTIME_S + GRACES_S, "{what}: {runtime} s");
    let stops = [Some(1), Some(2)];
    assert!(stops.contains(&ended.code), "{what}: {}\n{}", ended.stdout, ended.stderr);
    assert!(journal_size(env) < MOST_JOURNAL, "{what}: {} bytes", journal_size(env));
    let cut = env.records("cancelling").iter().any(|record| record["reason"] == "max_runtime");
    assert!(cut, "{what}: it was not cut by max_runtime");
    let at = env.records("iteration_ended")[0]["runtime_ms"].as_u64().unwrap();
    let reported = env.journal().iter().position(|r| r["kind"] == "cancelling").unwrap();
    let noted = env.journal()[..reported].iter().rev().find_map(|r| r["runtime_ms"].as_u64());
    assert!(noted.unwrap() < 15_000, "{what}: told to end after {noted:?} ms, ended after {at} ms");
    assert!(of_run(&env.root()).is_empty(), "{what}: processes are left");
}

#[test]
fn floods_shown_as_json_are_kept_in_bounds() {
    for (output, flood) in [
        ("text", "exec yes\n"),
        ("text", "exec yes >&2\n"),
        ("claude-json", "exec yes\n"),
        (
            "codex-json",
            "exec yes '{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"agent_message\",\"text\":\"on\"}}'\n",
        ),
    ] {
        let env = printing(output);
        env.agent.default_call().script(flood);
        let mut command = env.command(&["run", "--json", "--max-runtime", ALLOWED]);
        let null = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/null").unwrap());
        let (used, code) = status_of(command.stdout(null()).stderr(null()));
        assert_eq!(code, Some(1), "{output}: {flood}");
        assert!(used < MOST_OF_RUN, "{output}: {flood}: {used:?} of processor time");
    }
}

/// Money that was spent is known, however fast it was spent, and a limit cuts at once.
#[test]
fn the_last_figures_of_a_flood_are_on_record() {
    let step = r#"{"type":"step_finish","part":{"type":"step-finish","cost":0.001,"tokens":{"input":10,"output":1,"reasoning":0,"cache":{"read":0,"write":0}}}}"#;
    let env = printing("opencode-json");
    env.agent.default_call().script(&format!("yes '{step}' | head -n 2000; touch done\n"));
    let begin = Instant::now();
    env.ralph(&["run", "--once"]);
    let end = &env.records("iteration_ended")[0];
    assert_eq!(end["usage"]["tokens"]["input"], 20_000, "{end}");
    // Sixteen at once, and then one in two seconds, of which a busy machine takes many.
    let most = 20 + begin.elapsed().as_secs() / 2;
    let records = env.records("usage").len() as u64;
    assert!(records <= most, "{records} records of usage, at most {most} expected");

    // The same cut in the middle by a signal: what the agent had said by then is not lost.
    let env = printing("opencode-json");
    let fifo = env.fifo("said");
    env.agent.default_call().script(&format!(
        "trap 'exit 1' INT TERM; yes '{step}' | head -n 2000; echo x > '{}'; sleep 1000 & wait\n",
        fifo.display()
    ));
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    // The last line lies in a pipe that is read at once, but not before this.
    let transcript = env.journal_path().with_file_name("iterations/0001/transcript.jsonl");
    eventually("it was read", || lines_of(&transcript) > 1900);
    running.signal(Signal::TERM);
    running.wait().expect(143);
    let end = &env.records("iteration_ended")[0];
    assert_eq!(end["usage"]["tokens"]["input"], 20_000, "{end}");
}

fn lines_of(path: &Path) -> usize {
    fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

#[test]
pub(super) fn a_limit_cuts_a_flood_of_figures_at_once() {
    let step = r#"{"type":"step_finish","part":{"type":"step-finish","cost":0.001,"tokens":{"input":10,"output":1,"reasoning":0,"cache":{"read":0,"write":0}}}}"#;
    let env = printing("opencode-json");
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"opencode-json\"\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\nmax_cost_usd = 1.0\n",
    );
    // Slow enough for the cut to come between two of them.
    env.agent.default_call().script(&format!(
        "trap 'exit 1' INT TERM; for i in $(seq 1100); do echo '{step}'; done; sleep 1000\n"
    ));
    env.run().expect(1).says("stopped by limits.max_cost_usd");
    let journal = env.journal();
    let cut = journal.iter().position(|record| record["kind"] == "cancelling").unwrap();
    let at = journal[cut - 1]["usage"]["cost"].as_f64().unwrap();
    assert!((1.0..1.0005).contains(&at), "cut at {at}");
    assert_eq!(journal[cut - 1]["kind"], "usage");
}

/// Whoever starts the program may have given it a terminal, or a pipe that is read.
#[test]
fn a_flood_that_is_shown_in_full_is_kept_in_bounds() {
    let env = printing("text");
    env.agent.default_call().script("yes >&2 & exec yes\n");
    let mut command = env.command(&["run", "--verbose", "--max-runtime", ALLOWED]);
    let null = fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
    command.stdout(Stdio::piped()).stderr(null);
    let (used, code) = status_of(&mut command);
    assert_eq!(code, Some(1));
    assert!(used < MOST_OF_RUN, "{used:?} of processor time");
}
