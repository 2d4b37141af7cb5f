//! Recorded streams of real agents, and what can be done to them.

mod context;
mod endings;
mod events;
mod properties;
mod recorded;

use std::path::Path;

use ralph_adapter_common::LineParser as _;
use ralph_adapter_common::claude_stream::ClaudeParser;
use ralph_orchestrator_contract::{AgentError, Event, Report};

fn transcript(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a whole stream.
fn read(stream: &str) -> (Vec<Event>, Result<Report, AgentError>) {
    let mut parser = ClaudeParser::new();
    let events = stream.lines().flat_map(|line| parser.line(line)).collect();
    (events, parser.account("exit 1"))
}
