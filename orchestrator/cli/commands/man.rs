//! `man`

use std::fs;
use std::path::PathBuf;

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::{create_folder, write_whole};

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages ralph-orchestrator.1, ralph-orchestrator-run.1, …; created if missing
    pub(crate) folder: PathBuf,
}

/// Writes the manual pages of this command line.
pub(crate) fn man(args: &ManArgs, command: clap::Command) -> Result<u8, CommandError> {
    let folder = &args.folder;
    let failed = |error| CommandError::user(format!("cannot write {}: {error}", folder.display()));
    create_folder(folder)?;
    let drafts = tempfile::tempdir().map_err(failed)?;
    clap_mangen::generate_to(command, drafts.path()).map_err(failed)?;
    for draft in fs::read_dir(drafts.path()).map_err(failed)? {
        let draft = draft.map_err(failed)?;
        let page = fs::read(draft.path()).map_err(failed)?;
        write_whole(&folder.join(draft.file_name()), &page, 0o644)?;
    }
    output::result(&format!("wrote the manual pages to {}", folder.display()));
    Ok(exit::OK)
}
