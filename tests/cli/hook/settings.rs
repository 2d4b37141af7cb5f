//! The hooks in the settings of agents.

use serde_json::{Value, json};

use crate::backlog::CLAIM;
use crate::environment::TestEnvironment;

const OWN: &str = "{\n    \"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}]},\n  \
                   \"model\": \"opus\",\n\t\"env\": {\"A\": \"1\"}}";

fn environment() -> (TestEnvironment, std::path::PathBuf) {
    let env = TestEnvironment::new();
    let folder = env.root().join("home/.claude");
    std::fs::create_dir_all(&folder).unwrap();
    (env, folder.join("settings.json"))
}

#[test]
fn settings_are_as_before_after_the_removal() {
    let (env, file) = environment();
    std::fs::write(&file, OWN).unwrap();
    let shown = env.ralph(&["hook", "install", "claude"]).expect(64);
    shown.says("+").says("hook claude --timeout 3600s || exit 2").says("nothing was written");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), OWN, "nobody has confirmed it");
    env.ralph(&["hook", "install", "claude", "--yes", "--timeout", "30m"]).expect(0);
    let settings: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0]["command"], "mine");
    let stop = &settings["hooks"]["Stop"][1]["hooks"][0];
    assert!(stop["command"].as_str().unwrap().ends_with("hook claude --timeout 1800s || exit 2"));
    assert_eq!(stop["timeout"], 1860, "longer than the check may take");
    assert_eq!(settings["env"]["CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"], "0");
    assert_eq!(settings["model"], "opus");
    // Once more is the same.
    env.ralph(&["hook", "install", "claude", "--yes", "--timeout", "30m"])
        .expect(0)
        .says("has these hooks already");
    env.ralph(&["hook", "status"]).expect(0).says("claude  installed");
    env.ralph(&["hook", "remove", "claude", "--yes"]).expect(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), OWN, "byte for byte");
    env.ralph(&["hook", "remove", "claude", "--yes"])
        .expect(0)
        .says("has no hooks of this program");
}

#[test]
fn what_was_changed_since_is_kept() {
    let (env, file) = environment();
    std::fs::write(&file, OWN).unwrap();
    env.ralph(&["hook", "install", "claude", "--yes"]).expect(0);
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    settings["model"] = json!("sonnet");
    std::fs::write(&file, settings.to_string()).unwrap();
    env.ralph(&["hook", "remove", "claude", "--yes"]).expect(0);
    let left: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let own = json!({ "hooks": [{ "type": "command", "command": "mine" }] });
    assert_eq!(left, json!({ "hooks": { "Stop": [own] }, "model": "sonnet", "env": { "A": "1" } }));
}

#[test]
fn settings_that_were_not_there_are_removed() {
    let (env, file) = environment();
    env.ralph(&["hook", "install", "claude", "--yes"]).expect(0);
    assert!(file.exists());
    env.ralph(&["hook", "remove", "claude", "--yes"]).expect(0).says("was not there before");
    assert!(!file.exists());
}

#[test]
fn a_link_stays_a_link() {
    let (env, file) = environment();
    let real = env.root().join("dotfiles.json");
    std::fs::write(&real, "{}").unwrap();
    std::os::unix::fs::symlink(&real, &file).unwrap();
    env.ralph(&["hook", "install", "claude", "--yes"]).expect(0);
    assert!(std::fs::symlink_metadata(&file).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&real).unwrap().contains("hook claude"));
    env.ralph(&["hook", "remove", "claude", "--yes"]).expect(0);
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "{}");
}

#[test]
fn a_link_in_a_workspace_leads_nowhere() {
    let (env, _) = environment();
    env.agent.call(1).script("ln -s ../elsewhere .claude; touch done\n").out(CLAIM);
    env.run().expect(0);
    std::fs::create_dir(env.root().join("elsewhere")).unwrap();
    let ended = env.ralph(&["hook", "install", "claude", "--project", "--yes"]).expect(64);
    ended.says("is a link, and an agent could have made it");
    assert_eq!(std::fs::read_dir(env.root().join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn settings_that_are_wrong_are_not_touched() {
    let (env, file) = environment();
    for text in ["{", "[]", "{\"hooks\": {\"Stop\": 1}}", "{\"hooks\": []}"] {
        std::fs::write(&file, text).unwrap();
        let ended = env.ralph(&["hook", "install", "claude", "--yes"]).expect(64);
        ended.says("settings.json");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn the_places_of_each_agent() {
    let (env, _) = environment();
    let project = env.ralph(&["hook", "install", "claude", "--project", "--yes"]).expect(0);
    project.says("can change these settings");
    assert!(env.path(".claude/settings.json").exists());
    env.ralph(&["hook", "install", "codex", "--yes"]).expect(0).says("trust");
    let file = env.root().join("home/.codex/hooks.json");
    let hooks: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let events: Vec<_> = hooks["hooks"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(events, ["SessionStart", "UserPromptSubmit", "Stop"]);
    assert_eq!(hooks["env"], Value::Null);
    env.ralph(&["hook", "install", "codex", "--project"]).expect(64).says("of the user only");
    std::fs::write(env.path(".claude/settings.json"), "{\"disableAllHooks\": true}").unwrap();
    env.ralph(&["hook", "status"]).expect(0).says("disableAllHooks");
}
