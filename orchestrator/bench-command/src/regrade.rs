//! `bench regrade`

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::{JobContents, JobStore};
use ralph_orchestrator_bench::trial::TrialRecord;
use ralph_orchestrator_bench_run::error::job_error;
use ralph_orchestrator_bench_run::planning::load_tasks;
use ralph_orchestrator_bench_run::{Runner, absolute};
use ralph_orchestrator_terminal::{output, signals};
use ralph_orchestrator_text::{count, one_line};
use serde_json::json;

use super::job_error::explain;
use super::report;
use super::run::setup_of;

/// The most characters of a trial's name and of a reason.
const MAX_TEXT: usize = 160;

#[derive(Debug, clap::Args)]
pub struct RegradeArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Verify the trials of this task alone; repeat it for several
    #[arg(long = "only", value_name = "NAME")]
    tasks: Vec<String>,
    /// Print one JSON object per trial
    #[arg(long)]
    json: bool,
}

/// What became of the trials.
#[derive(Default)]
struct Tally {
    verified: u64,
    changed: u64,
    left: u64,
}

pub(crate) fn regrade(args: &RegradeArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let mut store = JobStore::open(&folder).map_err(|error| explain(error, &folder))?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    if let Some(unknown) = args
        .tasks
        .iter()
        .find(|name| !contents.plan.tasks.iter().any(|planned| planned.name == **name))
    {
        return Err(CommandError::user(format!("the job has no task {unknown:?}"))
            .hinted("`ralph-orchestrator bench report` lists its tasks"));
    }
    let setup = setup_of(store.plan())?;
    let tasks = load_tasks(&setup.loaded.config.bench)?;
    let (tally, interrupted) = block_on(async {
        let signals = signals::listen()?;
        let stop = signals.job_stop_requests();
        let runner = Runner::new(&setup, tasks, signals.switch.clone(), signals.watch_requests());
        let mut tally = Tally::default();
        for record in contents.last_records().into_values() {
            let is_meant = args.tasks.is_empty() || args.tasks.contains(&record.key.task);
            if stop.borrow().times > 0 || !is_meant || !record.can_be_regraded() {
                continue;
            }
            tally.add(&store, &runner, record, args.json).await?;
        }
        let status = signals.status.load(std::sync::atomic::Ordering::Relaxed);
        Ok((tally, (stop.borrow().times > 0).then_some(status)))
    })?;
    store.leave(true);
    drop(store);
    finish(&folder, &tally, args.json)?;
    Ok(interrupted.unwrap_or(if tally.verified > 0 { exit::OK } else { exit::LIMIT }))
}

impl Tally {
    /// Verifies the work of one trial, and says what came of it.
    async fn add(
        &mut self,
        store: &JobStore,
        runner: &Runner<'_>,
        record: &TrialRecord,
        is_json: bool,
    ) -> Result<(), CommandError> {
        let attempt = store.plan().trial_layout(store.dir(), &record.key).attempt(record.attempt);
        let before = record.reward();
        let (after, problem) = match runner.regrade(record, &attempt).await {
            Ok(regrading) => {
                store.record_regrading(record, &regrading).map_err(job_error)?;
                self.verified += 1;
                let after = record.clone().with_regrading(regrading).reward();
                self.changed += u64::from(after != before);
                (after, None)
            }
            Err(problem) => {
                self.left += 1;
                (before, Some(problem))
            }
        };
        if is_json {
            output::json(&json!({
                "agent": record.key.column.agent,
                "variant": record.key.column.variant,
                "task": record.key.task,
                "trial": record.key.trial,
                "before": before,
                "after": after,
                "problem": problem,
            }));
            return Ok(());
        }
        let name = one_line(&record.key.to_string(), MAX_TEXT);
        let reward =
            |reward: Option<f64>| reward.map_or("none".to_owned(), |value| value.to_string());
        output::result(&match problem {
            Some(problem) => format!("{name}: left as it is: {}", one_line(&problem, MAX_TEXT)),
            None if after == before => format!("{name}: reward {}, as before", reward(after)),
            None => format!("{name}: reward {}, before {}", reward(after), reward(before)),
        });
        Ok(())
    }
}

/// Writes the report anew, and says how many results changed.
fn finish(folder: &Path, tally: &Tally, is_json: bool) -> Result<(), CommandError> {
    let contents = JobContents::read(folder).map_err(|error| explain(error, folder))?;
    report::write_page(folder, &contents)?;
    if !is_json {
        let Tally { verified, changed, left } = tally;
        output::info(&format!(
            "{} verified again, {changed} changed, {left} not verified; no agent was started",
            count(*verified, "trial")
        ));
    }
    Ok(())
}
