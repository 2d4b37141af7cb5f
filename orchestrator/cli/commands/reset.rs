//! `reset`

use std::io::{BufRead as _, IsTerminal as _};

use ralph_orchestrator_core::store;

use crate::args::SetArgs;
use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::orphans::end_orphans;
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct ResetArgs {
    /// Skip confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn reset(file: &ConfigFile, args: &ResetArgs) -> Result<u8, CommandError> {
    let layout = Context::locate_run(file, &args.sets)?.layout_to_delete()?;
    let root = layout.root().display().to_string();
    if !layout.root().exists() {
        output::result(&format!("nothing to delete: {root} does not exist"));
        return Ok(exit::OK);
    }
    if !args.yes && !confirmed(&root)? {
        return Err(CommandError::user("nothing was deleted")
            .hinted("`reset --yes` skips the confirmation"));
    }
    for note in store::reset(&layout, &end_orphans)?.notes {
        output::info(&note);
    }
    output::result(&format!("all runs in {root} are deleted; the workspace is untouched"));
    Ok(exit::OK)
}

fn confirmed(root: &str) -> Result<bool, CommandError> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    output::info_part(&format!(
        "Delete all runs in {root}, transcripts and evidence included? [y/N] "
    ));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
