//! Iterations that end well.

use ralph_orchestrator_contract::{Event, Tokens};
use ralph_orchestrator_testkit::model_server::{Script, Turn};
use serde_json::json;

use crate::harness::{Harness, Real, RecordingSink};

const FIRST: Tokens = Tokens { input: 2000, output: 120, cache_read: 0, cache_write: 15_000 };
const LAST: Tokens = Tokens { input: 20, output: 40, cache_read: 17_000, cache_write: 300 };

#[tokio::test]
async fn writes_a_file_and_reports_exact_figures() {
    for real in Real::ALL {
        let script = Script::new()
            .then(
                Turn::text("I will write it.")
                    .thinking("hm")
                    .and_shell("echo hello ralph > hello.txt; cat hello.txt")
                    .usage(FIRST),
            )
            .then(Turn::text("Done. <promise>COMPLETE: written</promise>").usage(LAST));
        let harness = Harness::new(script);
        let sink = RecordingSink::new();
        let report = harness.run(real.config(), &sink).await.unwrap();
        let written = std::fs::read_to_string(harness.workspace().join("hello.txt")).unwrap();
        assert_eq!(written, "hello ralph\n");
        let last = "Done. <promise>COMPLETE: written</promise>";
        assert_eq!(report.final_text.as_deref(), Some(last), "{real:?}");
        assert_eq!(harness.server.served(), FIRST + LAST);
        assert_eq!(report.usage.tokens, Some(FIRST + LAST), "{real:?}");
        let usages = sink.usages();
        assert_eq!(usages.last(), Some(&report.usage));
        assert_eq!(report.usage.cost.is_some(), real == Real::Claude, "{report:?}");
        assert_eq!(report.exit.as_deref(), Some("exit 0"), "{real:?}");
        // Its own helper may end a little later than itself.
        let own = |name: &String| real == Real::Claude && name.contains("/claude ");
        assert!(report.left_behind.iter().all(own) && report.denied.is_empty(), "{report:?}");
        let events = sink.events();
        let reported =
            |wanted: &dyn Fn(&Event) -> bool| events.iter().filter(|e| wanted(e)).count();
        let session = |e: &Event| matches!(e, Event::Session { id, .. } if Some(id) == report.session.as_ref());
        // Claude Code says which model it uses once that has answered.
        let sessions = if real == Real::Claude { 2 } else { 1 };
        assert_eq!(reported(&session), sessions, "{real:?}: {events:?}");
        if real == Real::Claude {
            // The first request's figures came before the end, but for its true output.
            let first = Tokens { output: 1, ..FIRST };
            assert_eq!(usages[0].tokens, Some(first));
        }
        let call = |e: &Event| {
            matches!(e, Event::ToolCall { name, input, .. }
            if name == real.tool() && input.to_string().contains("echo hello ralph"))
        };
        assert_eq!(reported(&call), 1, "{real:?}: {events:?}");
        let answered = |e: &Event| matches!(e, Event::ToolResult { is_error: false, text, .. } if text.trim() == "hello ralph");
        assert_eq!(reported(&answered), 1, "{real:?}: {events:?}");
        assert_eq!(reported(&|e| matches!(e, Event::Thinking { text } if text == "hm")), 1);
        assert_eq!(
            reported(&|e| matches!(e, Event::Text { text } if text == last)),
            1,
            "{events:?}"
        );
        let context = events.iter().rev().find_map(|event| match event {
            Event::Context { used, window } => Some((*used, window.is_some())),
            _ => None,
        });
        assert_eq!(context, Some((LAST.total(), true)), "{real:?}");
    }
}

#[tokio::test]
async fn every_iteration_is_a_fresh_session_with_its_own_figures() {
    let harness = Harness::new(Script::new().forever(Turn::text("done").usage(LAST)));
    let first = harness.run(Real::Codex.config(), &RecordingSink::new()).await.unwrap();
    let second = harness.run(Real::Codex.config(), &RecordingSink::new()).await.unwrap();
    assert_ne!(first.session, second.session);
    assert_eq!((first.usage, second.usage.tokens), (second.usage, Some(LAST)));
}

#[tokio::test]
async fn mode_and_model_reach_the_agent_or_are_named() {
    let real = Real::Claude;
    let harness = Harness::new(Script::new().forever(Turn::text("ok")));
    let mut config = real.config();
    config["model"] = json!("haiku");
    harness.run(config.clone(), &RecordingSink::new()).await.unwrap();
    let asked = harness.server.main_requests();
    assert!(asked[0].model().contains("haiku"), "{}", asked[0].model());
    config["mode"] = json!("yolo");
    let error = harness.fail(config).await;
    assert_eq!(error.class.word(), "invalid_request");
    assert!(error.message.contains("no mode `yolo`"), "{error}");
    assert!(error.message.contains("bypassPermissions"), "{error}");
}

#[tokio::test]
async fn what_the_program_says_is_no_text_of_the_model() {
    let harness = Harness::new(Script::new().then(Turn::text("ok")));
    let sink = RecordingSink::new();
    harness.run(Real::Codex.config(), &sink).await.unwrap();
    assert!(sink.has_warning("Model metadata"), "{:?}", sink.events());
    let texts: Vec<_> =
        sink.events().iter().filter(|e| matches!(e, Event::Text { .. })).cloned().collect();
    assert_eq!(texts, [Event::Text { text: "ok".to_owned() }]);
}

#[tokio::test]
async fn it_is_checked_without_spending_anything() {
    for (real, name) in [(Real::Claude, "Claude Agent 0."), (Real::Codex, "Codex 2.")] {
        let harness = Harness::new(Script::new());
        let found = harness.agent(real.config()).check(&harness.env).await.unwrap();
        assert!(found.starts_with(name) && found.contains("node_modules"), "{found}");
        assert!(harness.server.main_requests().is_empty());
        harness.wait_until_nothing_is_left(std::time::Duration::from_secs(10)).await;
    }
}

#[tokio::test]
async fn what_is_missing_is_said_with_how_to_get_it() {
    let harness = Harness::new(Script::new()).env("PATH", "/nowhere");
    let missing =
        harness.agent(json!({"program": ["codex-acp"]})).check(&harness.env).await.unwrap_err();
    assert_eq!(missing.class.word(), "unavailable");
    assert!(missing.message.contains("npm install -g @agentclientprotocol/codex-acp"), "{missing}");
    let no_agent =
        harness.agent(json!({"program": ["/bin/true"]})).check(&harness.env).await.unwrap_err();
    assert_eq!(no_agent.class.word(), "unavailable", "{no_agent}");
    assert!(no_agent.message.contains("/bin/true"), "{no_agent}");
}
