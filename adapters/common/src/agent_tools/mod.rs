//! The orchestrator's tools for agents, as a server of the Model Context Protocol: to claim completion and read at once
//! why the claim is rejected, to ask for a human, to leave a note, to see what is left to spend.
//!
//! An adapter whose agent takes servers on standard input and output opens a [`ToolServer`] for each iteration and
//! serves it [beside](ToolServer::beside) the agent's process. The agent starts [`relay`], in a process of its own, which
//! only passes lines on: everything is decided where the run is.

mod message;
mod relay;
mod server;

pub use message::{RULE, SERVER, ServerRequest, read, tool_result};
pub use ralph_orchestrator_contract::agent_tools::{
    ACCEPTED, ASKED, MAX_NOTE, NOTED, ToolCall, VALIDATED_LATER, rejection,
};
pub use relay::{RELAY_COMMAND, RelayError, relay, relay_command};
pub use server::{TOOLS_FILE, ToolServer, launched_tools_file, tools_file};
