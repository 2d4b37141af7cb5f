//! `bench`: jobs of trials with agents whose doings are known.

mod agents;
mod budget;
mod cheat;
mod commands;
mod crash;
mod engine;
mod import;
mod isolations;
mod killed;
mod kubernetes;
mod locked;
mod mine;
mod missing_programs;
mod outages;
mod own_form;
mod planning;
mod progress;
mod real;
mod refused;
mod regrade;
mod reserved;
mod setup_lines;
mod slurm;
mod variants;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// Solves any of these tests' tasks, and claims so.
const SOLVES: &str = "echo hello > out.txt\necho '<promise>COMPLETE</promise>'\n";
/// Leaves the wrong work, and claims nothing.
const FAILS: &str = "echo bye > out.txt\n";

/// What tests of the configuration have in common; tables of agents follow.
const TABLES: &str = r#"
[run]
delay = "0s"

[limits]
max_iterations = 1
max_stagnant = "none"

[sandbox]
read = ["agents"]
write = ["shared"]

[bench]
tasks = ["tasks"]
trust_agent = true
"#;

/// A workspace with a configuration of these agents: the name of each, and its script after it has read the prompt.
/// The variable `shared` is a folder that all agents see.
fn environment(agents: &[(&str, &str)]) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.write("shared/.keep", "").write("tasks/.keep", "").write("agents/.keep", "");
    let mut tables = TABLES.to_owned();
    for (name, script) in agents {
        add_script(&env, name, script);
        tables.push_str(&unmetered(name));
    }
    env.raw_config(&tables);
    env
}

/// Writes the script of an agent.
fn add_script(env: &TestEnvironment, name: &str, script: &str) {
    let shared = env.path("shared");
    let text = format!("#!/bin/sh\nprompt=$(cat)\nshared='{}'\n{script}", shared.display());
    let path = format!("agents/{name}.sh");
    env.write(&path, text);
    env.write_mode(&path, 0o755);
}

/// Returns the table of an agent that reports no cost.
fn unmetered(name: &str) -> String {
    format!("[agents.{name}]\nadapter = \"command\"\nunmetered = true\n{}", program(name, ""))
}

/// Returns the table of an agent that reports what it costs, as [`result`] does.
fn metered(name: &str) -> String {
    let output = "output = \"claude-json\"\n";
    format!("[agents.{name}]\nadapter = \"command\"\n{}", program(name, output))
}

fn program(name: &str, more: &str) -> String {
    format!("[agents.{name}.config]\nprogram = [\"./agents/{name}.sh\"]\n{more}")
}

/// Adds tables to the configuration.
fn append(env: &TestEnvironment, tables: &str) {
    env.raw_config(&format!("{}{tables}", env.read("ralph.toml")));
}

/// Returns the shell that reports a text and what it cost.
fn result(text: &str, cost: &str) -> String {
    format!(
        "echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"{text}\",\
         \"total_cost_usd\":{cost},\"usage\":{{\"input_tokens\":10,\"output_tokens\":5}}}}'\n"
    )
}

/// Writes a Harbor task that wants `hello` in `out.txt`. A file `check.txt` is in the work directory and among the
/// tests; `name.txt` has the task's name.
fn add_task(env: &TestEnvironment, name: &str, timeout_sec: u32) {
    let at = |path: &str| format!("tasks/{name}/{path}");
    env.write(
        &at("task.toml"),
        format!(
            "schema_version = \"1.4\"\n[task]\nname = \"test/{name}\"\n\
             [agent]\ntimeout_sec = {timeout_sec}\n[verifier]\ntimeout_sec = 120\n"
        ),
    );
    env.write(&at("instruction.md"), "Write hello into out.txt.\n")
        .write(&at("environment/Dockerfile"), "FROM debian:12\nWORKDIR /app\nCOPY . /app/\n")
        .write(&at("environment/check.txt"), "the check\n")
        .write(&at("environment/name.txt"), name)
        .write(&at("tests/check.txt"), "the check\n")
        .write(
            &at("tests/test.sh"),
            "if [ \"$(cat /app/out.txt 2>/dev/null)\" = hello ]; then echo 1; else echo 0; fi \
             > /logs/verifier/reward.txt\n",
        )
        .write(&at("solution/solve.sh"), "echo hello > /app/out.txt\n");
}

/// Every line of `bench report --json`: the attempts, and last the figures.
fn report(env: &TestEnvironment, job: &str) -> (Vec<Value>, Value) {
    let mut lines = env.ralph(&["bench", "report", job, "--json"]).expect(0).events();
    let summary = lines.pop().unwrap();
    assert_eq!(summary["type"], "summary");
    assert!(lines.iter().all(|line| line["type"] == "trial"));
    (lines, summary)
}

/// The figures of a column.
fn column<'a>(summary: &'a Value, agent: &str) -> &'a Value {
    let columns = summary["columns"].as_array().unwrap();
    columns.iter().find(|column| column["column"]["agent"] == agent).unwrap()
}

/// Every attempt of a job as its file has it.
fn trial_files(env: &TestEnvironment, job: &str) -> Vec<Value> {
    let folders = |path: PathBuf| {
        let found = fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
        found.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut files = Vec::new();
    for trial in folders(env.path(job)) {
        for attempt in folders(trial.join("attempts")) {
            let text = fs::read_to_string(attempt.join("trial.json"));
            files.extend(text.ok().map(|text| serde_json::from_str::<Value>(&text).unwrap()));
        }
    }
    files
}

/// The only attempt of this agent.
fn trial_of(env: &TestEnvironment, job: &str, agent: &str) -> Value {
    let mut files = trial_files(env, job);
    files.retain(|trial| trial["agent"] == agent);
    assert_eq!(files.len(), 1, "{files:#?}");
    files.remove(0)
}

/// Fails unless a trial has this reward, this fault, and findings of cheating at these paths.
#[track_caller]
fn expect_trial(trial: &Value, reward: f64, fault: &Value, cheating: &[&str]) {
    assert_eq!(trial["rewards"]["reward"], json!(reward), "{trial:#}");
    assert_eq!(&trial["fault"]["kind"], fault, "{trial:#}");
    let findings = trial["cheating"].as_array().into_iter().flatten();
    let paths: Vec<&Value> = findings.map(|finding| &finding["path"]).collect();
    assert_eq!(paths, cheating, "{trial:#}");
}

/// `bench status --json`
fn status(env: &TestEnvironment, job: &str) -> Value {
    let ended = env.ralph(&["bench", "status", job, "--json"]).expect(0);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// What is in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
