//! The command line of ralph-orchestrator.

mod activity;
mod args;
mod commands;
mod context;
mod error;
mod orphans;
mod output;
mod plugins;
mod processes;
mod registry;
mod render;
mod sandbox;
mod signals;
mod trace;
mod transcript;
mod writer;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};
use error::{CommandError, exit};

fn main() -> ExitCode {
    // Before anything else: as a supervisor of one process tree this program has no threads.
    ralph_orchestrator_supervise::shim::intercept();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            // A closed terminal is nothing to complain about to a closed terminal.
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    let code = match dispatch(args) {
        Ok(code) => code,
        Err(error) => {
            output::problem(&error);
            error.code()
        }
    };
    output::finish();
    ExitCode::from(code)
}

fn dispatch(args: Args) -> Result<u8, CommandError> {
    let Args { config, command } = args;
    let config = config.unwrap_or_else(|| "ralph.toml".into());
    let log = match &command {
        // It serves another that listens.
        Command::PluginHost(_) => trace::RunLog::default(),
        Command::Run(run) => trace::install(run.verbose),
        _ => trace::install(0),
    };
    match command {
        Command::Run(run) => commands::run::run(&config, run, &log),
        Command::Status(status) => commands::status::status(&config, &status),
        Command::Runs(runs) => commands::runs::runs(&config, &runs),
        Command::Why(why) => commands::why::why(&config, &why),
        Command::Log(log) => commands::log::log(&config, &log),
        Command::Answer(answer) => commands::answer::answer(&config, answer),
        Command::Stop(stop) => commands::stop::stop(&config, &stop),
        Command::Reset(reset) => commands::reset::reset(&config, &reset),
        Command::Init(init) => commands::init::init(&config, &init),
        Command::Doctor(doctor) => commands::doctor::doctor(&config, &doctor),
        Command::Export(export) => commands::export::export(&config, &export),
        Command::Config(command) => commands::config::config(&config, command),
        Command::Agents(agents) => commands::agents::agents(&config, &agents),
        Command::Plugin(command) => commands::plugin::plugin(&config, command),
        Command::PluginHost(host) => Err(commands::plugin::host(&host)),
        Command::Completions(shell) => Ok(commands::completions::completions(&shell)),
    }
}
