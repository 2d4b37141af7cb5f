//! `bench plan`

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::JobContents;
use ralph_orchestrator_bench::statistics::plan::{Plan, PlanRequest, PlannedSize, plan as compute};
use ralph_orchestrator_bench::statistics::variance::{ColumnVariance, DifferenceVariance};
use ralph_orchestrator_bench_run::absolute;
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::count;

use super::job_error::explain;

/// How much of the variance of rewards lies between tasks, where nothing is known: agents solve some tasks always and
/// some never.
const TASK_SHARE: f64 = 0.5;
/// How alike tasks are to both columns, where nothing is known.
const CORRELATION: f64 = 0.5;

#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// Smallest difference of the scores to detect, such as 5pp
    #[arg(long, value_name = "POINTS", value_parser = parse_points)]
    detect: f64,
    /// Folder of a job whose first column says how rewards vary, and what a trial costs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["prior", "cost", "tasks"])]
    pilot: Option<PathBuf>,
    /// Share of the trials that you expect to be solved, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    prior: f64,
    /// Tasks that there are
    #[arg(long, value_name = "N", default_value_t = 50)]
    tasks: u64,
    /// Dollars that a trial costs
    #[arg(long, value_name = "USD")]
    cost: Option<f64>,
    /// Probability to detect the difference if it is there
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    power: f64,
    /// Probability to see a difference where there is none
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    significance: f64,
    /// Most trials of each column on each task
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_trials: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads percentage points, such as `5pp`, or a share, such as `0.05`.
fn parse_points(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, scale) = match text.strip_suffix("pp") {
        Some(points) => (points, 100.0),
        None => (text, 1.0),
    };
    let value: f64 = number.trim().parse().map_err(|_| {
        "expected percentage points such as 5pp, or a share such as 0.05".to_owned()
    })?;
    let share = value / scale;
    // A bare 1 is meant as a point by most who type it.
    if share > 0.0 && (share < 1.0 || (share == 1.0 && scale > 1.0)) {
        return Ok(share);
    }
    Err("expected more than 0pp and at most 100pp, or a share below 1 such as 0.05".to_owned())
}

pub(crate) fn plan(args: &PlanArgs) -> Result<u8, CommandError> {
    let (variance, tasks, cost) = match &args.pilot {
        Some(folder) => from_pilot(folder)?,
        None => {
            if !(0.0..=1.0).contains(&args.prior) {
                return Err(CommandError::user("--prior: expected a share from 0 to 1"));
            }
            let column = ColumnVariance::from_prior(args.prior, TASK_SHARE);
            (DifferenceVariance::from_column(column, CORRELATION), args.tasks, args.cost)
        }
    };
    let request = PlanRequest {
        detect: args.detect,
        significance: args.significance,
        power: args.power,
        tasks,
        max_trials: args.max_trials,
        variance,
        cost_per_trial_usd: cost,
    };
    let found = compute(&request).map_err(|error| CommandError::user(error.to_string()))?;
    if args.json {
        output::json(&found);
    } else {
        print(&found, &request);
    }
    Ok(exit::OK)
}

/// Returns how rewards vary in the first column of a job, its tasks, and what a trial costs.
fn from_pilot(
    folder: &std::path::Path,
) -> Result<(DifferenceVariance, u64, Option<f64>), CommandError> {
    let folder = absolute(folder)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let column = contents.plan.columns.first();
    let last = contents.last_records();
    let mut rewards: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut costs = Vec::new();
    for record in last.values().filter(|record| Some(&record.key.column) == column) {
        if let Some(reward) = record.reward() {
            rewards.entry(&record.key.task).or_default().push(reward);
        }
        costs.extend(record.usage.cost.map(Usd::dollars));
    }
    let tasks = rewards.len() as u64;
    let rewards: Vec<Vec<f64>> = rewards.into_values().collect();
    let variance = ColumnVariance::from_rewards(&rewards).ok_or_else(|| {
        CommandError::user("the job is too small for a pilot").hinted(
            "it needs two tasks with judged trials, and two trials of one task; or give `--prior SHARE`",
        )
    })?;
    let number = u32::try_from(costs.len()).unwrap_or(u32::MAX);
    let cost = (number > 0).then(|| costs.iter().sum::<f64>() / f64::from(number));
    Ok((DifferenceVariance::from_column(variance, CORRELATION), tasks, cost))
}

fn print(plan: &Plan, request: &PlanRequest) {
    let points = |share: f64| format!("{:.1} points", share * 100.0);
    output::result(&format!(
        "to detect a difference of {} with a probability of {:.0} % (two-sided, {:.0} % significance):",
        points(request.detect),
        request.power * 100.0,
        request.significance * 100.0
    ));
    match &plan.with_these_tasks {
        Some(size) => output::result(&format!("  {}", describe(size))),
        None => output::result(&format!(
            "  {} are not enough: even {} of each on each task detect no less than {}",
            count(request.tasks, "task"),
            count(u64::from(request.max_trials), "trial"),
            points(plan.smallest_detectable)
        )),
    }
    if !plan.with_more_tasks.is_empty() {
        output::result("with another number of tasks:");
    }
    for size in &plan.with_more_tasks {
        output::result(&format!("  {}", describe(size)));
    }
}

fn describe(size: &PlannedSize) -> String {
    let cost = size.cost_usd.map(|cost| format!(", about ${cost:.2}")).unwrap_or_default();
    format!(
        "{} × {} each for both columns: {}{cost}",
        count(size.tasks, "task"),
        count(u64::from(size.trials_per_task), "trial"),
        count(size.trials, "trial")
    )
}
