//! A program that compiles in an agent of a name that is taken.

#[path = "../../examples/own-binary/src/agent.rs"]
mod agent;

use std::process::ExitCode;

use ralph_orchestrator::Cli;

fn main() -> ExitCode {
    Cli::builder().agent("codex", agent::Piped::build).main()
}
