//! What a performance does and says.

use std::fs;
use std::os::unix::fs::symlink;

use ralph_orchestrator_contract::{CancelReason, ErrorClass, Event, Usage, Usd};
use ralph_orchestrator_testkit::RecordingSink;
use serde_json::{Value, json};

use crate::support::{Place, answer, call, init, result, results, warnings};

#[tokio::test]
async fn calls_really_happen_and_answer_what_really_came_out() {
    let place = Place::new();
    let command = "cat '/workspace/sub/a.txt' /workspace/sub/a.txt; pwd; echo err >&2; exit 3";
    place.record(
        1,
        &[
            init(),
            call("1", "Write", &json!({"file_path": "/workspace/sub/a.txt", "content": "one\n"})),
            answer("1", "recorded", false),
            call(
                "2",
                "Edit",
                &json!({"file_path": "sub/a.txt", "old_string": "one", "new_string": "two"}),
            ),
            answer("2", "recorded", false),
            call("3", "Bash", &json!({"command": command})),
            answer("3", "recorded", true),
            call("4", "Read", &json!({"file_path": "/workspace/sub/a.txt"})),
            answer("4", "as recorded", false),
            result("All done. <promise>COMPLETE: x</promise>"),
        ],
    );
    let sink = RecordingSink::new();
    let report = place.perform(1, &sink).await.unwrap();
    assert_eq!(place.read("sub/a.txt"), "two\n");
    let here = place.workspace.display();
    assert_eq!(
        results(&sink),
        [
            (format!("File created successfully at: {here}/sub/a.txt"), false),
            (format!("The file {here}/sub/a.txt has been updated successfully."), false),
            (format!("Exit code 3\ntwo\ntwo\n{here}\nerr"), true),
            ("as recorded".to_owned(), false),
        ]
    );
    assert_eq!(report.final_text.as_deref(), Some("All done. <promise>COMPLETE: x</promise>"));
    assert_eq!(report.session.as_deref(), Some("s-1"));
    assert_eq!(warnings(&sink), [""; 0]);
    let written = sink.events().clone().into_iter().find_map(|event| match event {
        Event::ToolCall { name, input, .. } if name == "Write" => Some(input),
        _ => None,
    });
    assert_eq!(written.unwrap()["file_path"], format!("{here}/sub/a.txt"));
}

#[tokio::test]
async fn it_costs_nothing_and_says_so() {
    let place = Place::new();
    place.record(1, &[init(), result("x")]);
    let sink = RecordingSink::new();
    let report = place.perform(1, &sink).await.unwrap();
    let nothing = Usage { tokens: None, cost: Some(Usd::ZERO), estimated: false };
    assert_eq!(report.usage, nothing);
    let usages = sink.events().clone().into_iter().filter_map(|event| match event {
        Event::Usage { usage } => Some(usage),
        _ => None,
    });
    assert_eq!(usages.collect::<Vec<_>>(), [nothing]);
    let described = place.agent(json!({"session": "session"})).describe();
    assert_eq!(described.summary, "recorded session: costs nothing");
    assert!(described.capabilities.cost && !described.capabilities.tokens);
}

