//! Shim and plugin host as a program of its own, for tests whose own binary cannot be one.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use plugin_host::{HOST_COMMAND, serve};
use ralph_orchestrator_supervisor::shim;

fn main() -> ExitCode {
    shim::intercept();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [command, library] if command == OsStr::new(HOST_COMMAND) => {
            let error = serve(Path::new(library));
            // Nobody is left to be told if this fails.
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
        _ => shim::main(arguments),
    }
}
