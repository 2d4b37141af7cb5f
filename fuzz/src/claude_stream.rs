//! The stream of a Claude-shaped agent: as `streams` has it, and only a result ends
//! well.

use ralph_adapter_common::LineParser as _;
use ralph_adapter_common::ProcessEnd;
use ralph_adapter_common::claude_program::conclude;
use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_orchestrator_contract::{CancelReason, ErrorClass, Event};

use crate::streams::Watch;

/// Reads the bytes as a stream of lines.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parser = ClaudeParser::new();
    let mut watch = Watch::default();
    for line in text.split('\n') {
        let unread = parser.not_json();
        let events = parser.line(line);
        let silent =
            |event: &Event| matches!(event, Event::Warning { message } if message.is_empty());
        assert!(!events.iter().any(silent));
        watch.check_events(events);
        assert!(parser.not_json() >= unread);
        assert!(parser.unread().len() <= 65);
    }
    let complete = parser.has_result();
    let end = parser.account("exit 0");
    assert!(complete || end.is_err(), "a stream without a result ended well");
    let cancelled = ProcessEnd { cancelled: Some(CancelReason::Signal), ..ProcessEnd::default() };
    let cancelled = conclude(end.clone(), cancelled);
    assert!(cancelled.is_err_and(|error| error.class == ErrorClass::Cancelled));
    watch.ended(end);
}
