//! `man`

use std::path::PathBuf;

use crate::error::{CommandError, exit};
use crate::{help, output};

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages ralph-orchestrator.1, ralph-orchestrator-run.1, …; created if missing
    pub(crate) folder: PathBuf,
}

pub(crate) fn man(args: &ManArgs) -> Result<u8, CommandError> {
    let folder = &args.folder;
    let failed = |error| CommandError::user(format!("cannot write {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(help::command(), folder).map_err(failed)?;
    output::result(&format!("wrote the manual pages to {}", folder.display()));
    Ok(exit::OK)
}
