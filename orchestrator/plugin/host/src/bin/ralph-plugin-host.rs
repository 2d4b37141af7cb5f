//! The supervisor's helper processes and the plugin host process as a program, for tests whose own binary
//! cannot be one.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use ralph_orchestrator_plugin_host::{HOST_COMMAND, run_host_process};
use ralph_orchestrator_supervisor::shim;

fn main() -> ExitCode {
    shim::intercept();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [command, library] if command == OsStr::new(HOST_COMMAND) => {
            let error = run_host_process(Path::new(library));
            // A failure to write to stderr cannot be reported.
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
        _ => shim::main(arguments),
    }
}
