//! `diff`

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git::blocking;
use ralph_orchestrator_git::{Diff, FileStatus};
use ralph_orchestrator_story::diff::{compare, object};
use ralph_orchestrator_terminal::block_on::block_on;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, values};
use ralph_orchestrator_text::{count, escape, len};

use crate::git::{enter_existing, open_stored};

/// The longest patch that is printed, in bytes.
const LONGEST_PATCH: usize = 64 * 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// Iterations: one against the one before, or two; 0 is the start of the run, without a number the
    /// last iteration against the one before
    #[arg(value_name = "N", num_args = 0..=2, value_parser = values::iteration)]
    pub(crate) iterations: Vec<u64>,
    /// Print only the files, with counts of lines
    #[arg(long)]
    pub(crate) stat: bool,
    /// Compare an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn diff(file: &ConfigFile, args: &DiffArgs) -> Result<u8, CommandError> {
    let context = enter_existing(Context::with(file, &args.sets)?)?;
    let (iterations, is_stat) = (args.iterations.clone(), args.stat);
    let longest = if is_stat { 0 } else { LONGEST_PATCH };
    let (from, to, diff) = block_on(async {
        let stored = open_stored(&context, args.run.as_deref()).await?;
        Ok(blocking(move || compare(&stored, &iterations, longest)).await??)
    })?;
    if args.json {
        output::json(&object(&diff, (from, to), !is_stat));
    } else if is_stat || diff.files.is_empty() {
        print_files(&diff, from, to);
    } else {
        print_patch(&diff);
    }
    Ok(exit::OK)
}

fn print_files(diff: &Diff, from: u64, to: u64) {
    for file in &diff.files {
        let what = match file.status {
            FileStatus::Added => " (new)",
            FileStatus::Deleted => " (removed)",
            FileStatus::TypeChanged => " (another kind)",
            FileStatus::Modified => "",
        };
        let lines = file.added.zip(file.removed);
        let lines = lines.map_or_else(|| " binary".to_owned(), |(a, r)| format!(" +{a} -{r}"));
        output::result(&format!("{}{what}{lines}", file.path));
    }
    let files = count(len(&diff.files), "file");
    output::result(&format!("{files} changed from iteration {from} to iteration {to}"));
}

/// Prints the patch: as it is into a file or a pipe, escaped on a terminal.
fn print_patch(diff: &Diff) {
    if output::is_stdout_terminal() {
        output::result(escape(&String::from_utf8_lossy(&diff.patch)).trim_end());
    } else {
        output::raw(&diff.patch);
    }
    if diff.is_patch_truncated {
        output::info("warning: the patch is longer than 64 MiB; the rest is not shown");
    }
}
