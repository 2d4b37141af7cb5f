//! What the real agent does too rarely to wait for it.

use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{Budget, ErrorClass, Event, Usd};
use ralph_orchestrator_testkit::fake_agent::FakeAgent;
use ralph_orchestrator_testkit::flood::assert_gives_way;
use ralph_orchestrator_testkit::model_server::Script;
use serde_json::json;

use crate::harness::{Harness, RecordingSink};

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","total_cost_usd":0.25,"session_id":"s"}"#;

fn harness() -> (Harness, FakeAgent) {
    let harness = Harness::new(Script::new());
    let fake = FakeAgent::new(harness.folder().join("fake"));
    (harness, fake)
}

#[tokio::test]
async fn is_given_arguments_folder_prompt_and_environment() {
    let (mut harness, fake) = harness();
    let _ = fake.default_call().out(format!("{INIT}\n{RESULT}\n"));
    harness.env.remove("CLAUDE_CODE_MAX_RETRIES");
    harness.budget = Budget { cost: Usd::from_dollars(1.5), ..Budget::default() };
    let prompt = b"caf\xe9 \0 {x} $HOME\r\nlast line".to_vec();
    let config = json!({"program": fake.program(), "allowed_tools": ["A", "B"]});
    let report = harness
        .run_task(config, harness.task(prompt.clone()), &RecordingSink::new())
        .await
        .unwrap();
    assert_eq!(report.usage.cost, Usd::from_dollars(0.25));
    assert_eq!(
        fake.argv(1).join(" "),
        "-p --output-format stream-json --verbose --permission-mode bypassPermissions \
         --allowedTools A,B --max-budget-usd 1.50"
    );
    assert_eq!((fake.stdin(1), fake.cwd(1)), (prompt, harness.workspace()));
    let mut expected = harness.env.clone();
    expected.insert("CLAUDE_CODE_MAX_RETRIES".to_owned(), "2".to_owned());
    expected.insert("DISABLE_AUTOUPDATER".to_owned(), "1".to_owned());
    let mut env = fake.env(1);
    // Shells set these for themselves.
    for own in ["PWD", "OLDPWD", "SHLVL", "_"] {
        env.remove(own);
    }
    assert_eq!(env, expected);
}

#[tokio::test]
async fn that_hangs_after_its_result_is_a_success() {
    let (harness, fake) = harness();
    let commands = format!("echo '{INIT}'; echo '{RESULT}'; trap '' INT; sleep 1000");
    let _ = fake.default_call().script(&commands);
    let start = Instant::now();
    let report =
        harness.run(json!({"program": fake.program()}), &RecordingSink::new()).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("ok"));
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(25), "{took:?}");
}

#[tokio::test]
async fn that_leaves_a_process_behind() {
    let (harness, fake) = harness();
    let commands = format!("setsid sleep 1000 >/dev/null 2>&1 & echo '{RESULT}'");
    let _ = fake.default_call().script(&commands);
    let report =
        harness.run(json!({"program": fake.program()}), &RecordingSink::new()).await.unwrap();
    // By then it may or may not have become what it is to be.
    assert_eq!(report.left_behind.len(), 1, "{:?}", report.left_behind);
}

#[tokio::test]
async fn that_prints_what_cannot_be_read() {
    let (harness, fake) = harness();
    // A line of 9 MiB, bytes that are no text, NUL, a line without end; and words on stderr.
    let commands = "head -c 9437184 /dev/zero | tr '\\0' x; echo; printf 'caf\\351 \\0 \\r\\n'; \
        echo '{\"type\":\"assistant\"'; echo oops >&2; printf unended >&2";
    let _ = fake.default_call().script(commands).out(RESULT);
    let sink = RecordingSink::new();
    let report = harness.run(json!({"program": fake.program()}), &sink).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some("ok"));
    let events = sink.events();
    let warned = |what: &str| {
        events.iter().any(|e| matches!(e, Event::Warning { message } if message.contains(what)))
    };
    assert!(warned("a line of 9437184 bytes"), "{:?}", events.len());
    assert!(warned("no message: caf\u{fffd}"));
    let raw = events.iter().filter_map(|event| match event {
        Event::Raw { line } => Some(line.len()),
        _ => None,
    });
    assert_eq!(raw.collect::<Vec<_>>(), [8 * 1024 * 1024, 9, 19, RESULT.len()]);
    let stderr = |text: &str| events.contains(&Event::Stderr { text: text.to_owned() });
    assert!(stderr("oops") && stderr("unended"));
}

