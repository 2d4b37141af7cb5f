//! What can be read of a run, while it goes on and afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::{TestEnvironment, alive, eventually};

/// A session with thinking, text, two tools at once, a failure and a tool after that.
fn session() -> String {
    let assistant = |id: &str, content: Value, output: u64| {
        json!({"type": "assistant", "session_id": "s-1", "message": {
            "id": id, "role": "assistant", "model": "model-1", "content": content,
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": 0, "output_tokens": output}}})
    };
    let tool = |id: &str, command: &str| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}});
    let result = |id: &str, text: &str, failed: bool| {
        json!({"type": "user", "session_id": "s-1", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}]}})
    };
    let lines = [
        json!({"type": "system", "subtype": "init", "session_id": "s-1", "model": "model-1",
            "tools": ["Bash"], "cwd": "/w"}),
        assistant("m1", json!([{"type": "thinking", "thinking": "hm", "signature": "x"}]), 3),
        assistant("m1", json!([{"type": "text", "text": "I look."}]), 3),
        assistant("m1", json!([tool("t1", "ls")]), 3),
        assistant("m1", json!([tool("t2", "false")]), 3),
        result("t1", "PROMPT.md", false),
        result("t2", "exit 1", true),
        assistant("m2", json!([tool("t3", "touch done")]), 4),
        result("t3", "", false),
        assistant("m3", json!([{"type": "text", "text": "<promise>COMPLETE: ok</promise>"}]), 5),
        json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s-1",
            "num_turns": 3, "result": "<promise>COMPLETE: ok</promise>", "total_cost_usd": 0.5,
            "usage": {"input_tokens": 30, "cache_read_input_tokens": 15,
                "cache_creation_input_tokens": 0, "output_tokens": 12}}),
    ];
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn recorded() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"claude-json\"\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n",
    );
    env.agent.call(1).script("echo $n > x\n").out("not json at all\n").rc(1);
    env.agent.call(2).script("touch done\n").out(session());
    env.run().expect(0);
    env
}

fn keys(value: &Value, allowed: &[&str]) {
    for key in value.as_object().unwrap().keys() {
        assert!(allowed.contains(&key.as_str()), "{key} in {value}");
    }
}

/// Fails at whatever a reader of ATIF v1.8 would refuse.
fn check_atif(whole: &Value) {
    let known = [
        "schema_version",
        "session_id",
        "trajectory_id",
        "agent",
        "steps",
        "notes",
        "final_metrics",
        "continued_trajectory_ref",
        "subagent_trajectories",
        "extra",
    ];
    keys(whole, &known);
    assert_eq!(whole["schema_version"], "ATIF-v1.8");
    assert!(whole["session_id"].is_string());
    keys(&whole["agent"], &["name", "version", "model_name", "tool_definitions", "extra"]);
    assert!(whole["agent"]["name"].is_string() && whole["agent"]["version"].is_string());
    let totals = [
        "total_prompt_tokens",
        "total_completion_tokens",
        "total_cached_tokens",
        "total_cost_usd",
        "total_steps",
        "extra",
    ];
    keys(&whole["final_metrics"], &totals);
    let steps = whole["steps"].as_array().unwrap();
    assert!(!steps.is_empty());
    assert_eq!(whole["final_metrics"]["total_steps"], steps.len());
    for (index, step) in steps.iter().enumerate() {
        assert_eq!(step["step_id"], index + 1);
        check_step(step);
    }
}

fn check_step(step: &Value) {
    assert!(step["message"].is_string());
    if let Some(time) = step.get("timestamp") {
        time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    }
    let common = ["step_id", "timestamp", "source", "message", "extra"];
    if step["source"] != "agent" {
        assert!(["user", "system"].contains(&step["source"].as_str().unwrap()));
        return keys(step, &common);
    }
    let own = [
        "model_name",
        "reasoning_effort",
        "reasoning_content",
        "tool_calls",
        "metrics",
        "observation",
        "llm_call_count",
    ];
    keys(step, &[&common[..], &own].concat());
    let mut calls = BTreeSet::new();
    for call in step.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        keys(call, &["tool_call_id", "function_name", "arguments", "extra"]);
        assert!(call["arguments"].is_object() && call["function_name"].is_string());
        calls.insert(call["tool_call_id"].as_str().unwrap());
    }
    if let Some(observation) = step.get("observation") {
        keys(observation, &["results"]);
        for result in observation["results"].as_array().unwrap() {
            keys(result, &["source_call_id", "content", "subagent_trajectory_ref", "extra"]);
            let id = result.get("source_call_id").and_then(Value::as_str);
            assert!(id.is_none_or(|id| calls.contains(id)), "{result} in {step}");
        }
    }
    if let Some(metrics) = step.get("metrics") {
        let known = ["prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"];
        keys(metrics, &known);
        assert!(metrics["cached_tokens"].as_u64() <= metrics["prompt_tokens"].as_u64());
    }
}

