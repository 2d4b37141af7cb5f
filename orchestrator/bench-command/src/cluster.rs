//! `bench submit` and `bench cancel`, and what engines of clusters say of the workers that they were asked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_bench::job::{JobContents, JobError, Submission};
use ralph_orchestrator_bench_run::absolute;
use ralph_orchestrator_bench_run::cluster::{
    self, ClusterPrograms, EngineRequest, WorkerOrder, WorkerState,
};
use ralph_orchestrator_bench_run::error::job_error;
use ralph_orchestrator_shell_text::{quote_command, quote_word};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{count, one_line};
use serde_json::{Value, json};

use super::job_error::explain;
use super::run::load_as_planned;

#[derive(Debug, clap::Args)]
pub struct SubmitArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Workers to start, beside those that there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
    /// Start nothing: print what the engine would be given
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Has the engine of a cluster start workers.
pub(crate) fn submit(args: &SubmitArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let contents = JobContents::read(&folder).map_err(|error| explain_missing(error, &folder))?;
    verify_work_is_left(&contents, &folder)?;
    let (setup, _) = load_as_planned(&contents.plan, &folder)?;
    let Some(cluster) = &setup.loaded.config.bench.cluster else {
        let message = format!(
            "{} has no [bench.cluster], which says what starts workers",
            setup.file.display()
        );
        return Err(CommandError::config(message).hinted(
            "add `[bench.cluster]` with `kind = \"slurm\"` or `kind = \"kubernetes\"`; without a cluster `bench work` is a worker",
        ));
    };
    let programs = ClusterPrograms::new(variables());
    let (name, plan) = (Submission::new_name(), &contents.plan);
    let order = WorkerOrder { job: &folder, plan, cluster, workers: args.workers, name: &name };
    let request = cluster::make_request(&order, &programs)?;
    if args.dry_run {
        return Ok(show_request(&request, args.json));
    }
    let submitted = block_on(cluster::submit(&order, request, &programs))?;
    if args.json {
        output::json(&submission_object(&submitted));
        return Ok(exit::OK);
    }
    output::result(&format!(
        "{}: {} submitted",
        describe(&submitted),
        count(u64::from(submitted.workers), "worker")
    ));
    let shown = quote_word(&folder);
    output::info(&format!(
        "next: `ralph-orchestrator bench status {shown}`; `bench cancel {shown}` ends them"
    ));
    Ok(exit::OK)
}

/// Returns what is wrong with a folder in which no job was planned.
fn explain_missing(error: JobError, folder: &Path) -> CommandError {
    let is_missing = matches!(error, JobError::NoJob { .. });
    let explained = explain(error, folder);
    if !is_missing {
        return explained;
    }
    let plan = format!("`bench run --plan-only --out {}` plans one there", quote_word(folder));
    explained.hinted(plan)
}

/// Refuses workers that would find nothing to do.
fn verify_work_is_left(contents: &JobContents, folder: &Path) -> Result<(), CommandError> {
    let planned = contents.plan.trials().len();
    if contents.count_ended() == planned {
        let planned = count(planned as u64, "trial");
        let message = format!("nothing is left to do: {planned} planned, and all have ended");
        let hint = format!("`ralph-orchestrator bench report {}`", quote_word(folder));
        return Err(CommandError::user(message).hinted(hint));
    }
    if contents.is_money_used_up(&contents.spent()) {
        let hint = format!(
            "a new job with a higher bench.max_cost_usd and `--reuse {}` performs the rest",
            quote_word(folder)
        );
        return Err(CommandError::user("the money of this job is used up").hinted(hint));
    }
    Ok(())
}

/// Prints what an engine would be given. Returns the exit status.
fn show_request(request: &EngineRequest, is_json: bool) -> u8 {
    if is_json {
        output::json(&json!({ "command": request.words, "input": request.input }));
        return exit::OK;
    }
    output::info(&format!("would run, with this as its input: {}", quote_command(&request.words)));
    output::raw(request.input.as_bytes());
    exit::OK
}

