//! What people ask of a run while it is active, and what becomes of it.

mod attacks;
mod backlog;
mod in_session;
mod inbox;
mod moments;
mod own_run;
mod shown;
mod workspaces;

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::completion::claude_result;
use crate::environment::{Running, TestEnvironment, eventually};

const PROMISE: &str = "<promise>COMPLETE: made it</promise>";

/// When a control is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    BeforeTheFirstRun,
    InAnIteration,
    InADelay,
    InAValidation,
    InAWait,
    InAPause,
    AfterAKill,
    WhenComplete,
}

/// A run at a moment of its life.
pub(super) struct Scene {
    pub(super) env: TestEnvironment,
    pub(super) moment: Moment,
    pub(super) running: Option<Running>,
    gate: PathBuf,
}

/// An agent whose first iteration costs a quarter of a dollar and proves nothing; its second one does the work.
fn working(run: &str, check: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\n{run}\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"-c\", '{check}']\n"
    ));
    env.agent.call(1).out(claude_result("working on it", 0.25));
    env.agent.default_call().script("touch done\n").out(claude_result(PROMISE, 0.5));
    env
}

const AT_ONCE: &str = "delay = \"0s\"";
const CHECK: &str = "test -e done";

impl Scene {
    pub(super) fn at(moment: Moment) -> Self {
        match moment {
            Moment::BeforeTheFirstRun => {
                let env = working(AT_ONCE, CHECK);
                Self { gate: PathBuf::new(), env, moment, running: None }
            }
            Moment::InAnIteration => Self::in_an_iteration(moment),
            Moment::InADelay => {
                let env = working("delay = \"1h\"", CHECK);
                let mut running = env.start(&["run", "--json"]);
                running.prints("\"event\":\"paused\"");
                Self { gate: PathBuf::new(), env, moment, running: Some(running) }
            }
            Moment::InAValidation => Self::in_a_validation(),
            Moment::InAWait => Self::in_a_wait(),
            Moment::InAPause => {
                let mut scene = Self::in_an_iteration(moment);
                scene.env.ralph(&["pause"]).expect(0);
                scene.release();
                scene.prints("\"event\":\"pause_began\"");
                scene
            }
            Moment::AfterAKill => {
                let mut scene = Self::in_an_iteration(moment);
                let mut running = scene.running.take().unwrap();
                running.signal(Signal::KILL);
                running.wait();
                scene
            }
            Moment::WhenComplete => {
                let env = working(AT_ONCE, CHECK);
                env.run().expect(0);
                Self { gate: PathBuf::new(), env, moment, running: None }
            }
        }
    }

    /// The agent of the first iteration works until it is released.
    fn in_an_iteration(moment: Moment) -> Self {
        let env = working(AT_ONCE, CHECK);
        let (up, gate) = (env.fifo("up"), env.fifo("gate"));
        let script = format!("echo > '{}'\ncat '{}' > gate-seen\n", up.display(), gate.display());
        env.agent.call(1).script(&script).out(claude_result("working on it", 0.25));
        let running = env.start(&["run", "--json"]);
        fs::read(&up).unwrap();
        Self { env, moment, running: Some(running), gate }
    }

    /// The first claim is wrong; its validator works until it is released.
    fn in_a_validation() -> Self {
        let check = "test -e ../validated || { echo > ../up; cat ../gate; touch ../validated; }; test -e done";
        let env = working("delay = \"0s\"\n[completion]\nbaseline = \"off\"", check);
        let (up, gate) = (env.fifo("up"), env.fifo("gate"));
        env.agent.call(1).script("true\n").out(claude_result(PROMISE, 0.25));
        let running = env.start(&["run", "--json"]);
        fs::read(&up).unwrap();
        Self { env, moment: Moment::InAValidation, running: Some(running), gate }
    }

    /// The provider refuses requests for an hour.
    fn in_a_wait() -> Self {
        let env = working(AT_ONCE, CHECK);
        env.agent.call(1).script(
            "reset=$(($(date +%s) + 3600))
             printf '{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":%s,\
             \"rateLimitType\":\"five_hour\"},\"session_id\":\"s\"}\\n' $reset
             printf '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\
             \"result\":\"limit reached\",\"total_cost_usd\":0.25,\"session_id\":\"s\",\"num_turns\":1,\
             \"usage\":{\"input_tokens\":1,\"output_tokens\":1}}\\n'
             exit 1\n",
        );
        let mut running = env.start(&["run", "--json"]);
        running.prints("\"event\":\"waiting\"");
        Self { gate: PathBuf::new(), env, moment: Moment::InAWait, running: Some(running) }
    }

    /// Lets the agent or the validator that waits go on.
    pub(super) fn release(&self) {
        fs::write(&self.gate, "").unwrap();
    }