#[test]
fn a_transcript_becomes_a_trajectory() {
    let env = recorded();
    let atif = env.ralph(&["log", "2", "--atif"]).expect(0).stdout;
    let whole: Value = serde_json::from_str(&atif).unwrap();
    check_atif(&whole);
    let steps = whole["steps"].as_array().unwrap();
    assert_eq!(steps[0]["source"], "user");
    assert!(steps[0]["message"].as_str().unwrap().contains("# Task"));
    let agent: Vec<&Value> = steps[1..].iter().collect();
    assert_eq!(agent.len(), 3, "{atif}");
    assert_eq!(
        (&agent[0]["message"], &agent[0]["reasoning_content"]),
        (&json!("I look."), &json!("hm"))
    );
    assert_eq!(agent[0]["model_name"], "model-1");
    assert_eq!(agent[0]["tool_calls"][1]["tool_call_id"], "t2");
    let results = &agent[0]["observation"]["results"];
    assert_eq!(
        (&results[0]["content"], &results[1]["content"]),
        (&json!("PROMPT.md"), &json!("[failed] exit 1"))
    );
    assert_eq!(agent[1]["tool_calls"][0]["arguments"], json!({"command": "touch done"}));
    assert_eq!(agent[2]["message"], "<promise>COMPLETE: ok</promise>");
    let totals = &whole["final_metrics"];
    assert_eq!(
        (&totals["total_cost_usd"], &totals["total_prompt_tokens"]),
        (&json!(0.5), &json!(45))
    );
    let sum: u64 =
        steps.iter().filter_map(|step| step["metrics"]["completion_tokens"].as_u64()).sum();
    assert_eq!(totals["total_completion_tokens"], sum);
    assert_eq!(whole["extra"]["iteration"], 2);
}

#[test]
fn a_run_becomes_files_that_follow_each_other() {
    let env = recorded();
    let folder = env.root().join("out/atif");
    let path = folder.display().to_string();
    env.ralph(&["export", &path]).expect(0).says("2 trajectories");
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
    };
    let (first, second) = (read("0001.json"), read("0002.json"));
    check_atif(&first);
    check_atif(&second);
    assert_eq!(first["session_id"], second["session_id"]);
    assert_eq!(first["continued_trajectory_ref"], "0002.json");
    assert!(second.get("continued_trajectory_ref").is_none());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    TestEnvironment::new().ralph(&["export", &path]).expect(64).says("no run");
}

