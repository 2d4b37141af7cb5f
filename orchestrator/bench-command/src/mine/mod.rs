//! `bench mine`

mod log;
mod summary;
mod trials;
mod walk;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git::blocking;
use ralph_orchestrator_bench_run::mining::{IssueTexts, ProjectTests};
use ralph_orchestrator_config::{Isolation, toml_text};
use ralph_orchestrator_terminal::output_place::create_folder;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, signals};
use serde_json::json;

use crate::hidden_folder::HiddenFolder;
use log::{MiningLog, MiningSettings};
use summary::WalkSummary;
use trials::MiningTrials;
use walk::{MiningWalk, open_repository};

/// The folder in which tasks are made.
const SCRATCH: &str = ".mine";

#[derive(Debug, clap::Args)]
pub struct MineArgs {
    /// The repository; nothing in it is changed
    #[arg(value_name = "REPO")]
    repository: PathBuf,
    /// Folder in which each task gets a folder of its own
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Leave out commits from before this day, such as 2026-01-31
    #[arg(long, value_name = "DATE", value_parser = parse_day)]
    since: Option<i64>,
    /// Most tasks to make
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,
    /// Shell command that runs the tests, with {files} for those that the commit touches [default: as `init` finds it]
    #[arg(long, value_name = "COMMAND")]
    test: Option<String>,
    /// Issues, as `gh issue list --state all --json number,title,body` prints them: one that a message names is the prompt
    #[arg(long, value_name = "FILE")]
    issues: Option<PathBuf>,
    /// Network of the command that installs dependencies where `init` finds one; off does not run it
    #[arg(
        long,
        value_name = "NETWORK",
        default_value = "public",
        value_parser = ["off", "no-network", "public"]
    )]
    setup: String,
    /// What a trial sees of this machine
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(Isolation::WORDS))]
    isolation: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sets: SetArgs,
}

/// Reads a day, and returns when it begins here, in seconds since 1970.
fn parse_day(text: &str) -> Result<i64, String> {
    let day: Date = text.parse().map_err(|_| "expected a day, such as 2026-01-31".to_owned())?;
    let begin = day.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
    Ok(begin.timestamp().as_second())
}

/// Makes tasks of the commits of a repository.
pub(crate) fn mine(
    file: &ConfigFile,
    args: MineArgs,
    project: &'static dyn ProjectTests,
) -> Result<u8, CommandError> {
    let file = file.clone();
    block_on(async { blocking(move || walk_repository(&file, &args, project)).await? })
}

/// Runs on a thread of its own, as what starts git and what performs trials require.
fn walk_repository(
    file: &ConfigFile,
    args: &MineArgs,
    project: &dyn ProjectTests,
) -> Result<u8, CommandError> {
    let issues = args.issues.as_deref().map(IssueTexts::read).transpose();
    let issues = issues.map_err(|error| CommandError::user(error.to_string()))?;
    let signals = signals::listen()?;
    // From here on a signal leaves nothing half made.
    drop(signals.job_stop_requests());
    let out = create_folder(&args.out)?;
    let scratch = HiddenFolder::take(&out.join(SCRATCH))?.ok_or_else(|| {
        let message = format!("another `bench mine` makes tasks in {}", out.display());
        CommandError::user(message).hinted("wait for its end, or name another folder by `-o`")
    })?;
    let reader = open_repository(&args.repository, scratch.path(), &signals)?;
    if reader.is_shallow() {
        output::info(
            "warning: the history of this clone is cut off; `git fetch --unshallow` brings the rest",
        );
    }
    let trials = MiningTrials {
        file,
        sets: args.to_sets(),
        signals: &signals,
        has_verified: Cell::new(false),
    };
    trials.require_usable(scratch.path())?;
    let settings = MiningSettings::new(args.test.clone(), args.setup.clone());
    let log = MiningLog::open(&out, &settings)?;
    let branch = reader.branch().unwrap_or("the checked-out commit").to_owned();
    let issues = issues.unwrap_or_default();
    let walk = MiningWalk { args, project, issues, trials, out: out.clone(), scratch, log };
    let summary = walk.perform(&reader)?;
    match args.json {
        true => summary.print_json(&out),
        false => summary.print(&branch, &out),
    }
    Ok(conclude(args, &out, &summary, signals.status.load(std::sync::atomic::Ordering::Relaxed)))
}

/// Says how to continue, and returns the exit status.
fn conclude(args: &MineArgs, out: &Path, summary: &WalkSummary, interrupted: u8) -> u8 {
    if summary.is_stopped {
        output::info("stopped; the same command continues where this one ended");
        return interrupted;
    }
    if summary.count_tasks() == 0 {
        return exit::NO_TASK;
    }
    let needs_setup = summary.list_tasks().any(|task| {
        let dockerfile = out.join(task).join("environment/Dockerfile");
        fs::read_to_string(dockerfile).is_ok_and(|text| text.contains("\nRUN "))
    });
    let setup = if needs_setup { format!(" --setup={}", args.setup) } else { String::new() };
    let tasks = args.out.display();
    output::info(&format!("`bench run{setup} --tasks {tasks}` tries agents on them"));
    exit::OK
}

impl MineArgs {
    /// Returns these arguments as keys of the configuration and their values.
    fn to_sets(&self) -> Vec<(String, String)> {
        let mut sets = self.sets.sets.clone();
        let setup = [("setup", Some(&self.setup)), ("isolation", self.isolation.as_ref())];
        for (key, word) in setup {
            if let Some(word) = word {
                sets.push((format!("bench.{key}"), toml_text(&json!(word))));
            }
        }
        sets
    }
}
