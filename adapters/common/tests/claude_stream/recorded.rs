//! Every recording there is: nothing in it is lost, and none of it is fatal.

use std::path::Path;

use claude_codes::ClaudeOutput;
use ralph_adapter_common::LineParser as _;
use ralph_adapter_common::claude_stream::{ClaudeParser, Message};
use ralph_orchestrator_contract::{Event, Usage};
use serde_json::Value;

/// What was printed, by recording.
fn recordings() -> Vec<(String, Vec<Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let recordings = paths.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let recordings = recordings.map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), lines)
    });
    let recordings: Vec<_> = recordings.collect();
    assert_eq!(recordings.len(), 30);
    recordings
}

#[test]
fn every_line_is_read_or_counted() {
    for (name, lines) in recordings() {
        let mut parser = ClaudeParser::new();
        let mut reported = Usage::default();
        for line in &lines {
            for event in parser.line(&line.to_string()) {
                let Event::Usage { usage } = event else { continue };
                assert_eq!(reported.max(usage).tokens, usage.tokens, "{name}: {line}");
                reported = reported.max(usage);
            }
        }
        assert_eq!(parser.not_json(), 0, "{name}");
        // What has no meaning here is never more than news about the agent itself.
        for kind in parser.unread().keys() {
            assert!(kind.starts_with("system/"), "{name}: {kind}");
        }
        let report = parser.account("exit 0").unwrap_or_else(|error| *error.report);
        assert!(report.session.is_some(), "{name}");
        assert_eq!(reported.max(report.usage).tokens, report.usage.tokens, "{name}");
    }
}

#[test]
fn what_is_not_known_is_counted_and_changes_nothing() {
    for (name, lines) in recordings() {
        let (mut plain, mut more) = (ClaudeParser::new(), ClaudeParser::new());
        for line in lines {
            let events = plain.line(&line.to_string());
            let mut line = line;
            line["field_of_the_future"] = serde_json::json!({"a": [1, null]});
            assert_eq!(more.line(&line.to_string()), events, "{name}: {line}");
            assert_eq!(more.line(r#"{"type":"of_the_future","x":[{}]}"#), [], "{name}");
            assert_eq!(more.line(r#"{"type":"system","subtype":"of_the_future"}"#), [], "{name}");
        }
        let unknown = more.unread()["of_the_future"];
        assert_eq!(more.unread()["system/of_the_future"], unknown, "{name}");
        let ended = |parser: ClaudeParser| parser.account("exit 0");
        assert_eq!(format!("{:?}", ended(more)), format!("{:?}", ended(plain)), "{name}");
    }
}

#[test]
fn the_types_of_another_crate_agree() {
    // Qwen is another program, whose messages are alike.
    for (name, lines) in recordings().into_iter().filter(|(name, _)| name != "qwen") {
        for value in lines {
            let parsed = ClaudeOutput::parse_json(&value.to_string());
            let agrees = match (&parsed, Message::from_value(value.clone())) {
                (Ok(ClaudeOutput::Assistant(_)), Message::Assistant(_))
                | (Ok(ClaudeOutput::User(_)), Message::User(_))
                | (Ok(ClaudeOutput::Result(_)), Message::Result(_))
                | (Ok(ClaudeOutput::StreamEvent(_)), Message::Stream { .. })
                | (Ok(ClaudeOutput::System(_)), Message::System(_)) => true,
                (Ok(ClaudeOutput::System(_)), Message::Other { kind, .. }) => {
                    kind.starts_with("system/")
                }
                _ => false,
            };
            assert!(agrees, "{name}: {value} is {parsed:?} there");
        }
    }
}
