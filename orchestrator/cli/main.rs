//! The program as it is shipped.

use std::process::ExitCode;

fn main() -> ExitCode {
    ralph_orchestrator::Cli::builder().main()
}
