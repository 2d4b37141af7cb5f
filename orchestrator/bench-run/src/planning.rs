//! From a configuration to the plan of a job.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_bench::host::Host;
use ralph_orchestrator_bench::job::{
    Budgets, FORMAT, Goal, JobLock, JobPlan, PlannedTask, RunOptions,
};
use ralph_orchestrator_bench::task::{self, LoadError, Task};
use ralph_orchestrator_config::Bench;

use super::job_setup::JobSetup;
use super::lock;
use super::trial_config::list_columns;

/// Reads the tasks of a job.
///
/// # Errors
/// There are none, or one cannot be read.
pub fn load_tasks(bench: &Bench) -> Result<Vec<Task>, CommandError> {
    if bench.tasks.is_empty() {
        return Err(CommandError::config("no tasks are named")
            .hinted("name a folder: `--tasks DIR`, or `tasks = [\"DIR\"]` in [bench]"));
    }
    task::load(&bench.tasks).map_err(|error| explain_tasks(&error))
}

/// Returns the error of a folder without tasks, with what would be one.
fn explain_tasks(error: &LoadError) -> CommandError {
    let found = CommandError::config(error.to_string());
    match error {
        LoadError::Unreadable { .. } => found.hinted(
            "`--tasks` and `bench.tasks` name the folder of a task, or one with tasks in it",
        ),
        LoadError::NoTask { .. } | LoadError::Invalid(_) => found,
    }
}

/// Returns the plan of a new job.
///
/// # Errors
/// There is no agent of a name.
pub fn plan_job(
    setup: &JobSetup,
    tasks: &[Task],
    sets: Vec<(String, String)>,
    name: &str,
    lock: JobLock,
    goal: Goal,
) -> Result<JobPlan, CommandError> {
    let bench = &setup.loaded.config.bench;
    let configuration = setup.loaded.configuration();
    let planned = |task: &Task| PlannedTask {
        name: task.name.clone(),
        path: task.folder.clone(),
        digest: task.digest.clone(),
    };
    Ok(JobPlan {
        format: FORMAT,
        id: JobPlan::new_id(),
        name: name.to_owned(),
        created: Timestamp::now(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        configuration,
        sets,
        host: Host::this(),
        columns: list_columns(setup)?,
        tasks: tasks.iter().map(planned).collect(),
        trials: bench.trials,
        seed: bench.seed,
        budgets: budgets(bench),
        options: RunOptions {
            concurrency: bench.concurrency,
            agent_concurrency: bench.agent_concurrency.clone(),
            max_retries: bench.max_retries,
        },
        lock: Some(lock),
        goal,
    })
}

/// Returns the tasks of a plan, as they are now.
///
/// # Errors
/// A task or the configuration is not what it was when the job was planned.
pub fn load_planned(plan: &JobPlan, setup: &JobSetup) -> Result<Vec<Task>, CommandError> {
    let changed = |what: &Path| {
        CommandError::config(format!(
            "{} has changed since the job was planned, so its trials could not be compared",
            what.display()
        ))
        .hinted("restore it, or begin a new job with `bench run`")
    };
    if let Some(lock) = &plan.lock {
        let now = lock::digest_columns(setup)?;
        if let Some((column, _)) =
            lock.columns.iter().find(|(name, was)| now.get(*name) != Some(was))
        {
            let message = format!(
                "the configuration of {column}, or a file that it names, has changed since the job was planned, so its \
                 trials could not be compared"
            );
            return Err(CommandError::config(message)
                .hinted("restore it, or begin a new job with `bench run`"));
        }
    }
    let tasks = load_tasks(&setup.loaded.config.bench)?;
    for planned in &plan.tasks {
        match tasks.iter().find(|task| task.name == planned.name) {
            Some(task) if task.digest == planned.digest => {}
            _ => return Err(changed(&planned.path)),
        }
    }
    Ok(tasks)
}

/// Returns the limits on money.
pub const fn budgets(bench: &Bench) -> Budgets {
    Budgets {
        trial: bench.max_cost_per_trial_usd,
        agent: bench.max_cost_per_agent_usd,
        job: bench.max_cost_usd,
    }
}

/// Returns the folder of a new job: its name says when it began.
pub fn new_folder(out: &Path) -> PathBuf {
    let now = Timestamp::now().to_zoned(TimeZone::system());
    let name = now.strftime("%Y-%m-%d__%H-%M-%S").to_string();
    let mut folder = out.join(&name);
    let mut number = 2;
    while folder.exists() {
        folder = out.join(format!("{name}-{number}"));
        number += 1;
    }
    folder
}