/// Ends the workers that engines were asked for.
pub(crate) fn cancel(args: &CancelArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    // Says what is wrong with a folder that is none of a job.
    JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let submissions = list_submissions(&folder);
    if submissions.is_empty() {
        let message = format!("no workers of {} were submitted", folder.display());
        let hint = "`bench submit` does; a worker that was started by hand ends at a signal";
        return Err(CommandError::user(message).hinted(hint));
    }
    let programs = ClusterPrograms::new(variables());
    let (cancelled, problems) = block_on(async {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for submission in &submissions {
            match cluster::find_states(submission, &programs).await {
                // Of one that has ended an engine may still know something, which goes with it.
                Ok(states) if cluster::may_have_workers(submission, &states) => {
                    found.push((submission, count_living(&states)));
                }
                Ok(_) => {}
                Err(error) => problems.push(error.to_string()),
            }
        }
        let known: Vec<&Submission> = found.iter().map(|(submission, _)| *submission).collect();
        cluster::cancel(&known, &programs).await.map_err(CommandError::unavailable)?;
        Ok((found, problems))
    })?;
    if args.json {
        let names: Vec<&str> = cancelled.iter().map(|(found, _)| found.name.as_str()).collect();
        output::json(&json!({ "folder": folder, "cancelled": names }));
        return Ok(exit::OK);
    }
    for (submission, living) in &cancelled {
        let workers = count(*living, "worker");
        output::result(&format!("{}: {workers} cancelled", describe(submission)));
    }
    if cancelled.is_empty() {
        output::result("no worker that was submitted is left");
    }
    output::info("trials that were interrupted are repeated by later workers");
    if problems.is_empty() {
        Ok(exit::OK)
    } else {
        Err(CommandError::unavailable(problems.join("\n")))
    }
}

/// Returns the submissions of a job, and reports what cannot be read.
fn list_submissions(folder: &Path) -> Vec<Submission> {
    let (found, damaged) = Submission::list(folder);
    for error in damaged {
        output::info(&format!("warning: {}", job_error(error).detail()));
    }
    found
}

/// What engines say of the workers of a job.
#[derive(Debug, Default)]
pub(super) struct ClusterView {
    of: Vec<(Submission, Option<Vec<WorkerState>>)>,
    /// Why an engine did not answer.
    problem: Option<String>,
}

impl ClusterView {
    /// Asks the engines that were asked for workers.
    ///
    /// # Errors
    /// No program can be run.
    pub(super) fn read(folder: &Path) -> Result<Self, CommandError> {
        let submissions = list_submissions(folder);
        if submissions.is_empty() {
            return Ok(Self::default());
        }
        let programs = ClusterPrograms::new(variables());
        block_on(async {
            let mut view = Self::default();
            for submission in submissions {
                // Who does not answer once lets people wait no second time.
                let states = match view.problem {
                    None => cluster::find_states(&submission, &programs).await,
                    Some(_) => {
                        view.of.push((submission, None));
                        continue;
                    }
                };
                let states = states.map_err(|error| view.problem = Some(error.to_string())).ok();
                view.of.push((submission, states));
            }
            Ok(view)
        })
    }

    /// Whether an engine has workers that have not ended.
    pub(super) fn has_workers(&self) -> bool {
        self.of.iter().filter_map(|(_, states)| states.as_ref()).any(|all| count_living(all) > 0)
    }

    /// Prints a line for each submission that has workers, or of which nothing is known.
    pub(super) fn print(&self) {
        for (submission, states) in &self.of {
            let what = match states {
                None => "state unknown".to_owned(),
                Some(states) if count_living(states) == 0 => continue,
                Some(states) => describe_states(states),
            };
            output::result(&format!("  cluster {}: {what}", describe(submission)));
        }
        if let Some(problem) = &self.problem {
            output::info(&format!("warning: {}", one_line(problem, 400)));
        }
    }

    /// Returns what scripts read.
    pub(super) fn objects(&self) -> Vec<Value> {
        let object = |(submission, states): &(Submission, Option<Vec<WorkerState>>)| {
            let mut object = submission_object(submission);
            let states = states.as_ref().map(|all| all.iter().map(state_object).collect());
            if let Some(object) = object.as_object_mut() {
                object.insert("states".to_owned(), states.map_or(Value::Null, Value::Array));
            }
            object
        };
        self.of.iter().map(object).collect()
    }
}

fn count_living(states: &[WorkerState]) -> u64 {
    states.iter().filter(|state| !state.has_ended).count() as u64
}

/// Returns how many workers are in each state, with the reasons of those that wait.
fn describe_states(states: &[WorkerState]) -> String {
    let mut by_state: BTreeMap<String, u64> = BTreeMap::new();
    for state in states {
        let reason = state.reason.as_ref().map(|reason| format!(" ({})", one_line(reason, 60)));
        let words = format!("{}{}", state.state.to_lowercase(), reason.unwrap_or_default());
        *by_state.entry(words).or_default() += 1;
    }
    let parts: Vec<String> =
        by_state.into_iter().map(|(state, number)| format!("{number} {state}")).collect();
    parts.join(", ")
}

fn describe(submission: &Submission) -> String {
    let Submission { engine, id, name, .. } = submission;
    let job = if id.is_empty() { name } else { id };
    format!("{engine} job {job}")
}

fn submission_object(submission: &Submission) -> Value {
    let Submission { engine, id, name, workers, time, .. } = submission;
    let id = (!id.is_empty()).then_some(id);
    json!({ "engine": engine, "id": id, "name": name, "workers": workers, "submitted": time })
}

fn state_object(state: &WorkerState) -> Value {
    let WorkerState { name, state, node, reason, .. } = state;
    json!({ "worker": name, "state": state, "node": node, "reason": reason })
}
