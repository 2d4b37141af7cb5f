//! What holds for the stream of every agent: figures only grow, answers are not long, failures say
//! something and carry no claim.

use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Report, Tokens, Usage};

/// Longest text of a tool's answer, with room for the words that say it was cut.
const LONGEST_RESULT: usize = 65 * 1024;

/// Watches a stream.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: Usage,
}

impl Watch {
    pub(crate) fn check_events(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Usage { usage } => {
                    assert_grown(self.last, usage);
                    self.last = usage;
                }
                Event::ToolResult { text, .. } => assert!(text.len() <= LONGEST_RESULT),
                _ => {}
            }
        }
    }

    pub(crate) fn ended(self, end: Result<Report, AgentError>) {
        assert_grown(self.last, end_of(end).usage);
    }
}

/// The report of an end that nobody asked for.
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
