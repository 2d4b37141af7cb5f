//! Variants with a backlog, with prompts of roles, with an initializer, and whole presets.

use std::fs;

use serde_json::{Value, json};

use crate::backlog::{feature, feature_list};
use crate::environment::{TestEnvironment, eventually};

use super::{SOLVES, add_task, append, environment, metered, report, result, trial_files};

/// Makes what the item wants; the first line of what it was given goes into `first.txt`.
const WORKS: &str = "printf '%s\\n' \"$prompt\" | head -1 >> first.txt
id=$(printf '%s\\n' \"$prompt\" | sed -n 's/^Id: //p' | head -1)
echo \"${id:-none}\" >> items.txt\n";
const BACKLOG: &str = "\"backlog.kind\" = \"json\", \"backlog.path\" = \"list.json\"";

/// An agent that works through the items of a list, and a task that has the list.
fn with_items(script: &str, items: &[Value]) -> TestEnvironment {
    let env = environment(&[("worker", script)]);
    add_task(&env, "one", 600);
    env.write("tasks/one/environment/list.json", feature_list(items));
    env.raw_config(&env.read("ralph.toml").replace("max_iterations = 1", "max_iterations = 9"));
    env
}

fn two_items() -> [Value; 2] {
    [feature("low", 1, &[]), feature("high", 5, &[])]
}

fn add_variant(env: &TestEnvironment, name: &str, set: &str) {
    append(env, &format!("[bench.variant.{name}]\nset = {{ {set} }}\n"));
}

fn run(env: &TestEnvironment, agents: &str, more: &[&str]) -> crate::environment::Ended {
    env.ralph(&[&["bench", "run", "--agents", agents, "--out", "job"][..], more].concat())
}

/// The only attempt with this agent and variant.
fn trial(env: &TestEnvironment, agent: &str, variant: Option<&str>) -> Value {
    let mut found = trial_files(env, "job");
    found.retain(|trial| trial["agent"] == agent && trial["variant"] == json!(variant));
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

/// A file of the work directory of that attempt.
fn work(env: &TestEnvironment, agent: &str, variant: Option<&str>, path: &str) -> String {
    let wanted = trial(env, agent, variant);
    for folder in fs::read_dir(env.path("job")).unwrap() {
        let attempt = folder.unwrap().path().join("attempts/1");
        let Ok(text) = fs::read_to_string(attempt.join("trial.json")) else { continue };
        if serde_json::from_str::<Value>(&text).unwrap() == wanted {
            return fs::read_to_string(attempt.join("environment/root/app").join(path)).unwrap();
        }
    }
    panic!("no attempt of {agent} {variant:?}");
}

#[test]
fn a_backlog_makes_a_trial_a_series_of_runs() {
    let env = with_items(&format!("{WORKS}{SOLVES}"), &two_items());
    add_variant(&env, "items", BACKLOG);
    run(&env, "worker,nop", &["--curve"]).expect(0).says("[4/4]");

    let plain = trial(&env, "worker", None);
    assert_eq!((&plain["iterations"], &plain["claims"]), (&json!(1), &json!(1)), "{plain:#}");
    assert_eq!(work(&env, "worker", None, "items.txt"), "none\n");

    let series = trial(&env, "worker", Some("items"));
    assert_eq!((&series["iterations"], &series["claims"]), (&json!(2), &json!(2)), "{series:#}");
    assert_eq!(series["stop_reason"], "completed");
    assert_eq!(series["rewards"]["reward"], 1.0);
    assert_eq!(work(&env, "worker", Some("items"), "items.txt"), "high\nlow\n");
    assert_eq!(
        work(&env, "worker", Some("items"), "first.txt"),
        "Write hello into out.txt.\n".repeat(2)
    );
    assert!(work(&env, "worker", Some("items"), "list.json").contains("\"completed\""));
    // The second run counts on where the first one ended.
    let curve: Vec<&Value> =
        series["curve"].as_array().unwrap().iter().map(|point| &point["iteration"]).collect();
    assert_eq!(curve, [1, 2]);

    // Who does nothing has no items to work through.
    let nop = trial(&env, "nop", Some("items"));
    assert_eq!((&nop["stop_reason"], &nop["iterations"]), (&json!("once"), &json!(1)));
    assert_eq!(nop["rewards"]["reward"], 0.0);
}

#[test]
fn limits_hold_for_all_items_together() {
    let env = with_items(&format!("{WORKS}{SOLVES}"), &two_items());
    add_variant(&env, "items", &format!("{BACKLOG}, \"limits.max_iterations\" = 1"));
    run(&env, "worker", &[]).expect(0);
    let series = trial(&env, "worker", Some("items"));
    assert_eq!(series["stop_reason"], "max_iterations", "{series:#}");
    assert_eq!(series["fault"]["cause"], "budget");
    // The work is verified all the same.
    assert_eq!(series["rewards"]["reward"], 1.0);
}

#[test]
fn a_list_that_is_not_there_is_a_fault_that_is_not_repeated_and_a_broken_one_the_agents() {
    let breaks = format!("{WORKS}printf '{{' > list.json\n{SOLVES}");
    let env = with_items(&breaks, &two_items());
    add_variant(&env, "items", BACKLOG);
    add_variant(&env, "missing", "\"backlog.kind\" = \"json\", \"backlog.path\" = \"other.json\"");
    run(&env, "worker", &[]).expect(0);
    let missing = trial(&env, "worker", Some("missing"));
    assert_eq!(missing["fault"]["kind"], "ConfigurationError", "{missing:#}");
    assert!(missing["fault"]["message"].as_str().unwrap().contains("other.json"));
    // Whatever becomes of the list, the work is verified.
    let broken = trial(&env, "worker", Some("items"));
    assert_eq!(broken["rewards"]["reward"], 1.0, "{broken:#}");
    assert_ne!(broken["fault"]["cause"], "infrastructure", "{broken:#}");
}

#[test]
fn the_initializer_makes_the_list_before_the_work() {
    let list = feature_list(&[feature("only", 1, &[])]);
    let script = format!(
        "case $prompt in *'The list of work'*) printf '%s' '{list}' > made.json; exit 0;; esac\n{WORKS}{SOLVES}"
    );
    let env = with_items(&script, &[]);
    add_variant(
        &env,
        "made",
        "\"backlog.kind\" = \"json\", \"backlog.path\" = \"made.json\", \
         \"prompts.paths\" = [\"built-in\"], \"initializer.max_attempts\" = 2",
    );
    run(&env, "worker,oracle", &[]).expect(0);
    let made = trial(&env, "worker", Some("made"));
    assert_eq!(
        (&made["iterations"], &made["rewards"]["reward"]),
        (&json!(2), &json!(1.0)),
        "{made:#}"
    );
    assert_eq!(made["stop_reason"], "completed");
    assert_eq!(work(&env, "worker", Some("made"), "items.txt"), "only\n");
    assert_eq!(trial(&env, "oracle", Some("made"))["rewards"]["reward"], 1.0);
}

#[test]
fn the_instruction_follows_the_prompt_of_the_role() {
    let env = with_items(&format!("printf '%s\\n' \"$prompt\" > given.txt\n{SOLVES}"), &[]);
    env.write("roles/coding.md", "Work as a coder.\n");
    let paths = format!("\"prompts.paths\" = [\"{}/{{name}}.md\"]", env.path("roles").display());
    add_variant(&env, "roles", &paths);
    run(&env, "worker", &[]).expect(0);
    let given = work(&env, "worker", Some("roles"), "given.txt");
    assert!(given.starts_with("Work as a coder.\n\n---\n\nWrite hello into out.txt."), "{given}");
    assert!(work(&env, "worker", None, "given.txt").starts_with("Write hello into out.txt."));
}

#[test]
fn presets_can_be_variants() {
    let claims = "case $prompt in *'The list of work'*)
  printf '%s' '@LIST@' > feature-list.json; printf '#!/bin/sh\\n' > init.sh; chmod +x init.sh
  git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m begin; exit 0;; esac
echo hello > out.txt
[ -e PROMPT.md ] && printf -- '- [x] TASK_COMPLETE\\n' >> PROMPT.md
echo '<promise>COMPLETE: done</promise>'\n"
        .replace("@LIST@", &feature_list(&[feature("only", 1, &[])]));
    let env = with_items(&claims, &[]);
    for preset in ["ralph", "pure-loop", "ada"] {
        add_variant(&env, preset, &format!("preset = \"{preset}\", \"run.delay\" = \"0s\""));
    }
    env.raw_config(&env.read("ralph.toml").replace("delay = \"0s\"\n", ""));
    run(&env, "worker", &["-n", "2"]).expect(0);
    for preset in ["ralph", "pure-loop", "ada"] {
        let found = trial(&env, "worker", Some(preset));
        assert_eq!(found["rewards"]["reward"], 1.0, "{preset}: {found:#}");
        assert_eq!(found["stop_reason"], "completed", "{preset}: {found:#}");
    }
    // The prompt file was there for the marker, and is no part of the work.
    assert!(work(&env, "worker", Some("ralph"), "out.txt").contains("hello"));
    for folder in fs::read_dir(env.path("job")).unwrap() {
        let app = folder.unwrap().path().join("attempts/1/environment/root/app");
        assert!(!app.join("PROMPT.md").exists());
    }
}

#[test]
fn what_would_not_be_the_column_is_refused() {
    let env = with_items(SOLVES, &two_items());
    super::add_script(&env, "other", SOLVES);
    append(&env, &super::unmetered("other"));
    add_variant(&env, "roles", "\"prompts.agents\" = { coding = \"other\" }");
    let check = |agents: &str| env.ralph(&["bench", "check", "--agents", agents]);
    check("worker").expect(78).says("other would do the work of the column worker+roles");
    check("other").expect(0);

    let env = with_items(SOLVES, &two_items());
    add_variant(&env, "items", BACKLOG);
    env.write(
        "tasks/one/task.toml",
        "schema_version = \"1.4\"\n[task]\nname = \"test/one\"\n[[steps]]\nname = \"a\"\n[[steps]]\nname = \"b\"\n",
    );
    for step in ["a", "b"] {
        env.write(&format!("tasks/one/steps/{step}/instruction.md"), "Go on.\n")
            .write(&format!("tasks/one/steps/{step}/tests/test.sh"), "true\n");
    }
    env.ralph(&["bench", "check", "--agents", "worker"])
        .expect(78)
        .says("a task of several steps cannot be performed with [backlog]");
}

#[test]
fn what_a_killed_series_has_cost_stays_in_the_ledger() {
    let script = format!(
        "id=$(printf '%s\\n' \"$prompt\" | sed -n 's/^Id: //p' | head -1)
if [ \"$id\" = low ] && [ -e \"$shared/hold\" ]; then
  touch \"$shared/second\"; while [ -e \"$shared/hold\" ]; do sleep 0.02; done
fi
echo hello > out.txt\n{}",
        result("<promise>COMPLETE</promise>", "0.5")
    );
    let env = with_items("true\n", &two_items());
    super::add_script(&env, "paid", &script);
    append(&env, &metered("paid"));
    add_variant(&env, "items", BACKLOG);
    env.write("shared/hold", "");
    let args = ["bench", "run", "--agents", "paid", "--out", "job", "--seed", "1", "-n", "2"];
    let mut running = env.start(&args);
    eventually("the second item", || env.path("shared/second").exists());
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    fs::remove_file(env.path("shared/hold")).unwrap();
    env.ralph(&["bench", "resume", "job"]).expect(0);
    let (trials, _) = report(&env, "job");
    let series: Vec<&Value> = trials.iter().filter(|trial| trial["variant"] == "items").collect();
    assert_eq!(series.len(), 2, "{series:#?}");
    let attempt = |number: u64| series.iter().find(|one| one["attempt"] == number).unwrap();
    assert_eq!(attempt(1)["fault"]["cause"], "cancelled");
    assert!(attempt(1)["iterations"].as_u64().unwrap() >= 2, "{:#}", attempt(1));
    assert_eq!(attempt(2)["rewards"]["reward"], 1.0);
    let ledger: Vec<Value> = env
        .read("job/ledger.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .collect();
    // The other column's trial has one run.
    let of_series = |attempt: u64| {
        let lines = ledger.iter().filter(|line| line["attempt"] == attempt);
        lines.filter_map(|line| line["iteration"].as_u64()).max()
    };
    // Both runs of the killed series are there, and both of the repetition.
    assert_eq!((of_series(1), of_series(2)), (Some(2), Some(2)), "{ledger:#?}");
}
