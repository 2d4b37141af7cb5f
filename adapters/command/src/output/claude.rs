//! Claude Code's JSON output, and what imitates it.

use ralph_adapter_common::LineParser;
use ralph_adapter_common::claude_stream as stream;
use ralph_orchestrator_contract::{AgentError, Event, Report};
use serde_json::Value;

/// `--output-format stream-json` prints a message a line, `json` the last one only, and `json` with
/// `--verbose` all of them as one list.
#[derive(Debug, Default)]
pub(super) struct Claude {
    parser: stream::Parser,
}

impl LineParser for Claude {
    fn line(&mut self, line: &str) -> Vec<Event> {
        let list = if line.trim_start().starts_with('[') {
            serde_json::from_str::<Vec<Value>>(line).ok()
        } else {
            None
        };
        match list {
            Some(messages) => messages
                .into_iter()
                .flat_map(|message| self.parser.line(&message.to_string()))
                .collect(),
            None => self.parser.line(line),
        }
    }

    fn done(&self) -> bool {
        self.parser.has_result()
    }

    fn finish(self: Box<Self>, exit: &str) -> Result<Report, AgentError> {
        self.parser
            .finish(stream::Ended { exit: Some(exit.to_owned()), ..stream::Ended::default() })
    }
}
