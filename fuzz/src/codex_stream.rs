//! The stream of `codex exec --json`: as `streams` has it, and only a turn that has
//! ended ends well.

use ralph_adapter_common::codex_stream::CodexParser;

use crate::streams::Watch;

/// Reads the bytes as a stream of lines.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parser = CodexParser::new();
    let mut watch = Watch::default();
    for line in text.split('\n') {
        watch.check_events(parser.line(line));
        assert!(parser.unread().len() <= 65);
    }
    let complete = parser.has_result();
    let end = parser.finish();
    assert!(complete || end.is_err(), "a stream without the end of a turn ended well");
    watch.ended(end);
}
