//! A backlog is worked item by item, each in a run of its own.

mod aside;
mod blocked;
mod carried;
mod commands;
mod configuration;
mod crash;
pub(crate) mod formats;
mod guarding;
mod in_lanes;
mod initializing;
mod limits;
mod order;
mod parallel;
mod together;

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// Makes a file named after the item, says what the item is, and claims completion.
pub(crate) const WORK: &str = "id=$(sed -n 's/^Id: //p' \"$call.stdin\" | head -1)
echo \"$id\" >> order; : > \"made-$id\"\n";
pub(crate) const CLAIM: &str = "<promise>COMPLETE: made it</promise>\n";

/// A workspace with this backlog, an agent that makes what an item wants, and a check that accepts.
pub(crate) fn environment(kind: &str, path: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\nbookkeeping = [\"order\"]\n\
         [backlog]\nkind = \"{kind}\"\npath = \"{path}\"\n{more}\
         [agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"sh\", \"-c\", \"ls made-*\"]\n"
    ));
    env.write("PROMPT.md", "# Rules\n\nMake what the item wants.\n");
    env.agent.default_call().script(WORK);
    env.agent.default_call().out(CLAIM);
    env
}

/// An item of feature-list.json.
pub(crate) fn feature(id: &str, priority: i64, after: &[&str]) -> Value {
    json!({
        "id": id, "name": format!("Make {id}"), "description": format!("A file for {id}."),
        "status": "pending", "priority": priority,
        "acceptance_criteria": [format!("made-{id} exists")], "depends_on": after,
    })
}

/// The file with these items, as ADA writes it.
pub(crate) fn feature_list(features: &[Value]) -> String {
    let list = json!({"project_name": "demo", "project_path": ".", "features": features});
    serde_json::to_string_pretty(&list).unwrap() + "\n"
}

/// A workspace with a feature-list.json.
pub(crate) fn features(features: &[Value]) -> TestEnvironment {
    let env = environment("json", "feature-list.json", "");
    env.write("feature-list.json", feature_list(features));
    env
}

/// The items in the order in which agents worked on them.
pub(super) fn worked(env: &TestEnvironment) -> Vec<String> {
    env.read("order").lines().map(str::to_owned).collect()
}

/// Ids and statuses of feature-list.json.
pub(crate) fn statuses(env: &TestEnvironment) -> Vec<(String, String)> {
    let list: Value = serde_json::from_str(&env.read("feature-list.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let features = list["features"].as_array().unwrap().iter();
    features.map(|item| (text(&item["id"]), text(&item["status"]))).collect()
}

/// The record beside the runs.
pub(crate) fn series(env: &TestEnvironment) -> Vec<Value> {
    let text = std::fs::read_to_string(env.state().join("series/journal.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of one kind beside the runs.
pub(super) fn series_of(env: &TestEnvironment, kind: &str) -> Vec<Value> {
    series(env).into_iter().filter(|record| record["kind"] == kind).collect()
}
