//! `runs prune`

use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::run_selection::layouts;
use ralph_orchestrator_assembly::user_folders::all_states;
use ralph_orchestrator_config::parse_duration;
use ralph_orchestrator_store::{
    Disk, EndedRun, Layout, Lock, SeriesLock, ended_runs, remove_ended_runs,
};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::{bytes, count, local_minute, shorten_home};
use serde_json::{Value, json};

use super::find_workspace;

#[derive(Debug, clap::Args)]
pub(crate) struct PruneArgs {
    /// Delete those that ended longer ago, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// Keep so many of the newest of each workspace and configuration, beside the current one
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
    /// In every workspace of this user, as where no ralph.toml is here or above
    #[arg(long)]
    pub(crate) all: bool,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

fn age(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration, such as 30d or 12h".to_owned())
}

pub(crate) fn prune(file: &ConfigFile, args: &PruneArgs) -> Result<u8, CommandError> {
    if args.older_than.is_none() && args.keep.is_none() {
        return Err(CommandError::user("give --older-than, --keep, or both")
            .hinted("`--dry-run` shows what would be deleted"));
    }
    let layouts = match find_workspace(file, &args.sets, args.all)? {
        Some(context) => layouts(&context)?,
        None => all_states().into_iter().map(|state| state.layout).collect(),
    };
    let mut removed: Vec<(Layout, EndedRun)> = Vec::new();
    for layout in layouts.iter().filter(|layout| layout.root().exists()) {
        if Lock::holder(layout).is_some() || SeriesLock::holder(layout).is_some() {
            let state = shorten_home(layout.root());
            output::info(&format!("left alone, since a run is active: {state}"));
            continue;
        }
        let chosen = choose(ended_runs(layout)?, args, Timestamp::now());
        let gone = match args.dry_run {
            true => chosen,
            false => remove_ended_runs(&Disk::default(), layout, chosen)?,
        };
        removed.extend(gone.into_iter().map(|run| (layout.clone(), run)));
    }
    report(&removed, args);
    Ok(exit::OK)
}

/// Returns the runs that are to be deleted; they come newest first.
fn choose(runs: Vec<EndedRun>, args: &PruneArgs, now: Timestamp) -> Vec<EndedRun> {
    let is_old = |run: &EndedRun| match (args.older_than, run.ended) {
        (None, _) => true,
        (Some(age), Some(ended)) => u128::try_from(now.duration_since(ended).as_millis())
            .is_ok_and(|ms| ms >= age.as_millis()),
        // What has no time in its journal has no age.
        (Some(_), None) => false,
    };
    runs.into_iter().skip(args.keep.unwrap_or(0)).filter(is_old).collect()
}

fn report(removed: &[(Layout, EndedRun)], args: &PruneArgs) {
    if args.json {
        let object = |(layout, run): &(Layout, EndedRun)| {
            json!({
                "run": run.run,
                "ended": run.ended,
                "bytes": run.bytes,
                "deleted": !args.dry_run,
                "state_dir": layout.root(),
            })
        };
        return output::json(&removed.iter().map(object).collect::<Vec<Value>>());
    }
    for (_, run) in removed {
        let ended = run.ended.map_or_else(|| "-".to_owned(), local_minute);
        output::result(&format!("{}  ended {ended}  {}", run.run, bytes(run.bytes)));
    }
    let sum = removed.iter().map(|(_, run)| run.bytes).sum();
    let verb = if args.dry_run { "would be deleted" } else { "deleted" };
    output::result(&match removed.len() {
        0 => format!("nothing {}", if args.dry_run { "would be deleted" } else { "to delete" }),
        many => format!(
            "{}, {}: {verb}",
            count(u64::try_from(many).unwrap_or(u64::MAX), "run"),
            bytes(sum)
        ),
    });
}
