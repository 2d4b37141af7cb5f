//! The stream of a Claude-shaped agent: as `streams` has it, and only a result ends
//! well.

use ralph_adapter_claude_stream::{Ended, Parser, parse_json_document};
use ralph_orchestrator_contract::{ErrorClass, Event};

use crate::streams::{Watch, end_of};

/// Reads the bytes as a stream of lines and as one document.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parser = Parser::new();
    let mut watch = Watch::default();
    for line in text.split('\n') {
        let unread = parser.not_json();
        let events = parser.line(line);
        let silent =
            |event: &Event| matches!(event, Event::Warning { message } if message.is_empty());
        assert!(!events.iter().any(silent));
        watch.heard(events);
        assert!(parser.not_json() >= unread);
        assert!(parser.unread().len() <= 65);
    }
    let complete = parser.has_result();
    let end = parser.finish(Ended::default());
    assert!(complete || end.is_err(), "a stream without a result ended well");
    watch.ended(end);
    end_of(parse_json_document(&text, Ended::default()));
    let cancelled = Ended { cancelled: true, ..Ended::default() };
    let end = parse_json_document(&text, cancelled);
    assert!(end.is_err_and(|error| error.class == ErrorClass::Cancelled));
}
