//! `export`

use std::path::PathBuf;

use ralph_orchestrator_core::store::read_current_run;
use ralph_orchestrator_core::trajectory::write_trajectories;

use super::run_selection;
use crate::args::SetArgs;
use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Folder for the ATIF v1.8 trajectories 0001.json, 0002.json, …; created if missing
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn export(file: &ConfigFile, args: &ExportArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let layout = context.layout()?;
    let mut entries = Vec::new();
    let Some(found) = read_current_run(&layout, |entry| entries.push(entry.clone()))? else {
        return Err(CommandError::user(run_selection::no_run(&context)));
    };
    let last = found.state.iterations;
    write_trajectories(&layout, &found.run, &entries, last, &args.folder)?;
    let folder = args.folder.display();
    output::result(&format!("wrote {last} trajectories to {folder} (run {})", found.run));
    Ok(exit::OK)
}
