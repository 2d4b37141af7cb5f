//! `report`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{block_on, run_selection};
use crate::args::SetArgs;
use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;
use crate::render::text::{bytes, len};
use crate::report::{RunReport, render_page};

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// File for the page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: PathBuf,
    /// Report on an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn report(file: &ConfigFile, args: &ReportArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let mut report = RunReport::default();
    let selected = run_selection::read(&context, args.run.as_deref(), |entry| report.add(entry))?;
    let Some(selected) = selected else {
        return Err(CommandError::user(run_selection::no_run(&context)));
    };
    let configured = context.loaded.config.run.workspace.clone();
    let page = block_on(report.finish(&selected, configured, &context.vars))?;
    let page = render_page(&page).map_err(CommandError::internal)?;
    write_whole(&args.html, page.as_bytes())?;
    let (path, size) = (args.html.display(), bytes(len(page.as_bytes())));
    output::result(&format!("wrote {path}, {size} (run {})", selected.found.run));
    Ok(exit::OK)
}

/// Writes a file whole, or not at all.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> Result<(), CommandError> {
    let failed = |error| CommandError::user(format!("cannot write {}: {error}", path.display()));
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let message =
            format!("cannot write {}: there is no folder {}", path.display(), folder.display());
        return Err(CommandError::user(message));
    }
    let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