/// `scripts/install-harbor` installs the validator.
#[test]
fn harbor_accepts_exported_trajectories() {
    let env = recorded();
    let folder = env.root().join("out");
    env.ralph(&["export", &folder.display().to_string()]).expect(0);
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/harbor/bin/python");
    assert!(python.exists(), "Harbor is not installed: run scripts/install-harbor");
    let validate = |path: &Path| {
        let module = ["-m", "harbor.utils.trajectory_validator"];
        let output = Command::new(&python).args(module).arg(path).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for name in ["0001.json", "0002.json"] {
        let (is_valid, output) = validate(&folder.join(name));
        assert!(is_valid, "{name}: {output}");
    }
    let wrong = folder.join("wrong.json");
    let text = fs::read_to_string(folder.join("0002.json")).unwrap();
    fs::write(&wrong, text.replacen("step_id", "step", 1)).unwrap();
    assert!(!validate(&wrong).0, "the validator finds what is wrong");
}

#[test]
fn the_lines_of_the_protocol_come_as_they_were() {
    let env = recorded();
    assert_eq!(env.ralph(&["log", "2", "--raw"]).expect(0).stdout, session());
    let text = env.ralph(&["log", "2"]).expect(0);
    text.says("I look.").says("[Bash] ls").says("failed: exit 1");
    env.ralph(&["log", "--raw"]).expect(64);
    env.ralph(&["log", "2", "--raw", "--atif"]).expect(64);
    env.ralph(&["log", "2", "--prompt", "--follow"]).expect(64);
    env.ralph(&["log", "9", "--atif"]).expect(64).says("no iteration 9");
}

#[test]
fn records_are_followed_as_they_come_until_the_run_ends() {
    let env = TestEnvironment::new();
    env.ralph(&["log", "--follow"]).expect(0).says("no run");
    let fifo = env.fifo("fifo");
    env.agent
        .call(1)
        .script(&format!("echo x > '{0}'; cat '{0}'; touch done\n", fifo.display()))
        .out("<promise>COMPLETE: made it</promise>\n");
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    let mut followers =
        [env.start(&["log", "--follow"]), env.start(&["log", "--follow", "--json"])];
    followers[0].prints("iteration 1 started");
    followers[1].prints("iteration_started");
    for follower in &followers {
        assert!(alive(follower.pid()), "the run goes on");
    }
    fs::write(&fifo, "go").unwrap();
    running.wait().expect(0);
    let [text, lines] = followers.each_mut().map(|follower| follower.wait().expect(0));
    text.says("COMPLETED");
    assert_eq!(text.stdout, env.ralph(&["log"]).expect(0).stdout);
    assert_eq!(lines.stdout, env.ralph(&["log", "--json"]).expect(0).stdout);
    // Of a run that is over it prints what there is.
    assert_eq!(env.ralph(&["log", "--follow"]).expect(0).stdout, text.stdout);
    eventually("they have ended", || followers.iter().all(|follower| !alive(follower.pid())));
}

#[test]
fn a_follower_sees_the_end_of_a_run_that_was_killed() {
    let env = TestEnvironment::new();
    let fifo = env.fifo("fifo");
    env.agent.call(1).script(&format!("echo x > '{0}'; cat '{0}'\n", fifo.display()));
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    let mut follower = env.start(&["log", "--follow"]);
    follower.prints("iteration 1 started");
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    follower.wait().expect(0);
}

/// A run whose agent says something and then waits, in each of two iterations.
fn talking() -> (TestEnvironment, [std::path::PathBuf; 2]) {
    let env = TestEnvironment::new();
    let fifos = [env.fifo("one"), env.fifo("two")];
    for (n, fifo) in (1..).zip(&fifos) {
        env.agent.call(n).script(&format!(
            "echo words of iteration {n}; echo x > '{0}'; cat '{0}' > /dev/null; touch part-{n}\n",
            fifo.display()
        )).out("");
    }
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    (env, fifos)
}

#[test]
fn what_the_agent_says_is_followed_while_it_works() {
    let (env, [one, two]) = talking();
    let mut running = env.start(&["run"]);
    fs::read(&one).unwrap();
    let mut early = env.start(&["log", "2", "--follow"]);
    let mut whole = env.start(&["log", "--follow", "--verbose"]);
    let mut first = env.start(&["log", "1", "--follow"]);
    let mut lines = env.start(&["log", "1", "--follow", "--json"]);
    // The agent waits: nothing of this can be due to its end.
    whole.prints("words of iteration 1");
    first.prints("words of iteration 1");
    lines.prints("\"text\":\"words of iteration 1");
    fs::write(&one, "go").unwrap();
    fs::read(&two).unwrap();
    // Its iteration is over, the run goes on.
    assert_eq!(first.wait().expect(0).stdout, env.ralph(&["log", "1"]).expect(0).stdout);
    assert_eq!(lines.wait().expect(0).stdout, env.ralph(&["log", "1", "--json"]).expect(0).stdout);
    early.prints("words of iteration 2");
    assert!(alive(running.pid()) && alive(whole.pid()) && alive(early.pid()));
    fs::write(&two, "go").unwrap();
    running.wait().expect(0);
    early.wait().expect(0);
    let whole = whole.wait().expect(0).stdout;
    assert_eq!(whole, env.ralph(&["log", "--verbose"]).expect(0).stdout);
    let place = |text: &str| whole.find(text).unwrap_or_else(|| panic!("{text} is not in {whole}"));
    assert!(place("iteration 1 started") < place("words of iteration 1"));
    assert!(place("words of iteration 1") < place("iteration 1 ended"));
    assert!(place("iteration 1 ended") < place("words of iteration 2"));
}

#[test]
fn an_iteration_that_never_comes_is_an_error_as_soon_as_the_run_has_ended() {
    let (env, [one, two]) = talking();
    let mut running = env.start(&["run"]);
    fs::read(&one).unwrap();
    let mut follower = env.start(&["log", "7", "--follow"]);
    fs::write(&one, "go").unwrap();
    fs::read(&two).unwrap();
    fs::write(&two, "go").unwrap();
    running.wait().expect(0);
    follower.wait().expect(64).says("has no iteration 7");
}

#[test]
fn each_iteration_has_its_time_its_cost_and_its_agent() {
    let env = recorded();
    let log = env.ralph(&["log"]).expect(0);
    log.says("iteration 1 FAILED (crashed)").says("cost not reported (run so far: ");
    log.says("iteration 2 ended: command, ")
        .says(", $0.50 (run so far: ")
        .says("accepted by 1 validator");
    log.says("iteration 1 changed 1 file, +1 -0: x (new) +1 -0");
    assert!(!log.stdout.contains("$0.00"), "{}", log.stdout);
}

#[test]
fn an_iteration_that_was_killed_has_its_agent_and_an_unknown_cost() {
    let env = TestEnvironment::new();
    let fifo = env.fifo("fifo");
    env.agent
        .call(1)
        .script(&format!("echo 1 > early; echo x > '{0}'; cat '{0}'\n", fifo.display()));
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    let status = env.ralph(&["status"]).expect(0);
    assert!(status.stdout.starts_with("interrupted: the orchestrator died"), "{}", status.stdout);
    let resumed = env.run().expect(0);
    resumed.says("iteration 1 interrupted (the orchestrator died)  (command, ");
    resumed.says(" resumed after 1 iteration, ").says("cost not reported: command");
    resumed.says("changed     1 file").says("files that iteration 1 changed are not listed");
    env.ralph(&["status"]).expect(0).says("files that iteration 1 changed are not");
    let log = env.ralph(&["log"]).expect(0);
    log.says("iteration 1 interrupted (the orchestrator died): command, ");
    assert!(!log.stdout.contains("$0.00") && !resumed.stderr.contains("$0.00"));
    // The scan after the restart is no iteration.
    env.ralph(&["log", "--determinism"]).expect(0).says("of 2 iterations changed it");
}

#[test]
fn events_say_what_an_iteration_changed() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("printf '1\\n2\\n' > new; rm -f gone\n").out("working\n");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: x</promise>\n");
    env.write("gone", "a\nb\nc\n");
    let events = env.ralph(&["run", "--json"]).expect(0).events();
    let changes: Vec<&Value> = events.iter().filter(|event| event["event"] == "changes").collect();
    assert_eq!(changes.len(), 2);
    let (first, last) = (changes[0], changes[1]);
    assert_eq!((&first["iteration"], &first["files"]), (&1.into(), &2.into()));
    assert_eq!((&first["lines_added"], &first["lines_removed"]), (&2.into(), &3.into()));
    assert_eq!(
        first["paths"][0],
        json!({"path": "gone", "change": "removed", "lines_added": 0, "lines_removed": 3})
    );
    assert_eq!((&first["stagnant"], &first["max_stagnant"]), (&0.into(), &10.into()));
    assert_eq!((&first["claim_pending"], &last["claim_pending"]), (&false.into(), &true.into()));
    // What validators leave is not the doing of the iteration after them.
    assert_eq!(last["files"], 1);
    let recorded = env.records("observed");
    assert_eq!(recorded.iter().filter(|record| record["changes"].is_object()).count(), 2);
}

