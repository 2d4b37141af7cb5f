//! `codex exec --json`.

use ralph_adapter_common::LineParser;
use ralph_adapter_common::codex_stream as stream;
use ralph_orchestrator_contract::{AgentError, Event, Report};

/// What Codex has said so far.
#[derive(Debug, Default)]
pub(super) struct Codex {
    parser: stream::Parser,
}

impl LineParser for Codex {
    fn line(&mut self, line: &str) -> Vec<Event> {
        self.parser.line(line)
    }

    fn done(&self) -> bool {
        self.parser.has_result()
    }

    fn finish(self: Box<Self>, _exit: &str) -> Result<Report, AgentError> {
        self.parser.finish()
    }
}
