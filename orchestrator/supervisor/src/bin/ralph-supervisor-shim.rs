//! The shim as a program of its own, for tests whose own binary cannot be one.

use std::process::ExitCode;

use ralph_orchestrator_supervisor::shim;

fn main() -> ExitCode {
    shim::intercept();
    shim::main(std::env::args_os().skip(1))
}
