//! `report`

use std::path::PathBuf;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::run_selection;
use ralph_orchestrator_terminal::block_on::block_on;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::write_whole;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::{bytes, len};

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
    let page = block_on(report.finish(&selected, &context))?;
    let page = render_page(&page).map_err(CommandError::internal)?;
    write_whole(&args.html, page.as_bytes(), 0o600)?;
    let (path, size) = (args.html.display(), bytes(len(page.as_bytes())));
    output::result(&format!("wrote {path}, {size} (run {})", selected.found.run));
    Ok(exit::OK)
}
