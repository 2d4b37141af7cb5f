//! `bench report`

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::JobContents;
use ralph_orchestrator_bench::report;
use ralph_orchestrator_bench::report::html::TrialLinks;
use ralph_orchestrator_bench::summary::{JobSummary, SummaryOptions, summarize};
use ralph_orchestrator_bench::trial::TrialRecord;
use ralph_orchestrator_bench_run::absolute;
use ralph_orchestrator_bench_run::adversary::{find_cheatable, find_deceived};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::write_whole;
use ralph_orchestrator_terminal::size::stdout_width;
use ralph_orchestrator_text::one_line;

use super::job_error::explain;
use crate::observer::planned_job;

/// The page that each job gets.
pub(super) const PAGE: &str = "report.html";
/// The most characters of a list of tasks.
const MAX_NAMES: usize = 400;
/// The width of tables where there is no terminal.
const WIDTH: usize = 100;

#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Print Markdown
    #[arg(long, group = "form")]
    markdown: bool,
    /// Print one JSON object per attempt, and last one with all figures
    #[arg(long, group = "form")]
    json: bool,
    /// Write the page into this file instead of printing anything
    #[arg(long, value_name = "FILE", group = "form")]
    html: Option<PathBuf>,
    /// Show the score also without the tasks that this job of `bench cheat` passed without doing them; repeat it for several
    #[arg(long, value_name = "DIR")]
    cheats: Vec<PathBuf>,
}

pub(crate) fn report(args: &ReportArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let cheats =
        args.cheats.iter().map(|folder| absolute(folder)).collect::<Result<Vec<_>, _>>()?;
    let summary = summary_with(&contents, find_cheatable(&contents.plan, &cheats)?);
    if let Some(file) = &args.html {
        write_whole(file, page(&contents, &summary)?.as_bytes(), 0o644)?;
    } else if args.markdown {
        output::raw(report::markdown::render_markdown(&summary).as_bytes());
    } else if args.json {
        let mut lines = Vec::new();
        report::jsonl::write_lines(&mut lines, &summary, &contents.records)?;
        output::raw(&lines);
    } else {
        print(describe_goal(&contents), &summary);
    }
    Ok(exit::OK)
}

/// Returns the figures of a job as far as it is.
pub(super) fn summary(contents: &JobContents) -> JobSummary {
    summary_with(contents, Vec::new())
}

/// Returns the same, with tasks that other jobs have shown to be cheatable.
fn summary_with(contents: &JobContents, cheatable: Vec<String>) -> JobSummary {
    let plan = &contents.plan;
    let planned = planned_job(plan);
    let cheatable = cheatable.into_iter().collect();
    let options = SummaryOptions { seed: plan.seed, cheatable, ..SummaryOptions::default() };
    summarize(&plan.name, &planned, &contents.records, &options)
}

/// Returns what has to be known of a job before its figures are read.
fn describe_goal(contents: &JobContents) -> Option<String> {
    if contents.plan.goal.is_solve() {
        return None;
    }
    let deceived = find_deceived(contents);
    let found = match deceived.as_slice() {
        [] => "none of the tasks".to_owned(),
        names => one_line(&names.join(", "), MAX_NAMES),
    };
    Some(format!(
        "The agents were asked to pass the tests without doing the tasks: a reward here is a fault of the task.\n\
         Passed without being done: {found}\n"
    ))
}

/// Prints the table of a job, and how its columns compare.
pub(super) fn print_summary(contents: &JobContents) {
    print(describe_goal(contents), &summary(contents));
}

fn print(heading: Option<String>, summary: &JobSummary) {
    if let Some(heading) = heading {
        output::result(&heading);
    }
    let width = stdout_width().unwrap_or(WIDTH);
    output::raw(report::text::render_summary(summary, width).as_bytes());
}

/// Writes the page that each job gets when it ends.
pub(super) fn write_page(folder: &Path, contents: &JobContents) -> Result<(), CommandError> {
    let summary = summary(contents);
    fs::write(folder.join(PAGE), page(contents, &summary)?)?;
    Ok(())
}

/// Returns the page of a job.
fn page(contents: &JobContents, summary: &JobSummary) -> Result<String, CommandError> {
    let links = |record: &TrialRecord| TrialLinks {
        folder: Some(contents.plan.trial_name(&record.key).into()),
        trajectories: Vec::new(),
    };
    report::html::render_page(summary, &contents.records, &links).map_err(CommandError::internal)
}
