//! The stream of `opencode run --format json`: as `streams` has it, and every session
//! is told of once.

use ralph_adapter_common::opencode::OpenCodeParser;
use ralph_adapter_common::{LineParser as _, ProcessEnd};
use ralph_orchestrator_contract::Event;

use crate::streams::Watch;

/// Reads the bytes as a stream of lines.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parser = OpenCodeParser::default();
    let mut watch = Watch::default();
    let mut sessions = 0;
    for line in text.split('\n') {
        let events = parser.line(line);
        sessions += events.iter().filter(|event| matches!(event, Event::Session { .. })).count();
        watch.heard(events);
    }
    assert!(sessions <= 1, "{sessions} sessions were told of");
    watch.ended(parser.finish(ProcessEnd {
        exit: "exit 0".to_owned(),
        success: true,
        ..ProcessEnd::default()
    }));
}
