//! What the process of `claude` prints.

use ralph_adapter_common::claude_program::conclude;
use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_adapter_common::{LineParser, ProcessEnd};
use ralph_orchestrator_contract::{AgentError, Event, Report};

/// The parser, whose account decides whatever the exit status is.
#[derive(Debug, Default)]
pub(crate) struct ClaudeOutput(ClaudeParser);

impl LineParser for ClaudeOutput {
    fn line(&mut self, line: &str) -> Vec<Event> {
        self.0.line(line)
    }

    fn is_done(&self) -> bool {
        self.0.has_result()
    }

    fn finish(self, end: ProcessEnd) -> Result<Report, AgentError> {
        conclude(self.0.finish(&end.exit), end)
    }
}