#[tokio::test]
async fn that_ends_without_a_result() {
    let (harness, fake) = harness();
    let _ = fake.call(1).script("echo 'Error: broken' >&2").out(format!("{INIT}\n")).rc(0);
    let _ = fake.call(2).script("kill -9 $$");
    let config = json!({"program": fake.program()});
    let error = harness.fail(config.clone()).await;
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("(exit 0)") && error.message.contains("broken"), "{error}");
    let error = harness.fail(config).await;
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("signal 9"), "{error}");
}

#[tokio::test]
async fn that_ignores_every_polite_signal() {
    let (harness, fake) = harness();
    let commands = format!("trap '' INT TERM; echo '{INIT}'; while :; do sleep 1; done");
    let _ = fake.default_call().script(&commands);
    let sink = RecordingSink::cancelling_at(|event| matches!(event, Event::Session { .. }));
    let error = harness.run(json!({"program": fake.program()}), &sink).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled);
    assert!(error.report.exit.unwrap().contains("signal 9"));
}

#[tokio::test]
async fn that_is_not_there() {
    let harness = Harness::new(Script::new());
    let agent = harness.agent(json!({"program": "claude-that-is-nowhere"}));
    assert_eq!(agent.describe().program, None);
    let check = agent.check(&harness.env).await.unwrap_err();
    let run = agent.run(harness.task("x"), &RecordingSink::new()).await.unwrap_err();
    for error in [check, run] {
        assert_eq!(error.class, ErrorClass::Unavailable);
        for part in
            ["claude-that-is-nowhere", "is not in PATH", "npm install -g @anthropic-ai/claude-code"]
        {
            assert!(error.message.contains(part), "{error}");
        }
    }
}

#[tokio::test]
async fn is_found_once() {
    let harness = Harness::new(Script::new());
    let agent = harness.agent(json!({"program": "bin/claude"}));
    assert!(agent.check(&harness.env).await.is_err());
    let fake = FakeAgent::new(harness.folder().join("fake"));
    let _ = fake.default_call().out("9.9.9 (Fake)\n");
    std::fs::create_dir(harness.folder().join("bin")).unwrap();
    let link = harness.folder().join("bin/claude");
    std::os::unix::fs::symlink(fake.program(), &link).unwrap();
    let found = agent.check(&harness.env).await.unwrap();
    assert_eq!(found, format!("9.9.9 (Fake) at {}", link.display()));
    assert_eq!(fake.argv(1), ["--version"]);
    assert_eq!(agent.describe().program, Some(link));
}

#[tokio::test]
async fn that_fails_its_check() {
    let (harness, fake) = harness();
    let _ = fake.call(1).script("echo 'no such library' >&2").rc(127);
    let _ = fake.call(2);
    let agent = harness.agent(json!({"program": fake.program()}));
    let error = agent.check(&harness.env).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
    assert!(error.message.contains("exit 127: no such library"), "{error}");
    let silent = agent.check(&harness.env).await.unwrap_err();
    assert_eq!(silent.class, ErrorClass::Unavailable);
}

#[tokio::test]
async fn is_not_started_for_nothing() {
    let (mut harness, fake) = harness();
    let config = json!({"program": fake.program()});
    let empty = harness
        .run_task(config.clone(), harness.task(""), &RecordingSink::new())
        .await
        .unwrap_err();
    assert_eq!(empty.class, ErrorClass::InvalidRequest);
    harness.budget.cost = Some(Usd::ZERO);
    assert_eq!(harness.fail(config).await.class, ErrorClass::AgentLimit);
    assert_eq!(fake.calls(), 0);
}

#[tokio::test]
async fn is_really_claude() {
    let harness = Harness::new(Script::new());
    let agent = harness.agent(json!({"model": "sonnet"}));
    let found = agent.check(&harness.env).await.unwrap();
    assert!(found.starts_with("2.1.197 (Claude Code) at /"), "{found}");
    let description = agent.describe();
    assert_eq!(description.name, "claude-cli");
    assert!(description.capabilities.cost && description.capabilities.interrupt);
    assert!(description.wants_env.iter().any(|name| name == "ANTHROPIC_API_KEY"));
    assert!(harness.server.requests().is_empty(), "a check spends nothing");
}

#[test]
fn that_prints_without_an_end_gives_way() {
    let text =
        r#"{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":"x"}]}}"#;
    for script in ["yes".to_owned(), "yes >&2".to_owned(), format!("yes '{text}'"), "yes ''".into()]
    {
        assert_gives_way(&script.clone(), move || async move {
            let (harness, fake) = harness();
            let _ = fake.default_call().script(&script);
            drop(harness.run(json!({"program": fake.program()}), &RecordingSink::new()).await);
        });
    }
}
