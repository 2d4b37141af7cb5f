//! `reset`

use std::collections::BTreeMap;
use std::path::Path;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git::locate_worktrees;
use ralph_orchestrator_assembly::orphans::end_orphans;
use ralph_orchestrator_assembly::run_selection::{layouts, list_all};
use ralph_orchestrator_driver::{OpenLane, read_ledger};
use ralph_orchestrator_engine::{is_of_other_folder, remove_scratch_dirs};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{self, self as store, Disk, Layout, WorktreeRecord};
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, question};
use ralph_orchestrator_text::{count, escape_line, len, shorten_home};

const OTHER_FOLDER: &str =
    "the runs belong to another folder that had this path, and go on where that was moved to";

#[derive(Debug, clap::Args)]
pub(crate) struct ResetArgs {
    /// Skip confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn reset(file: &ConfigFile, args: &ResetArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let layout = context.layout_to_delete()?;
    let root = shorten_home(layout.root());
    let kept = runs_of_others(&context, &layout);
    let listed = store::list_runs(&layout);
    let runs = match &listed {
        Ok(runs) if !runs.is_empty() => count(len(runs), "run"),
        Ok(_) if !layout.latch().exists() && !layout.series().exists() => {
            print(&format!("nothing to delete: this configuration has no run in {root}{kept}"));
            return Ok(exit::OK);
        }
        // What is damaged is deleted too, but may not count as a run.
        _ => "all runs".to_owned(),
    };
    let is_other = is_of_other_folder(&context.loaded, &layout);
    if is_other && (args.yes || !question::is_possible()) {
        return Err(CommandError::user(format!("{OTHER_FOLDER}: nothing was deleted")).hinted(
            "`reset` without --yes asks at a terminal; `run --restart` begins a run of this folder",
        ));
    }
    let other = if is_other { format!("{OTHER_FOLDER}. ") } else { String::new() };
    let question = format!(
        "{other}Delete {runs} of this configuration in {root}, transcripts and evidence included? This cannot \
         be undone. [y/N] "
    );
    if !args.yes && !question::is_possible() {
        return Err(CommandError::user("nothing was deleted")
            .hinted("`reset --yes` skips the confirmation"));
    }
    if !args.yes && !question::confirmed(&question)? {
        print(
            "nothing was deleted: `run` goes on with the run, `run --restart` begins another one and keeps it",
        );
        return Ok(exit::OK);
    }
    let workspace = context.loaded.configured_workspace();
    // Where it is damaged, nobody knows of them any more.
    let lanes = read_ledger(&layout).ok().flatten().unwrap_or_default().lanes;
    let worktrees = locate_worktrees(&layout, &context.state_home(), workspace);
    for note in store::reset(&Disk::default(), &layout, &end_orphans)?.notes {
        output::info(&note);
    }
    remove_scratch_dirs(&listed.unwrap_or_default());
    print(&format!(
        "deleted {runs} of this configuration in {root}; the workspace is untouched{kept}"
    ));
    name_worktrees(workspace, &worktrees);
    name_lanes(&lanes);
    Ok(exit::OK)
}

/// Names the worktrees that stay, and what removes them.
fn name_worktrees(workspace: &Path, worktrees: &[WorktreeRecord]) {
    for record in worktrees.iter().filter(|record| record.folder().exists()) {
        let folder = record.folder();
        print(&format!(
            "its worktree {} stays, on branch {}: `git -C {} worktree remove {}` removes it with all that git ignores there, \
             which `git -C {} status --ignored` lists",
            folder.display(),
            record.branch,
            quote_word(workspace),
            quote_word(&folder),
            quote_word(&folder)
        ));
    }
}

/// Names the worktrees of items that stay.
fn name_lanes(lanes: &BTreeMap<String, OpenLane>) {
    for (item, open) in lanes {
        print(&format!(
            "the work on item `{}` stays in the worktree {}, on branch {}, and its runs in `runs --all`",
            escape_line(item),
            open.lane.paths().folder.display(),
            open.lane.branch
        ));
    }
}

fn print(line: &str) {
    output::result_folded(line, 2);
}

/// Says how many runs of other configurations of the workspace are kept, if there are any.
fn runs_of_others(context: &Context, own: &Layout) -> String {
    let mut layouts = layouts(context).unwrap_or_default();
    layouts.retain(|layout| layout != own);
    match len(&list_all(&layouts).unwrap_or_default()) {
        0 => String::new(),
        number => {
            format!("; {} of other configurations kept (see `runs`)", count(number, "run"))
        }
    }
}
