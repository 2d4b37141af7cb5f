//! Every command of ralph-orchestrator, with an agent and a validator of one's own.

mod agent;
mod validator;

use std::process::ExitCode;

use ralph_orchestrator::Cli;

fn main() -> ExitCode {
    Cli::builder()
        .agent("piped", agent::Piped::build)
        .validator("no-todo", validator::NoTodo::build)
        .main()
}
