//! Verifies a task in the making: twice without any work, twice with that of its commit.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ralph_orchestrator_assembly::agent_names::{NOP, ORACLE};
use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_bench::job::{
    Goal, JobContents, JobObserver, JobProgress, JobStore, Schedule, TrialOrder, run_job,
};
use ralph_orchestrator_bench::task::Task;
use ralph_orchestrator_bench::trial::{TrialKey, TrialRecord};
use ralph_orchestrator_bench_run::error::job_error;
use ralph_orchestrator_bench_run::isolation::IsolationRow;
use ralph_orchestrator_bench_run::mining::{DropReason, judge_trials};
use ralph_orchestrator_bench_run::planning::{load_tasks, plan_job};
use ralph_orchestrator_bench_run::{JobSetup, Runner, lock};
use ralph_orchestrator_config::toml_text;
use ralph_orchestrator_terminal::signals::Signals;
use ralph_orchestrator_text::plain_line;
use serde_json::json;

use crate::job_error::explain;
use crate::observer::JobStop;
use crate::{check, load_setup};

/// Trials of each of the two.
const TRIALS: u32 = 2;
/// Characters of the last line of tests.
const LONGEST_LINE: usize = 200;

/// What all trials of a walk have in common.
pub(super) struct MiningTrials<'a> {
    pub(super) file: &'a ConfigFile,
    /// Keys of the configuration, and their values.
    pub(super) sets: Vec<(String, String)>,
    pub(super) signals: &'a Signals,
    /// Whether trials of a task were begun.
    pub(super) has_verified: Cell<bool>,
}

/// A job that prints nothing.
struct SilentJob;

impl JobObserver for SilentJob {
    fn trial_started(&self, _: &TrialOrder, _: JobProgress) {}
    fn trial_ended(&self, _: &TrialRecord, _: bool, _: JobProgress) {}
    fn trial_superseded(&self, _: &TrialRecord) {}
    fn waits_for_others(&self) {}
    fn is_decided(&self, _: &BTreeMap<TrialKey, Option<f64>>) -> bool {
        false
    }
}

impl MiningTrials<'_> {
    /// Reads the configuration for the task in a folder.
    fn load(&self, task: &Path) -> Result<(JobSetup, Vec<(String, String)>), CommandError> {
        let mut sets = self.sets.clone();
        for (key, value) in
            [("agents", json!([ORACLE, NOP])), ("tasks", json!([task])), ("trials", json!(TRIALS))]
        {
            sets.push((format!("bench.{key}"), toml_text(&value)));
        }
        Ok((load_setup(self.file, &sets)?, sets))
    }

    /// Refuses a configuration by which nothing could be verified.
    ///
    /// # Errors
    /// It is wrong, or wants containers.
    pub(super) fn require_usable(&self, folder: &Path) -> Result<(), CommandError> {
        let (setup, _) = self.load(folder)?;
        let isolation = setup.loaded.config.bench.isolation;
        if !IsolationRow::of(isolation).has_root() || IsolationRow::of(isolation).is_container() {
            let message = format!(
                "`{}` cannot verify mined tasks: they are in /app, with the programs of this machine",
                isolation.word()
            );
            return Err(
                CommandError::config(message).hinted("`--isolation namespace` or `bubblewrap` can")
            );
        }
        Ok(())
    }

    /// Performs the trials in a folder of its own. Returns why the task is none; nothing if it is one, or a stop was requested.
    ///
    /// # Errors
    /// The job cannot be performed, or trials do not see a program that the very first tests need.
    pub(super) fn verify(
        &self,
        task: &Path,
        folder: &Path,
    ) -> Result<Option<DropReason>, CommandError> {
        let (setup, sets) = self.load(task)?;
        // What cannot be read as a task, such as one with a link that leads outside, is no error of the user's.
        let tasks = match load_tasks(&setup.loaded.config.bench) {
            Ok(tasks) => tasks,
            Err(error) => return Ok(Some(DropReason::Refused(error.summary()))),
        };
        let problems = block_on(check::find_problems(&setup, &tasks))?;
        if let Some(refusal) = problems.refusals.first() {
            return Ok(Some(DropReason::Refused(refusal.reason.clone())));
        }
        if problems.lacks_programs() {
            let warnings = problems.warnings.join("; ");
            // It would be the same of all others.
            return match self.has_verified.get() {
                true => Ok(Some(DropReason::Refused(warnings))),
                false => Err(CommandError::unavailable(warnings)),
            };
        }
        self.has_verified.set(true);
        self.perform(&setup, tasks, sets, folder)
    }

    fn perform(
        &self,
        setup: &JobSetup,
        tasks: Vec<Task>,
        sets: Vec<(String, String)>,
        folder: &Path,
    ) -> Result<Option<DropReason>, CommandError> {
        let lock = block_on(lock::compute(setup, &tasks))?;
        let mut plan = plan_job(setup, &tasks, sets, "mine", lock, Goal::Solve)?;
        plan.columns.retain(|column| column.variant.is_none());
        let mut store = JobStore::create(folder, plan).map_err(|error| explain(error, folder))?;
        block_on(async {
            let (switch, requests) = (self.signals.switch.clone(), self.signals.watch_requests());
            let runner = Runner::new(setup, tasks, switch, requests.clone());
            let stop = JobStop { requests, deadline: None };
            let schedule = Schedule::resume(&mut store, &runner, &[]).await.map_err(job_error)?;
            run_job(&mut store, schedule, &runner, &SilentJob, &stop).await.map_err(job_error)?;
            Ok(())
        })?;
        let contents = JobContents::read(folder).map_err(|error| explain(error, folder))?;
        let records: Vec<&TrialRecord> = contents.last_records().into_values().collect();
        Ok(judge_trials(&records, &|record| read_last_line(&contents, folder, record)))
    }
}

/// Returns the last that the tests said in a trial.
fn read_last_line(contents: &JobContents, folder: &Path, record: &TrialRecord) -> String {
    let attempt = contents.plan.trial_layout(folder, &record.key).attempt(record.attempt);
    let output = fs::read(attempt.join("logs/verifier/test-stdout.txt")).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    plain_line(last.unwrap_or("they said nothing"), LONGEST_LINE)
}
