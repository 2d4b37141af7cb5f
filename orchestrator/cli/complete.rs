//! What a shell completes beyond commands and flags.

use std::ffi::OsStr;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::{config_sources, tasks};
use ralph_orchestrator_config as config;
use ralph_orchestrator_terminal::set_args::SetArgs;

/// The variable by which the scripts of the shells ask for candidates.
pub(crate) const VARIABLE: &str = "_RALPH_ORCHESTRATOR_COMPLETE";

/// Answers a shell that asks for candidates; returns if none does.
pub(crate) fn serve_candidates(define: fn() -> Command) {
    clap_complete::CompleteEnv::with_factory(|| hide_internal(&define())).var(VARIABLE).complete();
}

/// Returns the command line without what is for this program itself.
fn hide_internal(command: &Command) -> Command {
    let visible = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    Command::new("ralph-orchestrator")
        .args(command.get_arguments().filter(|arg| !is_built_in(arg)).cloned())
        .subcommands(visible.cloned())
}

/// Whether each command has this argument by itself.
fn is_built_in(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version")
}

/// The command with candidates for the values of its flags.
pub(crate) fn attach(command: Command) -> Command {
    let path = command.get_name().to_owned();
    command.mut_args(|arg| with_candidates(&path, arg)).mut_subcommands(attach)
}

fn with_candidates(command: &str, arg: Arg) -> Arg {
    let candidates = match (command, arg.get_id().as_str()) {
        (_, "sets") => keys,
        ("run" | "try", "agent") => agents,
        #[cfg(feature = "bench")]
        ("run" | "check", "agents") => ralph_orchestrator_bench_command::compared_agents,
        ("init", "agent") => ralph_orchestrator_init::agent_names,
        (
            "status" | "log" | "why" | "diff" | "report" | "export" | "rollback" | "receipt",
            "run",
        ) => runs,
        (_, "task" | "go") if command != "new" => tasks,
        _ => return arg,
    };
    arg.add(ArgValueCompleter::new(move |typed: &OsStr| beginning(typed, candidates())))
}

fn beginning(typed: &OsStr, candidates: Vec<String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fit = candidates.into_iter().filter(|candidate| candidate.starts_with(&*typed));
    fit.map(CompletionCandidate::new).collect()
}

/// `limits.max_cost_usd=` and all others.
fn keys() -> Vec<String> {
    config::keys().into_iter().map(|key| format!("{key}=")).collect()
}

/// The configuration of this folder, if it can be read.
fn context() -> Option<Context> {
    ConfigFile::find(None).and_then(|file| Context::load(&file, Vec::new())).ok()
}

/// The names of `[agents]`.
fn agents() -> Vec<String> {
    context().map(|context| context.loaded.config.agents.into_keys().collect()).unwrap_or_default()
}

/// The names of all tasks of this folder.
fn tasks() -> Vec<String> {
    let folder =
        ConfigFile::find(None).and_then(|file| config_sources::folder_of_tasks(&file, &[]));
    folder.and_then(|folder| tasks::list(&folder)).unwrap_or_default()
}

/// The ids of all runs that are kept.
fn runs() -> Vec<String> {
    let found =
        ConfigFile::find(None).and_then(|file| Context::find_run(&file, &SetArgs::default()));
    let layout = found.and_then(|(context, _)| context.layout()).ok();
    let folder = layout.and_then(|layout| std::fs::read_dir(layout.runs()).ok());
    let entries = folder.into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_for_a_run_has_candidates() {
        let command = crate::help::command();
        let flags = command.get_subcommands().flat_map(|inner| {
            let flags = inner.get_arguments().filter(|arg| arg.get_long() == Some("run"));
            flags.map(|arg| (inner.get_name().to_owned(), arg))
        });
        let flags: Vec<_> = flags.collect();
        assert!(flags.len() >= 5, "{flags:?}");
        for (name, flag) in flags {
            assert!(flag.get::<ArgValueCompleter>().is_some(), "{name} --run");
        }
    }
}
