//! What the agent is not let do.

use ralph_orchestrator_testkit::model_server::{Script, Turn};
use serde_json::{Value, json};

use crate::harness::{GUARDED, Harness, RecordingSink, answers};

/// Has the model call this tool, and returns what it was answered.
async fn answered(
    harness: Harness,
    config: Value,
    tool: &str,
    input: &Value,
) -> (Harness, Vec<String>, String) {
    let script = Script::new().then(Turn::tool(tool, input)).then(Turn::text("so be it"));
    let harness = harness.with_script(script);
    let report = harness.run(config, &RecordingSink::new()).await.unwrap();
    let reported = answers(&harness.server.main_requests()[1].body);
    (harness, report.denied, reported)
}

#[tokio::test]
async fn a_guarded_path_is_not_written_even_when_all_is_permitted() {
    for mode in ["bypassPermissions", "acceptEdits"] {
        let harness = Harness::new(Script::new());
        let folder = harness.workspace().join(GUARDED);
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("test.py");
        let write = json!({"file_path": path, "content": "pass\n"});
        let config = json!({"permission_mode": mode});
        let (_rig, denied, reported) = answered(harness, config, "Write", &write).await;
        assert!(!path.exists());
        assert!(reported.contains("is protected") && reported.contains("test.py"), "{reported}");
        assert_eq!(denied, [format!("Write: {}", path.display())]);
    }
}

#[tokio::test]
async fn refuses_commands_that_write_what_is_protected() {
    let harness = Harness::new(Script::new());
    let path = harness.workspace().join(GUARDED).join("x");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let bash = json!({"command": "cd guarded && echo x > x", "description": "write"});
    let (_rig, denied, reported) = answered(harness, json!({}), "Bash", &bash).await;
    assert!(!path.exists() && reported.contains("is protected"), "{reported}");
    assert_eq!(denied, ["Bash: cd guarded && echo x > x"]);
}

#[tokio::test]
async fn denied_commands_are_refused_with_the_reason() {
    let push = json!({"command": "echo hi && touch pushed", "description": "push"});
    let deny = json!([{"rule": "Bash(touch:*)", "reason": "only people touch"}]);
    let config = json!({"permissions": {"deny": deny}});
    let (harness, denied, reported) =
        answered(Harness::new(Script::new()), config, "Bash", &push).await;
    assert!(reported.contains("`Bash(touch:*)` is denied: only people touch"), "{reported}");
    assert!(!harness.workspace().join("pushed").exists());
    assert_eq!(denied.len(), 1);
}

#[tokio::test]
async fn what_no_rule_allows_is_refused_when_somebody_would_be_asked() {
    let harness = Harness::new(Script::new()).without_env("IS_SANDBOX");
    let path = harness.workspace().join("no.txt");
    let write = json!({"file_path": path, "content": "no"});
    let config = json!({"permission_mode": "default"});
    let (_rig, denied, reported) = answered(harness, config, "Write", &write).await;
    assert!(reported.contains("nobody is there to ask"), "{reported}");
    assert_eq!(denied, [format!("Write: {}", path.display())]);
    assert!(!path.exists());
}

#[tokio::test]
async fn allowed_tools_work_for_root_too() {
    for mode in ["default", "dontAsk"] {
        let harness = Harness::new(Script::new()).without_env("IS_SANDBOX");
        let path = harness.workspace().join("yes.txt");
        let write = json!({"file_path": path, "content": "yes"});
        let config = json!({"permission_mode": mode, "permissions": {"allow": ["Write"]}});
        let (_rig, denied, _told) = answered(harness, config, "Write", &write).await;
        assert!(denied.is_empty() && path.exists(), "{mode}: {denied:?}");
    }
}

#[tokio::test]
async fn the_orchestrators_own_tools_need_nobodys_leave() {
    for mode in ["default", "dontAsk", "acceptEdits"] {
        let harness = Harness::new(Script::new()).without_env("IS_SANDBOX");
        let config = json!({"permission_mode": mode});
        let note = json!({"text": "n"});
        let (_rig, denied, reported) = answered(harness, config, "mcp__ralph__note", &note).await;
        assert!(denied.is_empty() && reported.contains("Noted."), "{mode}: {reported}");
    }
}
