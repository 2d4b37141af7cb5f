//! The stream of a Claude-shaped agent: figures only grow, failures say something and carry no claim.

use orchestrator::contract::{AgentError, ErrorClass, Event, Report, Tokens, Usage};
use ralph_adapter_claude_stream::{Ended, Parser, parse_json_document};

/// Longest text of a tool's answer, with room for the words that say it was cut.
const LONGEST_RESULT: usize = 65 * 1024;

/// Reads the bytes as a stream of lines and as one document.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parser = Parser::new();
    let mut last = Usage::default();
    for line in text.split('\n') {
        let unread = parser.not_json();
        for event in parser.line(line) {
            match event {
                Event::Usage { usage } => {
                    assert_grown(last, usage);
                    last = usage;
                }
                Event::ToolResult { text, .. } => assert!(text.len() <= LONGEST_RESULT),
                Event::Warning { message } => assert!(!message.is_empty()),
                _ => {}
            }
        }
        assert!(parser.not_json() >= unread);
        assert!(parser.unread().len() <= 65);
    }
    let complete = parser.has_result();
    let end = parser.finish(Ended::default());
    assert!(complete || end.is_err(), "a stream without a result ended well");
    assert_grown(last, end_of(end).usage);
    end_of(parse_json_document(&text, Ended::default()));
    let cancelled = Ended { cancelled: true, ..Ended::default() };
    let end = parse_json_document(&text, cancelled);
    assert!(end.is_err_and(|error| error.class == ErrorClass::Cancelled));
}

fn end_of(end: Result<Report, AgentError>) -> Report {
    match end {
        Ok(report) => report,
        Err(error) => {
            assert!(!error.message.is_empty());
            assert_eq!(error.report.final_text, None, "a failed iteration claims nothing");
            assert_ne!(error.class, ErrorClass::Cancelled);
            *error.report
        }
    }
}

/// What is known once stays known, and no figure shrinks.
fn assert_grown(before: Usage, after: Usage) {
    let figures = |Tokens { input, output, cache_read, cache_write }: Tokens| {
        [input, output, cache_read, cache_write]
    };
    let old = figures(before.tokens.unwrap_or_default());
    let new = figures(after.tokens.unwrap_or_default());
    assert!(old.iter().zip(new).all(|(old, new)| new >= *old), "{before:?}, then {after:?}");
    assert!(after.cost >= before.cost || after.cost.is_none(), "{before:?}, then {after:?}");
}
