//! Recorded conversations with the real `claude`, in both directions.

use std::collections::BTreeSet;
use std::path::Path;

use claude_codes::ClaudeOutput;
use ralph_adapter_common::claude_stream::{ClaudeParser, Message};
use ralph_orchestrator_contract::Event;
use serde_json::Value;

use crate::control::{Incoming, Request};

/// What the agent said, by recording.
fn recordings() -> Vec<(String, Vec<Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut recordings = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let said = lines.filter(|line| line["dir"] == "<").map(|mut line| line["msg"].take());
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        recordings.push((name, said.collect()));
    }
    assert_eq!(recordings.len(), 11);
    recordings
}

#[test]
fn every_line_is_read_without_loss() {
    let mut control = BTreeSet::new();
    for (name, said) in recordings() {
        let mut parser = ClaudeParser::new();
        let mut events = Vec::new();
        for value in said {
            match Incoming::read(&value) {
                Some(Incoming::Request { request, .. }) => {
                    let kind = match request {
                        Request::MayUse { .. } => "may use",
                        Request::Hook { .. } => "hook",
                        Request::Mcp { .. } => "mcp",
                        Request::Unknown { kind } => panic!("{name}: {kind}"),
                    };
                    control.insert(kind);
                }
                Some(Incoming::Answer { answer, .. }) => {
                    control.insert(if answer.is_ok() { "answer" } else { "error" });
                }
                Some(Incoming::Cancel { .. }) => drop(control.insert("cancel")),
                None => events.extend(parser.message(Message::from_value(value))),
            }
        }
        assert_eq!(parser.not_json(), 0, "{name}");
        // What has no meaning here is counted, and is never more than news about the agent itself.
        for kind in parser.unread().keys() {
            assert!(kind.starts_with("system/"), "{name}: {kind}");
        }
        // The one with no turn at all aside, each told what it used and how full its context was.
        let reported = |wanted: fn(&Event) -> bool| events.iter().any(wanted);
        if reported(|event| matches!(event, Event::Session { .. })) {
            assert!(reported(|event| matches!(event, Event::Usage { .. })), "{name}");
            assert!(reported(|event| matches!(event, Event::Context { .. })), "{name}");
        }
        drop(parser.finish_handed_off());
    }
    assert_eq!(
        control.into_iter().collect::<Vec<_>>(),
        ["answer", "error", "hook", "may use", "mcp"]
    );
}

/// Messages are compared in adapters/common, which reads them.
#[test]
fn the_control_messages_of_another_crate_agree() {
    let mut compared = 0;
    for (name, said) in recordings() {
        for value in said {
            let Some(incoming) = Incoming::read(&value) else { continue };
            let parsed = ClaudeOutput::parse_json(&value.to_string());
            let agrees = matches!(
                (&parsed, incoming),
                (Ok(ClaudeOutput::ControlRequest(_)), Incoming::Request { .. })
                    | (Ok(ClaudeOutput::ControlResponse(_)), Incoming::Answer { .. })
            );
            assert!(agrees, "{name}: {value} is {parsed:?} there");
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
}

#[test]
fn a_recorded_hand_off_is_metered_as_it_was() {
    let recordings = recordings();
    let (_, said) = recordings.iter().find(|(name, _)| name == "70pct-handoff").unwrap();
    let mut parser = ClaudeParser::new();
    let mut used = Vec::new();
    for value in said.iter().filter(|value| Incoming::read(value).is_none()) {
        for event in parser.message(Message::from_value(value.clone())) {
            if let Event::Context { used: tokens, window } = event {
                used.push((tokens, window));
            }
        }
    }
    let expected = [
        (60_500, None),
        (100_500, None),
        (145_500, None),
        (145_500, Some(200_000)),
        (145_600, Some(200_000)),
    ];
    assert_eq!(used, expected);
    assert_eq!(parser.context().unwrap().share(), Some(0.728));
}