#[tokio::test]
async fn nothing_outside_the_workspace_is_touched() {
    let place = Place::new();
    let outside = place.workspace.parent().unwrap().join("outside.txt");
    symlink("..", place.workspace.join("up")).unwrap();
    let mut lines = vec![init()];
    let paths = [
        "../outside.txt",
        "up/outside.txt",
        "/workspace/../outside.txt",
        outside.to_str().unwrap(),
    ];
    for (n, path) in paths.into_iter().enumerate() {
        let id = n.to_string();
        lines.push(call(&id, "Write", &json!({"file_path": path, "content": "x"})));
        lines.push(answer(&id, "ok", false));
    }
    lines.push(result("x"));
    place.record(1, &lines);
    let sink = RecordingSink::new();
    place.perform(1, &sink).await.unwrap();
    assert!(!outside.exists());
    assert!(
        results(&sink)
            .iter()
            .all(|(text, is_error)| *is_error && text.contains("outside the workspace"))
    );
    let warnings = warnings(&sink);
    assert_eq!(warnings.len(), 4);
    assert!(
        warnings[0].contains("session/1.jsonl:2: Write went well when it was recorded"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn what_did_not_happen_then_does_not_happen_now() {
    let place = Place::new();
    let mut end = result("x");
    end["permission_denials"] =
        json!([{"tool_name": "Bash", "tool_use_id": "1", "tool_input": {}}]);
    place.record(
        1,
        &[
            init(),
            call("1", "Bash", &json!({"command": "touch denied"})),
            answer("1", "refused", true),
            call("2", "Write", &json!({"file_path": "failed", "content": "x"})),
            answer("2", "File has not been read yet", true),
            call("3", "Bash", &json!({"command": "touch background", "run_in_background": true})),
            answer("3", "started", false),
            end,
        ],
    );
    let sink = RecordingSink::new();
    let report = place.perform(1, &sink).await.unwrap();
    assert_eq!(fs::read_dir(&place.workspace).unwrap().count(), 0);
    assert_eq!(
        results(&sink)[..2],
        [("refused".into(), true), ("File has not been read yet".into(), true)]
    );
    assert!(results(&sink)[2].1);
    assert_eq!(report.denied.len(), 1);
}

#[tokio::test]
async fn the_shell_keeps_its_folder_but_not_outside() {
    let place = Place::new();
    let bash = |id: &str, command: &str| call(id, "Bash", &json!({"command": command}));
    place.record(
        1,
        &[
            init(),
            bash("1", "mkdir -p a && cd a"),
            answer("1", "", false),
            bash("2", "basename \"$PWD\"; cd /"),
            answer("2", "", false),
            bash("3", "pwd; cd a; exit 4"),
            answer("3", "", true),
            bash("4", "pwd; echo $RALPH_ITERATION; cat"),
            answer("4", "", false),
            result("x"),
        ],
    );
    let sink = RecordingSink::new();
    place.perform(1, &sink).await.unwrap();
    let here = place.workspace.display();
    assert_eq!(
        results(&sink),
        [
            (String::new(), false),
            (format!("a\nShell cwd was reset to {here}"), false),
            (format!("Exit code 4\n{here}"), true),
            (format!("{here}\n1"), false),
        ]
    );
}

#[tokio::test]
async fn a_command_has_its_recorded_time_and_leaves_nothing_behind() {
    let place = Place::new();
    let script = "sleep 1000 & until grep -qx sleep /proc/$!/comm; do :; done; echo done";
    place.record(
        1,
        &[
            init(),
            call("1", "Bash", &json!({"command": "sleep 1000", "timeout": 100})),
            answer("1", "", true),
            call("2", "Bash", &json!({"command": script})),
            answer("2", "", false),
            result("x"),
        ],
    );
    let sink = RecordingSink::new();
    let report = place.perform(1, &sink).await.unwrap();
    let all = results(&sink);
    assert!(all[0].1 && all[0].0.starts_with("Command timed out after 100 ms"), "{all:?}");
    assert_eq!(all[1], ("done".to_owned(), false));
    assert_eq!(report.left_behind, ["sleep 1000"]);
}

#[tokio::test]
async fn recorded_errors_have_their_class_and_their_place() {
    let place = Place::new();
    let mut limited = result("API Error");
    limited["is_error"] = json!(true);
    limited["api_error_status"] = json!(429);
    place.record(1, &[init(), limited]);
    let error = place.perform(1, &RecordingSink::new()).await.unwrap_err();
    assert_eq!(error.class.word(), "rate_limited");
    assert!(error.message.contains("session/1.jsonl:2: "), "{error}");
    assert_eq!(error.report.usage.cost, Some(Usd::ZERO));
    // A recording that was cut off has no end, but what it did is told.
    place.record(1, &[init(), call("1", "Bash", &json!({"command": "echo hi"}))]);
    let sink = RecordingSink::new();
    let error = place.perform(1, &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Crashed);
    assert_eq!((error.report.final_text, results(&sink)), (None, vec![("hi".to_owned(), false)]));
}

#[tokio::test]
async fn sessions_that_are_not_there_are_unavailable_by_name() {
    let place = Place::new();
    for (config, named) in
        [(json!({"session": "nowhere"}), "nowhere"), (json!({"session": "session"}), "1.jsonl")]
    {
        let agent = place.agent(config);
        let task = place.task(1);
        let found = agent.check(&task.env).await.unwrap_err();
        let ran = agent.run(task, &RecordingSink::new()).await.unwrap_err();
        for error in [found, ran] {
            assert_eq!(error.class, ErrorClass::Unavailable);
            assert!(error.message.contains(named), "{error}");
        }
    }
}

#[tokio::test]
async fn stray_lines_are_passed_over_by_name() {
    let place = Place::new();
    place.record(1, &[init(), Value::Null, json!([1]), json!({"type": "new"}), result("x")]);
    let sink = RecordingSink::new();
    assert!(place.perform(1, &sink).await.is_ok());
    assert_eq!(warnings(&sink).len(), 2);
    assert!(warnings(&sink)[0].contains("1.jsonl:2: "), "{:?}", warnings(&sink));
}

#[tokio::test]
async fn a_cancellation_is_honoured_in_a_command_and_between_calls() {
    let place = Place::new();
    place.record(
        1,
        &[
            init(),
            call("1", "Bash", &json!({"command": "touch begun; sleep 1000"})),
            call("2", "Write", &json!({"file_path": "never", "content": ""})),
            result("x"),
        ],
    );
    place.record(
        2,
        &[
            init(),
            call("1", "Write", &json!({"file_path": "first", "content": ""})),
            answer("1", "", false),
            call("2", "Write", &json!({"file_path": "never", "content": ""})),
            result("x"),
        ],
    );

    let begun = place.workspace.join("begun");
    let sink = RecordingSink::new();
    let asked = async {
        while !begun.exists() {
            tokio::task::yield_now().await;
        }
        sink.cancel(CancelReason::Signal);
    };
    let (inside, ()) = tokio::join!(place.perform(1, &sink), asked);
    let sink = RecordingSink::cancelling_at(|event| matches!(event, Event::ToolResult { .. }));
    let between = place.perform(2, &sink).await;
    assert!(place.workspace.join("first").exists());
    for result in [inside, between] {
        let error = result.unwrap_err();
        assert_eq!((error.class, error.report.final_text), (ErrorClass::Cancelled, None));
    }
    assert!(!place.workspace.join("never").exists());
}
