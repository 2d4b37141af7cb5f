//! The command line of ralph-orchestrator.

mod activity;
mod agent_words;
mod args;
mod backlog;
mod bench;
mod bounded_file;
mod commands;
mod complete;
mod context;
mod control;
mod detach;
mod discovery;
mod dry_run;
mod error;
mod git;
mod help;
mod help_examples;
mod missing_agent_program;
mod new_file;
mod next_step;
mod orphans;
mod output;
mod own_locks;
mod plugins;
mod presets;
mod probe;
mod processes;
mod question;
mod registry;
mod render;
mod sandbox;
mod schema;
mod signals;
mod suggest;
mod task;
mod tasks;
mod trace;
mod values;
mod workspace_selection;
mod workspace_setup;
mod writer;

use std::process::ExitCode;

use clap::FromArgMatches as _;

use args::{Command, CommandLine};
use discovery::ConfigFile;
use error::{CommandError, exit};

fn main() -> ExitCode {
    // Before anything else: as a supervisor of one process tree this program has no threads.
    ralph_orchestrator_supervisor::shim::intercept();
    complete::serve_candidates();
    let args = match parse() {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            output::usage(&error);
            return ExitCode::from(code);
        }
    };
    let code = match dispatch(args) {
        Ok(code) => code,
        Err(error) => {
            output::error(&error);
            error.code()
        }
    };
    output::finish();
    ExitCode::from(code)
}

fn parse() -> Result<CommandLine, clap::Error> {
    let mut command = help::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    matches.and_then(|matches| CommandLine::from_arg_matches(&matches)).map_err(|error| {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        suggest::explain(error, &command, &words.collect::<Vec<_>>())
    })
}

fn dispatch(command_line: CommandLine) -> Result<u8, CommandError> {
    let CommandLine { config, workspace, task, quiet, detached, command } = command_line;
    let (command, task) = match command {
        Command::Go(go) => {
            let (run, task) = go.into_run(task)?;
            (Command::Run(run), Some(task))
        }
        command => (command, task),
    };
    if task.is_some() && !command.uses_config() {
        return Err(CommandError::user("--task has no effect on this command; leave it out"));
    }
    if quiet {
        output::set_quiet();
    }
    let named = config.clone().unwrap_or_else(|| discovery::NAME.into());
    let config = match workspace {
        Some(workspace) => workspace_selection::find_for(&command, &workspace)?,
        None if command.uses_config() => ConfigFile::find(config)?.with_task(task),
        None => ConfigFile::named(named.clone()),
    };
    if let Some(notice) = config.place.notice() {
        output::info(&notice);
    }
    let log = match &command {
        // It serves another that listens.
        Command::PluginHost(_) => trace::RunLog::default(),
        Command::Run(run) => trace::install(run.verbose),
        _ => trace::install(0),
    };
    // However it ends.
    let _last = log.flush_on_drop();
    if detached {
        detach::lead_session()?;
    }
    match command {
        Command::Run(run) if run.detach && !detached => detach::launch(&config, run.json),
        Command::Run(run) => commands::run::run(&config, run, &log, quiet),
        Command::New(new) => commands::new::new(&config, &new),
        // It became a `run` above.
        Command::Go(_) => Ok(exit::OK),
        Command::Next(next) => commands::next::next(&config, &next),
        Command::Add(add) => commands::add::add(&config, add),
        Command::Status(status) => commands::status::status(&config, &status),
        Command::Runs(runs) => commands::runs::runs(&config, &runs),
        Command::Why(why) => commands::why::why(&config, &why),
        Command::Log(log) => commands::log::log(&config, &log),
        Command::Control(control) => commands::control(&config, control),
        Command::Reset(reset) => commands::reset::reset(&config, &reset),
        Command::Init(init) => commands::init::init(&named, &init),
        Command::Doctor(doctor) => commands::doctor::doctor(&config, &doctor),
        Command::Diff(diff) => commands::diff::diff(&config, &diff),
        Command::Rollback(rollback) => commands::rollback::rollback(&config, &rollback),
        Command::Export(export) => commands::export::export(&config, &export),
        Command::Config(command) => commands::config::config(&config, command),
        Command::Prompts(command) => commands::prompts::prompts(&config, command),
        Command::Agents(agents) => commands::agents::agents(&config, &agents),
        Command::Plugin(command) => commands::plugin::plugin(&config, command),
        Command::PluginHost(host) => Err(commands::plugin::host(&host)),
        Command::Bench(command) => commands::bench::bench(&config, command),
        Command::Completions(shell) => commands::completions::completions(&shell),
        Command::Man(man) => commands::man::man(&man),
    }
}