    /// The same, where something waits at this moment.
    pub(super) fn release_if_held(&self) {
        if matches!(self.moment, Moment::InAnIteration | Moment::InAValidation) {
            self.release();
        }
    }

    #[track_caller]
    pub(super) fn prints(&mut self, text: &str) {
        self.running.as_mut().unwrap().prints(text);
    }

    /// Waits for the end of the run.
    #[track_caller]
    pub(super) fn ends(&mut self, code: i32) {
        self.running.take().unwrap().wait().expect(code);
    }

    /// The prompt of an agent's call.
    pub(super) fn prompt(&self, call: usize) -> String {
        String::from_utf8(self.env.agent.stdin(call)).unwrap()
    }

    /// The controls in the journal.
    pub(super) fn controls(&self) -> Vec<Value> {
        self.env.records("control_received")
    }
}

#[test]
fn guidance_is_given_until_an_iteration_has_ended_well() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let env = &scene.env;
    env.agent.call(2).rc(1);
    env.ralph(&["steer", "look at the\nparser first"]).expect(0).says("queued");
    let stage = |env: &TestEnvironment| env.status()["guidance"][0]["state"].clone();
    assert_eq!(stage(env), "queued");
    let expected = "Guidance from a human:\n- look at the\n  parser first\n";
    scene.release();
    scene.ends(0);
    assert!(!scene.prompt(1).contains("parser"), "it had begun already");
    for call in [2, 3] {
        let prompt = scene.prompt(call);
        assert!(prompt.starts_with(expected) || prompt.contains(expected), "{call}: {prompt}");
    }
    assert_eq!(stage(&scene.env), "seen");
    assert_eq!(scene.env.status()["guidance"][0]["iteration"], 3);
    scene.env.ralph(&["log"]).expect(0).says("guidance by ").says("given 1 message");
}

#[test]
fn an_answer_reaches_a_run_that_is_active() {
    let env = TestEnvironment::new();
    let (up, gate) = (env.fifo("up"), env.fifo("gate"));
    env.agent.call(1).script(&format!("echo > '{}'; cat '{}'\n", up.display(), gate.display()));
    env.agent.default_call().script("touch done\n").out(format!("{PROMISE}\n"));
    let mut running = env.start(&["run"]);
    fs::read(&up).unwrap();
    env.ralph(&["answer", "use the left one"]).expect(0).says("no question is open");
    fs::write(&gate, "").unwrap();
    running.wait().expect(0);
    let prompt = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(prompt.contains("Guidance from a human:\n- use the left one\n"), "{prompt}");
    let answered = &env.records("answered")[0];
    assert_eq!(answered["origin"]["program"], "command line");
    assert!(answered["origin"]["sent_ms"].is_u64(), "{answered}");
}

#[test]
fn many_terminals_at_once_lose_and_repeat_nothing() {
    let mut scene = Scene::at(Moment::InAnIteration);
    let texts: Vec<String> = (0..8).map(|n| format!("text {n}")).collect();
    let mut commands: Vec<Running> =
        texts.iter().map(|text| scene.env.start(&["steer", text])).collect();
    commands.extend((0..4).map(|_| scene.env.start(&["pause"])));
    for command in &mut commands {
        command.wait().expect(0);
    }
    scene.release();
    scene.prints("\"event\":\"pause_began\"");
    // The run goes on with the first of them, and must not be complete before the last.
    let resumed = scene.env.fifo("resumed");
    let go_on = format!("read x < '{}'\ntouch done\n", resumed.display());
    scene.env.agent.call(2).script(&go_on).out(format!("{PROMISE}\n"));
    let mut commands: Vec<Running> = (0..4).map(|_| scene.env.start(&["resume"])).collect();
    for command in &mut commands {
        command.wait().expect(0);
    }
    fs::write(&resumed, "go\n").unwrap();
    scene.ends(0);
    let mut given: Vec<String> = scene
        .controls()
        .iter()
        .filter_map(|record| Some(record["control"]["text"].as_str()?.to_owned()))
        .collect();
    given.sort();
    assert_eq!(given, texts);
    let effective = |word: &str| {
        let all = scene.controls();
        let of = all.iter().filter(|record| record["control"]["type"] == word);
        (of.clone().count(), of.filter(|record| record["refused"].is_null()).count())
    };
    assert_eq!(effective("pause"), (4, 1));
    assert_eq!(effective("resume"), (4, 1));
}

