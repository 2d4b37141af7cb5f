//! Structured agents: programs that print what the real ones printed.

use std::path::Path;

use ralph_orchestrator_contract::Event;
use serde_json::{Value, json};

use crate::support::{Place, Sink};

const FINAL: &str = "All done. <promise>COMPLETE: hello.txt written</promise>";

fn printing(transcript: &str, then: &str, output: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(transcript);
    assert!(file.exists(), "{}", file.display());
    let script = format!("cat > /dev/null; cat '{}'; {then}", file.display());
    json!({"program": ["sh", "-c", script], "output": output})
}

#[tokio::test]
async fn each_output_gives_its_final_text_and_figures() {
    let place = Place::new();
    for (transcript, output, cost) in [
        ("happy-bypass.jsonl", "claude-json", true),
        ("json.jsonl", "claude-json", true),
        ("../../../common/tests/transcripts/codex/happy.jsonl", "codex-json", false),
        ("opencode.jsonl", "opencode-json", true),
    ] {
        let config = printing(transcript, "exit 0", output);
        let capabilities = place.agent(config.clone()).describe().capabilities;
        assert_eq!((capabilities.cost, capabilities.tokens), (cost, true));
        let sink = Sink::new();
        let report = place.run(config, b"go", &sink).await.unwrap();
        assert_eq!(report.final_text.as_deref(), Some(FINAL), "{transcript}");
        assert_eq!(report.usage.cost.is_some(), cost, "{transcript}");
        assert!(report.usage.tokens.unwrap().total() > 0 && report.session.is_some());
        let lines = std::fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(transcript),
        );
        let events = sink.events.lock().unwrap();
        let raw = events.iter().filter_map(|event| match event {
            Event::Raw { line } => Some(line.as_str()),
            _ => None,
        });
        assert_eq!(raw.collect::<Vec<_>>(), lines.unwrap().lines().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn text_reports_no_figures() {
    let place = Place::new();
    let config = printing("../../../common/tests/transcripts/codex/happy.jsonl", "exit 0", "text");
    let capabilities = place.agent(config.clone()).describe().capabilities;
    assert!(!capabilities.cost && !capabilities.tokens);
    let report = place.run(config, b"", &Sink::new()).await.unwrap();
    assert!(report.final_text.unwrap().starts_with('{') && report.usage.tokens.is_none());
}

#[tokio::test]
async fn a_bad_ending_voids_what_was_claimed() {
    let place = Place::new();
    for (transcript, output, then, class) in [
        ("happy-bypass.jsonl", "claude-json", "exit 1", "crashed"),
        ("../../../common/tests/transcripts/codex/happy.jsonl", "codex-json", "exit 1", "crashed"),
        ("opencode.jsonl", "opencode-json", "kill -15 $$", "crashed"),
        ("e401.jsonl", "claude-json", "exit 1", "unauthenticated"),
        (
            "../../../common/tests/transcripts/codex/429.jsonl",
            "codex-json",
            "exit 1",
            "rate_limited",
        ),
        (
            "../../../common/tests/transcripts/codex/ctx.jsonl",
            "codex-json",
            "exit 1",
            "context_exceeded",
        ),
    ] {
        let config = printing(transcript, then, output);
        let error = place.run(config, b"", &Sink::new()).await.unwrap_err();
        assert_eq!(error.class.word(), class, "{transcript} {then}");
        assert_eq!(error.report.final_text, None);
    }
}

#[tokio::test]
async fn an_agent_that_said_all_but_does_not_exit_is_ended_and_did_well() {
    let place = Place::new();
    let config = printing("happy-bypass.jsonl", "sleep 1000", "claude-json");
    let report = place.run(config, b"", &Sink::new()).await.unwrap();
    assert_eq!(report.final_text.as_deref(), Some(FINAL));
    assert!(report.exit.unwrap().starts_with("signal 2"));
}
