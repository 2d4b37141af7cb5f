//! `bench plan`

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::JobContents;
use ralph_orchestrator_bench::statistics::paired::PairedTest;
use ralph_orchestrator_bench::statistics::plan::{Plan, PlanRequest, PlannedSize, plan as compute};
use ralph_orchestrator_bench::statistics::variance::{ColumnVariance, DifferenceVariance};
use ralph_orchestrator_bench::summary::pair_rewards;
use ralph_orchestrator_bench::trial::{Column, TrialRecord};
use ralph_orchestrator_bench_run::absolute;
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::count;

use super::job_error::explain;

/// How much of the variance of rewards lies between tasks, where nothing is known: agents solve some tasks always and
/// some never.
const TASK_SHARE: f64 = 0.5;
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// Smallest difference of the scores to detect, such as 5pp
    #[arg(long, value_name = "POINTS", value_parser = parse_points)]
    detect: f64,
    /// Folder of a job whose first two columns say how rewards vary, and what a trial costs
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

/// What a plan is made from.
struct Basis {
    variance: DifferenceVariance,
    /// The test of one trial for each task.
    single_trials: PairedTest,
    tasks: u64,
    cost: Option<f64>,
    /// What is taken for true, for people.
    assumption: String,
}

pub(crate) fn plan(args: &PlanArgs) -> Result<u8, CommandError> {
    let basis = match &args.pilot {
        Some(folder) => from_pilot(folder)?,
        None => from_prior(args)?,
    };
    let request = PlanRequest {
        detect: args.detect,
        significance: args.significance,
        power: args.power,
        tasks: basis.tasks,
        max_trials: args.max_trials,
        variance: basis.variance,
        single_trials: basis.single_trials,
        cost_per_trial_usd: basis.cost,
    };
    let found = compute(&request).map_err(|error| CommandError::user(error.to_string()))?;
    if args.json {
        output::json(&found);
    } else {
        print(&found, &request, &basis.assumption);
    }
    Ok(exit::OK)
}

/// Returns the least that can be said without a job: both columns are independent of each other on each task.
fn from_prior(args: &PlanArgs) -> Result<Basis, CommandError> {
    if !(0.0..=1.0).contains(&args.prior) {
        return Err(CommandError::user("--prior: expected a share from 0 to 1"));
    }
    // Whichever of the two it is that the other column solves, it is planned for the one that is harder to see.
    let others = [args.prior - args.detect, args.prior + args.detect];
    let others = others.into_iter().filter(|share| (0.0..=1.0).contains(share));
    let other = others.min_by(|one, other| (one - 0.5).abs().total_cmp(&(other - 0.5).abs()));
    let other = other.unwrap_or(args.prior);
    let [baseline, candidate] =
        [args.prior, other].map(|share| ColumnVariance::from_prior(share, TASK_SHARE));
    Ok(Basis {
        variance: DifferenceVariance::from_independent(baseline, candidate),
        single_trials: PairedTest::McNemar,
        tasks: args.tasks,
        cost: args.cost,
        assumption: "the two columns solve tasks independently of each other; half of the variance lies between tasks \
                     (a pilot with both columns knows better, and mostly needs less)"
            .to_owned(),
    })
}

/// Returns how rewards vary in the first two columns of a job, its tasks, and what a trial costs.
fn from_pilot(folder: &std::path::Path) -> Result<Basis, CommandError> {
    let folder = absolute(folder)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let columns: Vec<&Column> = contents.plan.columns.iter().take(2).collect();
    let last: Vec<TrialRecord> = contents.last_records().into_values().cloned().collect();
    let of_pilot = last.iter().filter(|record| columns.contains(&&record.key.column));
    let mut costs = Vec::new();
    let mut rewards: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for record in of_pilot {
        if let Some(reward) = record.reward() {
            rewards.entry(&record.key.task).or_default().push(reward);
        }
        costs.extend(record.usage.cost.map(Usd::dollars));
    }
    let (variance, assumption) = match columns.as_slice() {
        [baseline, candidate] => {
            let pairs = pair_rewards((*baseline, &last), (*candidate, &last));
            let assumption = format!(
                "rewards vary, and differ, as those of {baseline} and {candidate} in the pilot"
            );
            (DifferenceVariance::from_pairs(&pairs), assumption)
        }
        _ => {
            let tasks: Vec<&Vec<f64>> = rewards.values().collect();
            let column = ColumnVariance::from_rewards(&tasks);
            let assumption = "rewards vary as in the pilot, and the two columns solve tasks independently of each other \
                              (a pilot with both columns knows better, and mostly needs less)";
            (
                column.map(|column| DifferenceVariance::from_independent(column, column)),
                assumption.to_owned(),
            )
        }
    };
    let variance = variance.ok_or_else(|| {
        CommandError::user("the job is too small for a pilot").hinted(
            "it needs two tasks with judged trials, of each column two trials of one task; or give `--prior SHARE`",
        )
    })?;
    let is_binary = rewards.values().flatten().all(|reward| *reward == 0.0 || *reward == 1.0);
    let number = u32::try_from(costs.len()).unwrap_or(u32::MAX);
    Ok(Basis {
        variance,
        single_trials: if is_binary { PairedTest::McNemar } else { PairedTest::PairedT },
        tasks: rewards.len() as u64,
        cost: (number > 0).then(|| costs.iter().sum::<f64>() / f64::from(number)),
        assumption,
    })
}

fn print(plan: &Plan, request: &PlanRequest, assumption: &str) {
    let points = |share: f64| format!("{:.1} points", share * 100.0);
    output::result(&format!(
        "to detect a difference of {} with a probability of {:.0} % (two-sided, {:.0} % significance):",
        points(request.detect),
        request.power * 100.0,
        request.significance * 100.0
    ));
    let tasks = count(request.tasks, "task");
    let trials = count(u64::from(request.max_trials), "trial");
    match (&plan.with_these_tasks, plan.smallest_detectable) {
        (Some(size), _) => output::result(&format!("  {}", describe(size))),
        (None, Some(smallest)) => output::result(&format!(
            "  {tasks} are not enough: even {trials} of each on each task detect no less than {}",
            points(smallest)
        )),
        (None, None) => output::result(&format!(
            "  {tasks} are not enough: with {trials} of each on each task no difference is significant"
        )),
    }
    if !plan.with_more_tasks.is_empty() {
        output::result("with another number of tasks:");
    }
    for size in &plan.with_more_tasks {
        output::result(&format!("  {}", describe(size)));
    }
    output::result(&format!("assumed: {assumption}"));
    if let Some(share) = plan.discordant_share {
        output::result(&format!(
            "single trials differ on {:.0} % of the tasks then; their test is McNemar's, exact, as in `bench compare`",
            share * 100.0
        ));
    }
}

fn describe(size: &PlannedSize) -> String {
    let cost = size.cost_usd.map(|cost| format!(", about ${cost:.2}")).unwrap_or_default();
    format!(
        "{} × {} each for both columns: {}{cost} ({:.0} %, {})",
        count(size.tasks, "task"),
        count(u64::from(size.trials_per_task), "trial"),
        count(size.trials, "trial"),
        size.power * 100.0,
        size.test.name()
    )
}