#[test]
fn a_pause_survives_a_restart_and_costs_no_runtime() {
    let mut scene = Scene::at(Moment::InAPause);
    let before = scene.env.status();
    assert_eq!(before["phase"], "paused");
    scene.env.ralph(&["stop"]).expect(0).says("stopped");
    scene.ends(143);
    assert_eq!(scene.env.status()["phase"], "interrupted");
    scene.env.ralph(&["status"]).expect(0).says("pause       paused by");
    scene.env.ralph(&["doctor"]).says("the run is paused, and `resume` ends the pause");
    scene.env.ralph(&["run", "--dry-run"]).expect(0).says("once `resume` ends the pause");
    // Whoever starts it again waits as well, and is told of it.
    let mut running = scene.env.start(&["run"]);
    running.says("paused by ");
    eventually("the run is paused", || scene.env.status()["phase"] == "paused");
    let paused = scene.env.records("paused").last().unwrap()["runtime_ms"].as_u64().unwrap();
    // Longer than the clock's beat, and than what a busy machine needs for all the rest.
    std::thread::sleep(std::time::Duration::from_secs(3));
    scene.env.ralph(&["resume"]).expect(0).says("the pause is over");
    running.wait().expect(0);
    let records = scene.env.journal();
    let resumed = records.iter().rposition(|record| record["kind"] == "control_received").unwrap();
    let next = records[resumed..].iter().find_map(|record| record["runtime_ms"].as_u64()).unwrap();
    assert!(next - paused < 2_500, "{next} after {paused}");
    assert_eq!(scene.env.agent.calls(), 2);
}

#[test]
fn a_control_is_recorded_while_the_setup_or_the_baseline_check_runs() {
    let setup = "delay = \"0s\"\nsetup = [\"sh\", \"-c\", \"echo > ../up; cat ../gate\"]";
    let check = "echo > ../up; cat ../gate; test -e done";
    for (run, check, gates) in [(setup, CHECK, 3), (AT_ONCE, check, 3)] {
        let env = working(run, check);
        let (up, gate) = (env.fifo("up"), env.fifo("gate"));
        env.agent.call(1).script("touch done\n").out(claude_result(PROMISE, 0.25));
        let mut running = env.start(&["run"]);
        fs::read(&up).unwrap();
        env.ralph(&["steer", "look at the parser"]).expect(0).says("queued: this goes");
        assert_eq!(env.records("control_received").len(), 1);
        assert_eq!(env.agent.calls(), 0);
        fs::write(&gate, "").unwrap();
        for _ in 1..gates {
            if running.child.try_wait().unwrap().is_none() {
                opens(&up, &gate, &mut running);
            }
        }
        running.wait().expect(0);
        let prompt = String::from_utf8(env.agent.stdin(1)).unwrap();
        assert!(prompt.contains("look at the parser"), "{prompt}");
    }
}

/// Meets whoever comes to the gate next, unless the run ends before.
fn opens(up: &std::path::Path, gate: &std::path::Path, running: &mut Running) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut option = fs::OpenOptions::new();
    let mut reader = option.read(true).custom_flags(flags).open(up).unwrap();
    let mut met = false;
    eventually("the gate or the end", || {
        let mut byte = [0];
        met = std::io::Read::read(&mut reader, &mut byte).is_ok_and(|read| read > 0);
        met || running.child.try_wait().unwrap().is_some()
    });
    drop(reader);
    if met {
        fs::write(gate, "").unwrap();
    }
}

#[test]
fn ctrl_c_ends_a_paused_run_at_once() {
    let mut scene = Scene::at(Moment::InAPause);
    scene.running.as_ref().unwrap().signal(Signal::INT);
    scene.ends(130);
    assert_eq!(scene.env.agent.calls(), 1);
}

#[test]
fn a_limit_that_was_set_holds_over_restarts_until_it_is_cleared() {
    let env = working("delay = \"0s\"\n[limits]\nmax_iterations = 1", CHECK);
    env.run().expect(1);
    env.ralph(&["limits", "--max-iterations", "2", "--max-tokens", "none"]).expect(0);
    let shown = env.ralph(&["limits"]).expect(0);
    shown.says("max_iterations  2").says("1 used").says("set by ").says("max_cost_usd");
    env.ralph(&["status"]).expect(0).says("limits.max_iterations was set by");
    let limits: Value =
        serde_json::from_str(&env.ralph(&["limits", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(limits["limits"]["max_iterations"]["configured"], 1);
    assert_eq!(limits["limits"]["max_cost_usd"]["used"], 0.25);
    env.ralph(&["limits", "--clear"]).expect(0).says("max_iterations  1");
    env.run().expect(1);
    env.ralph(&["limits", "--max-iterations", "2"]).expect(0);
    let stricter = env.ralph(&["run", "--max-iterations", "1"]).expect(1);
    stricter
        .says("limits.max_iterations (1) was the limit of this start only")
        .says("up to 2 (set");
    env.ralph(&["limits"]).expect(0).says("of the last start; the next has 2 (set by ");
    // A looser flag takes back nothing that was set, and that is said.
    let ignored = env.ralph(&["run", "--max-iterations", "9"]).expect(0);
    ignored.says("limits.max_iterations of this command has no effect");
    env.ralph(&["limits", "--max-iterations", "0"]).expect(64).says("must be 1 or more");
}
