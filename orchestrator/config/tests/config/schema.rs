//! The JSON Schema says what loading says.

use std::collections::BTreeSet;

use jsonschema::Validator;
use ralph_orchestrator_config::{Defaults, Limits, LoadedConfig, Sources, load};
use serde_json::{Value, json};

fn defaults() -> Defaults {
    let detectors = vec!["promise".to_owned()];
    Defaults { adapter: "claude-cli".to_owned(), detectors, ..Defaults::default() }
}

fn schema() -> Value {
    ralph_orchestrator_config::schema(&defaults())
}

fn validator() -> Validator {
    jsonschema::validator_for(&schema()).unwrap()
}

fn json_of(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap()
}

fn loaded(text: &str) -> Option<LoadedConfig> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ralph.toml");
    std::fs::write(&file, text).unwrap();
    let sets = vec![("completion.trust_agent".to_owned(), "true".to_owned())];
    load(&Sources { file, sets, defaults: defaults(), ..Sources::default() }).ok()
}

#[test]
fn good_files_are_good_for_both() {
    let complete = include_str!("complete.toml");
    for text in [
        complete,
        "",
        "agent.config.anything = { goes = [1, 'x'] }",
        "limits.max_runtime = 'none'\nlimits.max_cost_usd = 3\nlimits.max_tokens = 'none'",
        "[[validator]]\nkind = 'command'\nprogram = ['true']",
        "validation.explain = 'auto'",
        "validation.explain = '0s'",
        "[[completion.detector]]\nname = 'promise'\nword = 'DONE'",
    ] {
        assert!(loaded(text).is_some(), "{text}");
        let errors =
            validator().iter_errors(&json_of(text)).map(|e| e.to_string()).collect::<Vec<_>>();
        assert_eq!(errors, <[&str; 0]>::default(), "{text}");
    }
}

#[test]
fn what_was_resolved_is_good_too() {
    let text = loaded(include_str!("complete.toml")).unwrap().resolved_toml();
    assert!(validator().is_valid(&json_of(&text)), "{text}");
}

#[test]
fn bad_files_are_bad_for_both() {
    for text in [
        "lmits = 1",
        "run = []",
        "run.prompt = 5",
        "run.prompt = ''",
        "run.delay = 2",
        "run.delay = 'soon'",
        "agent.adapter = ''",
        "agent.model = 'x'",
        "agent.config = 'x'",
        "agent.prices.input = 1",
        "agents = []",
        "agents.a.b = 1",
        "completion.detectors = 'promise'",
        "completion.after_rejection = 'drop'",
        "[[completion.detector]]\nword = 'x'",
        "validator = {}",
        "[[validator]]\nname = 'x'",
        "[[validator]]\nkind = 'x'\nrequired = 'no'",
        "[[validator]]\nkind = 'x'\ntimeout = 5",
        "validation.explain = 5",
        "validation.explain = 'none'",
        "limits.max_cost = 1",
        "limits.max_cost_usd = -1",
        "limits.max_cost_usd = 'five'",
        "limits.max_cost_usd = 1e7",
        "limits.max_iterations = -1",
        "limits.max_tokens = 0",
        "limits.max_failures = 0",
        "limits.max_runtime = 5",
        "limits.idle_timeout = 'never'",
        "env.mode = 'dirty'",
        "env.mode = 0",
        "env.pass = [1]",
        "env.set.A = 1",
        "state.dir = ''",
        "plugins.paths = []",
        "plugins = []",
        "plugins.x = {}",
        "plugins.x.command = 'python3'",
        "plugins.x.libary = 'x.so'",
        "plugins.x = { library = 'x.so', isolation = 'none' }",
        "plugins.x = { library = 'x.so', digest = 'abc' }",
    ] {
        assert!(loaded(text).is_none(), "loading takes it: {text}");
        assert!(!validator().is_valid(&json_of(text)), "the schema takes it: {text}");
    }
}