#[test]
fn an_iteration_is_shown_with_its_feedback_and_its_whole_verdict() {
    let env = TestEnvironment::new();
    env.agent.default_call().out("I looked.\n<promise>COMPLETE: x</promise>\n");
    let check = "echo one; echo 'two of the check'; exit 1";
    let config = env.read("ralph.toml");
    let check = format!("program = [\"sh\", \"-c\", \"{check}\"]");
    env.write("ralph.toml", config.replace("program = [\"test\", \"-e\", \"done\"]", &check));
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);

    let first = env.ralph(&["log", "1"]).expect(0).stdout;
    let second = env.ralph(&["log", "2"]).expect(0).stdout;
    assert_eq!(env.ralph(&["log", "2", "-v"]).expect(0).stdout, second);
    assert_eq!(env.ralph(&["log", "2", "--follow"]).expect(0).stdout, second);
    let place =
        |text: &str| second.find(text).unwrap_or_else(|| panic!("{text} is not in {second}"));
    assert!(place("iteration 2 started") < place("feedback before the prompt:"));
    assert!(place("REJECTED") < place("I looked."));
    assert!(place("I looked.") < place("iteration 2 ended"));
    assert!(place("iteration 2 ended") < place("rejected:"));
    assert_eq!(
        second.matches("\n        two of the check").count(),
        2,
        "told and rejected: {second}"
    );
    assert!(!second.contains("# Task") && !second.contains("iteration 1"), "{second}");
    // The first was told nothing; why it was rejected is what the next is told.
    assert!(!first.contains("feedback") && first.contains("two of the check"), "{first}");

    let types = |number: &str| -> Vec<String> {
        let lines = env.ralph(&["log", number, "--json"]).expect(0).events();
        lines.iter().map(|line| line["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(types("1"), ["text", "validated"]);
    assert_eq!(types("2"), ["feedback", "text", "validated"]);
    let lines = env.ralph(&["log", "2", "--json"]).expect(0).events();
    assert!(lines[0]["text"].as_str().unwrap().contains("two of the check"));
    assert_eq!(lines[2]["accepted"], false);
    assert!(lines[2]["reasons"][0].as_str().unwrap().contains("two of the check"));
}
