//! Serves a script as a model on loopback; see the crate's documentation.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use ralph_orchestrator_conformance::model_server::{ModelServer, Request, Script};

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            drop(writeln!(io::stderr(), "ralph-model-server: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), String> {
    let mut args = std::env::args_os().skip(1);
    let usage = "expected: ralph-model-server SCRIPT [PORT]";
    let (Some(file), port, None) = (args.next(), args.next(), args.next()) else {
        return Err(usage.to_owned());
    };
    let port = match port {
        Some(port) => {
            let port = port.to_str().and_then(|port| port.parse().ok());
            port.ok_or_else(|| format!("the port is no number from 0 to 65535; {usage}"))?
        }
        None => 0,
    };
    let handler = script(Path::new(&file))?.into_handler();
    let server = ModelServer::start_on(port, move |request: &Request| {
        let (path, model) = (request.path(), request.model());
        // Whoever no longer reads is still served.
        drop(writeln!(io::stdout(), "{} {path} {model}", request.method));
        handler(request)
    });
    let server = server.map_err(|error| format!("cannot listen on port {port}: {error}"))?;
    writeln!(io::stdout(), "{}", server.base_url()).map_err(|error| error.to_string())?;
    loop {
        std::thread::park();
    }
}

fn script(file: &Path) -> Result<Script, String> {
    let named = |error: String| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
    Script::from_json(&text).map_err(named)
}
