//! `watch`

use std::io::{IsTerminal as _, stdin, stdout};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::size::has_cursor;

use crate::watch::show_runs;

#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn watch(file: &ConfigFile, args: &WatchArgs) -> Result<u8, CommandError> {
    if !stdin().is_terminal() || !stdout().is_terminal() || !has_cursor() {
        let message = "`watch` needs a terminal that it can draw on, for its input and its output";
        return Err(CommandError::user(message).hinted(
            "`status` and `log --follow` print the same as lines; `serve` shows it on a page",
        ));
    }
    // Without a configuration, or a run of it, the first of the list is shown.
    let found = if file.is_missing() { None } else { Context::find_run(file, &args.sets).ok() };
    let first = found.and_then(|(context, _)| context.layout().ok());
    show_runs(first.map(|layout| layout.root().to_owned()))
}
