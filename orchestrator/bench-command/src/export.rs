//! `bench export`

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::{JobContents, PlannedTask};
use ralph_orchestrator_bench::report::harbor::{
    ColumnFacts, JobFacts, TaskFacts, TrialFile, TrialFiles, TrialFolder, write_job,
};
use ralph_orchestrator_bench::task::sha256_of;
use ralph_orchestrator_bench::trial::TrialRecord;
use ralph_orchestrator_bench_run::isolation::IsolationRow;
use ralph_orchestrator_bench_run::trial_config::agent_key;
use ralph_orchestrator_bench_run::{JobSetup, absolute};
use ralph_orchestrator_store::{Layout, read_current_run};
use ralph_orchestrator_story::trajectory::write_trajectories;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::create_folder;

use super::job_error::explain;
use super::report::summary;
use super::run::setup_of;

/// Files of an attempt that become part of an exported trial.
const LOGS: [(&str, TrialFolder); 2] =
    [("logs/verifier", TrialFolder::Verifier), ("logs/agent", TrialFolder::Agent)];

#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Folder in which the job gets a folder of its own, in Harbor's form
    #[arg(value_name = "OUT")]
    out: PathBuf,
}

pub(crate) fn export(args: &ExportArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let setup = setup_of(&contents.plan)?;
    let facts = facts(&contents, &setup);
    let scratch = folder.join("trajectories");
    let files = |record: &TrialRecord| {
        let layout = contents.plan.trial_layout(&folder, &record.key);
        let attempt = layout.attempt(record.attempt);
        let name = contents.plan.trial_name(&record.key);
        find_files(&attempt, &scratch.join(name))
    };
    let out = create_folder(&args.out)?;
    let written = write_job(&out, &facts, &summary(&contents), &contents.records, &files)
        .map_err(|error| CommandError::user(error.to_string()))?;
    drop(fs::remove_dir_all(&scratch));
    output::result(&written.display().to_string());
    Ok(exit::OK)
}

fn facts(contents: &JobContents, setup: &JobSetup) -> JobFacts {
    let plan = &contents.plan;
    let is_whole = contents.last_records().len() == plan.trials().len();
    let column = |column: &ralph_orchestrator_bench::trial::Column| {
        let config = &setup.loaded.config;
        let agent = match agent_key(&column.agent) {
            Some(name) => config.agents.get(&name),
            None => Some(&config.agent),
        };
        ColumnFacts {
            column: column.clone(),
            adapter: agent.map_or_else(|| column.agent.clone(), |agent| agent.adapter.clone()),
            model: None,
            provider: None,
            version: None,
        }
    };
    let task = |task: &PlannedTask| TaskFacts {
        name: task.name.clone(),
        path: task.path.clone(),
        sha256: sha256_of(&task.digest),
    };
    let isolation = setup.loaded.config.bench.isolation;
    JobFacts {
        id: plan.id.parse().unwrap_or_default(),
        name: plan.name.clone(),
        started: plan.created,
        finished: contents.last_change().filter(|_| is_whole),
        dataset: plan.name.clone(),
        seed: plan.seed,
        orchestrator_version: plan.program.clone(),
        isolation: isolation.word().to_owned(),
        harbor_type: IsolationRow::of(isolation).harbor_type.map(str::to_owned),
        trials_per_task: plan.trials,
        concurrency: plan.options.concurrency,
        max_retries: plan.options.max_retries,
        columns: plan.columns.iter().map(column).collect(),
        tasks: plan.tasks.iter().map(task).collect(),
    }
}

/// Returns the logs of an attempt, and the trajectories of its run, which are written first.
fn find_files(attempt: &Path, scratch: &Path) -> TrialFiles {
    let mut found = TrialFiles::default();
    for (name, folder) in LOGS {
        list(&attempt.join(name), folder, &mut found.files);
    }
    // What cannot be read of a run is missing in the export only.
    if write_run(&Layout::new(attempt.join("state")), scratch).is_ok() {
        list(scratch, TrialFolder::Agent, &mut found.files);
    }
    found
}

fn write_run(layout: &Layout, scratch: &Path) -> Result<(), ralph_orchestrator_store::StateError> {
    let mut entries = Vec::new();
    let Some(run) = read_current_run(layout, |entry| entries.push(entry.clone()))? else {
        return Ok(());
    };
    write_trajectories(layout, &run.run, &entries, run.state.iterations, scratch)
}

/// Adds the regular files directly in a folder.
fn list(folder: &Path, kind: TrialFolder, files: &mut Vec<TrialFile>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            files.push(TrialFile {
                folder: kind,
                name: entry.file_name().into(),
                source: entry.path(),
            });
        }
    }
}
