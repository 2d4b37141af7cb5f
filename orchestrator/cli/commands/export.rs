//! `export`

use std::path::PathBuf;

use ralph_orchestrator_core::store::{Disk, read_current_run};

use super::run_selection;
use crate::args::SetArgs;
use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;
use crate::render::atif;

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
    std::fs::create_dir_all(&args.folder)?;
    let last = found.state.iterations;
    for number in 1..=last {
        let next = (number < last).then(|| name(number.saturating_add(1)));
        let trajectory = atif::trajectory(&layout, &found.run, &entries, number, next)?;
        let text = serde_json::to_vec_pretty(&trajectory).map_err(CommandError::internal)?;
        let path = args.folder.join(name(number));
        Disk::default().write_atomically(&path, &text, 0o600)?;
    }
    let folder = args.folder.display();
    output::result(&format!("wrote {last} trajectories to {folder} (run {})", found.run));
    Ok(exit::OK)
}

fn name(iteration: u64) -> String {
    format!("{iteration:04}.json")
}
