//! The stream of `opencode run --format json`: as `streams` has it, and every session
//! is told of once.

use ralph_adapter_common::LineParser as _;
use ralph_adapter_common::opencode::OpenCodeParser;
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
        watch.check_events(events);
    }
    assert!(sessions <= 1, "{sessions} sessions were told of");
    watch.ended(parser.account("exit 0"));
}