/// Every table with fixed keys refuses others, every key is explained, and the defaults are the real ones.
#[test]
fn tables_are_closed_and_keys_explained() {
    let schema = schema();
    let definitions = schema["definitions"].as_object().unwrap();
    let open = definitions
        .iter()
        .filter(|(_, d)| d["type"] == "object" && d["additionalProperties"] != json!(false))
        .map(|(name, _)| name.as_str());
    assert_eq!(open.collect::<BTreeSet<_>>(), BTreeSet::from(["Detector", "Validator"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    let tables = definitions.values().chain([&schema]).filter(|d| d["type"] == "object");
    for (name, key) in tables.flat_map(|d| d["properties"].as_object().unwrap()) {
        assert!(!key["description"].as_str().unwrap().is_empty(), "{name}");
        assert!(!key["default"].is_null() || key.get("default").is_none(), "{name}");
    }
    let default =
        |table: &str, key: &str| schema["definitions"][table]["properties"][key]["default"].clone();
    for (key, mut value) in
        serde_json::to_value(Limits::default()).unwrap().as_object().unwrap().clone()
    {
        if value.is_null() {
            value = json!("none");
        }
        assert_eq!(default("Limits", &key), value, "{key}");
    }
    assert_eq!(default("Validator", "timeout"), json!("10m"));
    assert_eq!(default("Validator", "required"), json!(true));
    assert_eq!(default("AgentConfig", "adapter"), json!("claude-cli"));
    assert_eq!(default("Completion", "detectors"), json!(["promise"]));
    assert_eq!(default("Run", "delay"), json!("2s"));
    assert_eq!(default("Env", "mode"), json!("clean"));
    assert_eq!(default("Sandbox", "mode"), json!("off"));
    assert_eq!(default("Completion", "after_rejection"), json!("keep"));
}

/// What a complete file has, the schema has, and the other way round.
#[test]
fn the_complete_file_has_every_key() {
    let schema = schema();
    let complete = json_of(include_str!("complete.toml"));
    let of_user = json_of(include_str!("complete-user.toml"));
    let table_of = |name: &str| match name {
        "Completion" | "Run" | "Limits" | "Env" | "Backlog" | "Parallel" | "Bench" | "Git"
        | "Handoff" | "Memory" | "Prompts" | "Initializer" | "Sandbox" | "Telemetry" | "Hooks"
        | "Validation" => complete[name.to_lowercase()].clone(),
        "AgentConfig" => {
            let mut both = complete["agent"].as_object().unwrap().clone();
            both.extend(complete["agents"]["policy"].as_object().unwrap().clone());
            Value::Object(both)
        }
        "Prices" => complete["agent"]["prices"].clone(),
        "PluginConfig" => {
            let [library, program] = ["plan", "bot"].map(|name| complete["plugins"][name].clone());
            let mut both = library.as_object().unwrap().clone();
            both.extend(program.as_object().unwrap().clone());
            Value::Object(both)
        }
        "BacklogLabels" => complete["backlog"]["labels"].clone(),
        "Notify" => {
            let receivers = complete["notify"].as_array().unwrap().iter();
            let all = receivers.flat_map(|receiver| receiver.as_object().unwrap().clone());
            Value::Object(all.collect())
        }
        "BenchVariant" => complete["bench"]["variant"]["notes"].clone(),
        "BenchCluster" => complete["bench"]["cluster"].clone(),
        "BenchPod" => complete["bench"]["cluster"]["pod"].clone(),
        "RoleNames" => complete["prompts"]["names"].clone(),
        "RoleAgents" => complete["prompts"]["agents"].clone(),
        "StateConfig" => complete["state"].clone(),
        "EscalateAfter" => complete["agents"]["policy"]["escalate_after"].clone(),
        "ContextCommand" => complete["context"].clone(),
        "UserBudget" => of_user["budget"].clone(),
        "CostBudget" => of_user["budget"]["max_cost_usd"].clone(),
        "TokenBudget" => of_user["budget"]["max_tokens"].clone(),
        other => panic!("the table {other} is new: add it to complete.toml"),
    };
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        if definition["additionalProperties"] == json!(false) {
            let known = definition["properties"].as_object().unwrap().keys();
            let used = table_of(name);
            let unused = known.filter(|key| used.get(key).is_none()).collect::<Vec<_>>();
            // What excludes another key that is there: `run.prompt` and `run.template`.
            let expected: &[&str] = match name.as_str() {
                "Run" => &["prompt_text"],
                "Git" => &["worktree"],
                _ => &[],
            };
            assert_eq!(unused, expected, "{name}");
        }
    }
}
