//! `bench report`

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_bench::job::JobContents;
use ralph_orchestrator_bench::report;
use ralph_orchestrator_bench::report::html::TrialLinks;
use ralph_orchestrator_bench::summary::{JobSummary, SummaryOptions, summarize};
use ralph_orchestrator_bench::trial::TrialRecord;

use super::run::explain;
use crate::bench::absolute;
use crate::bench::observer::planned_job;
use crate::error::{CommandError, exit};
use crate::output;
use crate::render::terminal::stdout_width;

/// The page that each job gets.
pub(super) const PAGE: &str = "report.html";
/// The width of tables where there is no terminal.
const WIDTH: usize = 100;

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
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
}

pub(crate) fn report(args: &ReportArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let summary = summary(&contents);
    if let Some(file) = &args.html {
        fs::write(file, page(&contents, &summary)?).map_err(|error| {
            CommandError::user(format!("cannot write {}: {error}", file.display()))
        })?;
    } else if args.markdown {
        output::raw(report::markdown::render_markdown(&summary).as_bytes());
    } else if args.json {
        let mut lines = Vec::new();
        report::jsonl::write_lines(&mut lines, &summary, &contents.records)?;
        output::raw(&lines);
    } else {
        print_summary(&contents);
    }
    Ok(exit::OK)
}

/// Returns the figures of a job as far as it is.
pub(super) fn summary(contents: &JobContents) -> JobSummary {
    let plan = &contents.plan;
    let planned = planned_job(plan);
    let options = SummaryOptions { seed: plan.seed, ..SummaryOptions::default() };
    summarize(&plan.name, &planned, &contents.records, &options)
}

/// Prints the table of a job, and how its columns compare.
pub(super) fn print_summary(contents: &JobContents) {
    let summary = summary(contents);
    let width = stdout_width().unwrap_or(WIDTH);
    output::raw(report::text::render_summary(&summary, width).as_bytes());
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
