//! Trials that something else than the shim keeps apart from the machine.

use serde_json::{Value, json};

use crate::environment::of_run;

use super::{FAILS, SOLVES, add_task, environment, expect_trial, trial_files, trial_of};

const CLAIM: &str = "echo '<promise>COMPLETE</promise>'\n";
const BUBBLEWRAP: [&str; 2] = ["--isolation", "bubblewrap"];

/// Agents that bubblewrap has to keep where namespaces keep them.
#[test]
fn bubblewrap_shows_agents_and_verifiers_what_a_namespace_shows() {
    let home = std::env::var("HOME").unwrap_or_default();
    let escapes = format!(
        "ls '{home}' | grep -q . && echo home >> out.txt; touch /usr/mine 2>/dev/null && echo usr >> out.txt
        id -u | grep -qx 0 || echo user >> out.txt; [ \"$(pwd)\" = /app ] || echo pwd >> out.txt
        ls /proc | grep -c '^[0-9]' | grep -qE '^[0-9]$' || echo processes >> out.txt; {CLAIM}"
    );
    let fake = format!("echo 1 > /logs/verifier/reward.txt\n{CLAIM}");
    let peeks = format!("cat /solution/solve.sh; cat /tests/test.sh\n{CLAIM}");
    let leaves = format!("{SOLVES}(setsid sleep 1000 > /dev/null 2>&1 &)\n");
    let agents = [
        ("solves", SOLVES),
        ("fails", FAILS),
        ("escapes", &escapes),
        ("fake", &fake),
        ("peeks", &peeks),
        ("leaves", &leaves),
        ("hangs", "echo hello > out.txt; (sleep 3600) & sleep 3600\n"),
    ];
    let env = environment(&agents);
    add_task(&env, "one", 2);
    let names = agents.map(|(name, _)| name).join(",");
    let run = ["bench", "run", "--out", "job", "-n", "2", "--agents", &names];
    env.ralph(&[&run[..], &BUBBLEWRAP].concat()).expect(0);
    assert!(of_run(&env.root()).is_empty());
    let expect = |agent: &str, reward: f64, fault: Value, cheating: &[&str]| {
        expect_trial(&trial_of(&env, "job", agent), reward, &fault, cheating);
    };
    expect("solves", 1.0, Value::Null, &[]);
    expect("fails", 0.0, json!("MaxIterationsError"), &[]);
    expect("escapes", 0.0, Value::Null, &[]);
    expect("fake", 0.0, Value::Null, &["/logs/verifier/reward.txt"]);
    expect("peeks", 0.0, Value::Null, &["/tests/test.sh", "/solution/solve.sh"]);
    expect("leaves", 1.0, Value::Null, &[]);
    expect("hangs", 1.0, json!("AgentTimeoutError"), &[]);
    assert_eq!(trial_files(&env, "job").len(), agents.len());
    let found = std::process::Command::new("sh")
        .args(["-c", "cat job/*/attempts/1/environment/root/app/out.txt | sort | uniq -c"])
        .current_dir(env.path("."))
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let lines: Vec<&str> = found.lines().map(str::trim).collect();
    assert_eq!(lines, ["1 bye", "3 hello"], "an agent saw more than its trial");
}

#[test]
fn an_agent_that_bubblewrap_does_not_show_is_never_scored() {
    let env = environment(&[("hidden", SOLVES), ("solves", SOLVES)]);
    add_task(&env, "one", 600);
    let seen = "--set=sandbox.read=[\"agents/solves.sh\"]";
    let run = ["bench", "run", "--agents", "hidden,solves", "--out", "job", seen];
    env.ralph(&[&run[..], &BUBBLEWRAP].concat()).expect(0).says("AgentNotAvailableError");
    let trial = trial_of(&env, "job", "hidden");
    assert_eq!(trial["rewards"], json!({}), "{trial:#}");
    assert_eq!(trial["fault"]["cause"], "infrastructure", "{trial:#}");
    assert!(trial["fault"]["message"].as_str().unwrap().contains("hidden.sh"), "{trial:#}");
    assert_eq!(trial_of(&env, "job", "solves")["rewards"]["reward"], 1.0);
}

#[test]
fn without_bubblewrap_nothing_is_started_and_the_package_is_named() {
    let mut env = environment(&[("solves", SOLVES)]);
    add_task(&env, "one", 600);
    env.var("PATH", &env.path("shared").display().to_string());
    let run = ["bench", "run", "--agents", "solves", "--out", "job"];
    let ended = env.ralph(&[&run[..], &BUBBLEWRAP].concat()).expect(69);
    ended.says("`bwrap`").says("bubblewrap").says("--isolation namespace");
    assert!(!env.path("job").exists());
}
