//! What the orchestrator offers to plugins: protected paths, its own tools, keys that editors know.

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// A workspace whose agent is the plugin, told `how` as its argument.
fn environment(how: &str, more: &str) -> TestEnvironment {
    super::environment(include_str!("capabilities.py"), how, more)
}

fn read_json(env: &TestEnvironment, name: &str) -> Value {
    serde_json::from_str(&env.read(name)).unwrap()
}

#[test]
fn an_agent_learns_what_its_tools_must_not_write() {
    let protects = "[[validator]]\nkind = \"protected-paths\"\npaths = [\"tests/**\"]\n";
    let env = environment("write checks", protects);
    env.write("tests/a.py", "pass\n").write("done", "").write("src/c.py", "");
    std::os::unix::fs::symlink("tests", env.path("link")).unwrap();
    env.run().expect(0);
    let expected = json!({"tests/a.py": true, "link/b.py": true, "src/c.py": false,
        "ralph.toml": true, "relative": true});
    assert_eq!(read_json(&env, "answers.json"), expected);
}

#[test]
fn an_agent_of_a_plugin_has_the_tools_of_the_orchestrator() {
    let env = environment("tools", "");
    env.run().expect(0).says("completed: 2 iterations");
    let (first, second) = (read_json(&env, "tools-1.json"), read_json(&env, "tools-2.json"));
    let names = json!(["claim_complete", "need_human", "note", "status", "next_task"]);
    assert_eq!(first["names"], names);
    // The claim is validated while the session goes on.
    assert_eq!(
        (&first["claimed"]["isError"], &second["claimed"]["isError"]),
        (&json!(true), &json!(false))
    );
    assert!(first["claimed"].to_string().contains("REJECTED"), "{first}");
    assert!(second["prompt"].to_string().contains("the note of 1"), "{second}");
}

#[test]
fn the_keys_of_a_plugin_are_in_the_schema_and_their_mistakes_located() {
    let strict = "[[validator]]\nkind = \"rogue\"\nmodel = \"m\"\n";
    let env = environment("none", &format!("[agent.config]\nmodel = \"m\"\n{strict}"));
    env.ralph(&["config", "check"]).expect(0);
    let ended = env.ralph(&["config", "schema", "-c", "ralph.toml"]).expect(0);
    let schema: Value = serde_json::from_str(&ended.stdout).unwrap();
    for name in ["adapter:rogue", "adapter:rogue/bot", "validator:rogue", "validator:rogue/strict"]
    {
        let depth = &schema["definitions"][name]["properties"]["depth"];
        assert_eq!(depth["description"], "How deep.", "{name}");
    }
    // The table of a validator has keys of the orchestrator's own.
    let of_validator = &schema["definitions"]["validator:rogue"];
    assert_eq!(of_validator.get("additionalProperties"), None);
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document(&env)), "{schema}");
    let plain = env.ralph(&["config", "schema"]).expect(0);
    assert!(!plain.stdout.contains("adapter:rogue"));

    let config = env.read("ralph.toml");
    let line = |text: &str| config.lines().position(|line| line.starts_with(text)).unwrap() + 1;
    let wrong = |from: &str, to: &str, place: usize, parts: &[&str]| {
        env.write("ralph.toml", config.replacen(from, to, 1));
        let ended = env.ralph(&["config", "check"]).expect(78);
        ended.says(&format!("ralph.toml:{place}:"));
        for part in parts {
            ended.says(part);
        }
    };
    wrong("model", "modle", line("model"), &["agent.config.modle", "did you mean `model`"]);
    let depth = "model = \"m\"\ndepth = \"deep\"";
    wrong("model = \"m\"", depth, line("model") + 1, &["expected an integer, found a string"]);
    let validator = "kind = \"rogue\"\n";
    let (from, to) = (format!("{validator}model"), format!("{validator}modle"));
    wrong(&from, &to, line(validator.trim()) + 1, &["modle"]);
}

/// The configuration as an editor sees it.
fn document(env: &TestEnvironment) -> Value {
    let table: toml::Table = toml::from_str(&env.read("ralph.toml")).unwrap();
    serde_json::to_value(table).unwrap()
}
