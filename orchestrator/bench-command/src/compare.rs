//! `bench compare`

use std::path::PathBuf;

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::JobContents;
use ralph_orchestrator_bench::report;
use ralph_orchestrator_bench::summary::{SummaryOptions, compare as compare_columns};
use ralph_orchestrator_bench::trial::Column;
use ralph_orchestrator_bench_run::absolute;
use ralph_orchestrator_terminal::output;

use super::job_error::explain;

#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Column to compare with, such as claude, or claude+notes for a variant
    #[arg(value_name = "BASELINE")]
    baseline: String,
    /// Column that is compared with it
    #[arg(value_name = "CANDIDATE")]
    candidate: String,
    /// Folder of another job, in which the candidate is
    #[arg(long, value_name = "DIR")]
    with: Option<PathBuf>,
    /// Probability of a difference by chance below which the candidate counts as worse
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = parse_probability)]
    significance: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads a probability that is neither 0 nor 1.
fn parse_probability(text: &str) -> Result<f64, String> {
    let value = text.trim().parse().ok().filter(|value| *value > 0.0 && *value < 1.0);
    value.ok_or_else(|| "expected a probability between 0 and 1, such as 0.05".to_owned())
}

pub(crate) fn compare(args: &CompareArgs) -> Result<u8, CommandError> {
    let read = |folder: &PathBuf| -> Result<JobContents, CommandError> {
        let folder = absolute(folder)?;
        JobContents::read(&folder).map_err(|error| explain(error, &folder))
    };
    let job = read(&args.job)?;
    let other = args.with.as_ref().map(read).transpose()?;
    let candidates = other.as_ref().unwrap_or(&job);
    if other.as_ref().is_some_and(|other| has_taken(other, &job) || has_taken(&job, other)) {
        output::info(
            "warning: trials of one of these jobs were taken from the other with `--reuse`: they are compared with \
             themselves, and the interval is too narrow",
        );
    }
    let baseline = find(&job, &args.baseline)?;
    let candidate = find(candidates, &args.candidate)?;
    let level = SummaryOptions::default().level;
    let found = compare_columns((baseline, &job.records), (candidate, &candidates.records), level);
    let is_worse = found.is_regression(args.significance);
    if found.tasks == 0 {
        // Nothing was compared, so nothing is proved: a script must not take that for a result.
        if args.json {
            output::json(&found);
        }
        return Err(CommandError::user(report::describe_comparison(&found, level)).hinted(
            "a task is compared where both columns have a judged trial of it, and its files are the same; \
             `ralph-orchestrator bench report DIR` shows the tasks of a job",
        ));
    }
    if args.json {
        output::json(&found);
    } else {
        output::result(&report::describe_comparison(&found, level));
        if is_worse {
            output::info("the candidate is significantly worse");
        }
    }
    Ok(if is_worse { exit::LIMIT } else { exit::OK })
}

/// Whether a job has taken results of trials from another one.
fn has_taken(job: &JobContents, from: &JobContents) -> bool {
    let sources = job.records.iter().filter_map(|record| record.reused.as_ref());
    sources.into_iter().any(|source| source.job == from.plan.id)
}

/// Returns the column of this name.
fn find<'a>(job: &'a JobContents, name: &str) -> Result<&'a Column, CommandError> {
    let found = job.plan.columns.iter().find(|column| column.to_string() == name);
    found.ok_or_else(|| {
        let names: Vec<String> = job.plan.columns.iter().map(Column::to_string).collect();
        CommandError::user(format!("the job {} has no column {name:?}", job.plan.name))
            .hinted(format!("it has {}", names.join(", ")))
    })
}
