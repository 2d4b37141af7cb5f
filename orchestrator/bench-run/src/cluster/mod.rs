//! Workers on the nodes of a cluster, started by the program of its engine: `sbatch` or `kubectl`. Nothing of an engine is
//! rebuilt: which worker runs where and when is its affair, and which trial a worker performs is that of the claims.

mod kubernetes;
mod programs;
mod slurm;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_bench::job::{JobPlan, Submission};
use ralph_orchestrator_config::{BenchCluster, ClusterKind};

use crate::engine_call::EngineError;
use crate::error::job_error;

pub use programs::ClusterPrograms;

/// What is to be done where it is not known what an engine has done.
const MAY_HAVE_STARTED: &str = "`bench cancel` ends the workers that it may have started";

/// Workers that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOrder<'a> {
    /// The folder of the job.
    pub job: &'a Path,
    /// Its plan.
    pub plan: &'a JobPlan,
    /// The engine.
    pub cluster: &'a BenchCluster,
    /// How many.
    pub workers: u32,
    /// The name that the engine knows them by.
    pub name: &'a str,
}

/// The call that asks an engine for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineRequest {
    /// Program and arguments.
    pub words: Vec<String>,
    /// What it reads: a script or a manifest.
    pub input: String,
}

/// What an engine says of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerState {
    /// Its name: the element of an array, or a pod.
    pub name: String,
    /// The engine's word for its state.
    pub state: String,
    /// The node that it is on.
    pub node: Option<String>,
    /// Why it is in that state.
    pub reason: Option<String>,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// Returns the call that asks for these workers.
///
/// # Errors
/// They could not work: the nodes do not see what they need.
pub fn make_request(
    order: &WorkerOrder<'_>,
    programs: &ClusterPrograms,
) -> Result<EngineRequest, CommandError> {
    match order.cluster.kind {
        Some(ClusterKind::Slurm) => slurm::make_request(order, programs),
        Some(ClusterKind::Kubernetes) => kubernetes::make_request(order),
        None => Err(CommandError::config("[bench.cluster] has no `kind`")),
    }
}

/// Asks an engine for workers, and remembers them in the folder of the job.
///
/// # Errors
/// The engine refuses them, or the folder cannot be written.
pub async fn submit(
    order: &WorkerOrder<'_>,
    request: EngineRequest,
    programs: &ClusterPrograms,
) -> Result<Submission, CommandError> {
    // What keeps it from being remembered had better be found before there is something to remember.
    Submission::make_folder(order.job).map_err(job_error)?;
    let kind = order.cluster.kind.unwrap_or(ClusterKind::Slurm);
    if kind == ClusterKind::Slurm {
        slurm::verify_size(order.workers, programs).await?;
    }
    let options = match kind {
        ClusterKind::Slurm => Vec::new(),
        ClusterKind::Kubernetes => order.cluster.kubectl_args.clone(),
    };
    let mut submission = Submission {
        name: order.name.to_owned(),
        engine: kind.word().to_owned(),
        id: String::new(),
        options,
        workers: order.workers,
        time: Timestamp::now(),
    };
    // Before the engine knows of it: whatever becomes of its answer, the workers are found by their name.
    submission.remember(order.job).map_err(job_error)?;
    let printed = match programs.call(&request.words, request.input).await {
        Ok(printed) => printed,
        Err(error @ (EngineError::Failed { .. } | EngineError::NotStarted { .. })) => {
            submission.forget(order.job).map_err(job_error)?;
            return Err(unavailable(error));
        }
        Err(error) => return Err(unavailable(error).hinted(MAY_HAVE_STARTED)),
    };
    if kind == ClusterKind::Slurm {
        let answer = slurm::read_id(&printed);
        (submission.id, submission.options) =
            answer.map_err(|error| unavailable(error).hinted(MAY_HAVE_STARTED))?;
        submission.update(order.job).map_err(job_error)?;
    }
    Ok(submission)
}

/// Returns what the engine says of the workers that it knows of a submission.
///
/// # Errors
/// Its program fails.
pub async fn find_states(
    submission: &Submission,
    programs: &ClusterPrograms,
) -> Result<Vec<WorkerState>, EngineError> {
    let words = match is_of_slurm(submission) {
        true => slurm::list_workers(submission),
        false => kubernetes::list_workers(submission),
    };
    let printed = programs.ask(&words).await?;
    let read = if is_of_slurm(submission) { slurm::read_worker } else { kubernetes::read_worker };
    Ok(printed.lines().filter_map(read).collect())
}

/// Whether an engine that says this of its workers may have some of a submission, or start some later.
#[must_use]
pub fn may_have_workers(submission: &Submission, states: &[WorkerState]) -> bool {
    // A Job is there before its pods.
    !states.is_empty() || !is_of_slurm(submission)
}

fn is_of_slurm(submission: &Submission) -> bool {
    submission.engine == ClusterKind::Slurm.word()
}

/// Ends the workers of submissions, those that run in the way that leaves no trial half recorded.
///
/// # Errors
/// An engine's program fails.
pub async fn cancel(
    submissions: &[&Submission],
    programs: &ClusterPrograms,
) -> Result<(), EngineError> {
    let (of_slurm, others): (Vec<&Submission>, Vec<&Submission>) =
        submissions.iter().partition(|found| is_of_slurm(found));
    slurm::cancel(&of_slurm, programs).await?;
    for submission in others {
        let words = kubernetes::delete_job(submission);
        programs.call(&words, String::new()).await?;
    }
    Ok(())
}

/// Returns the path of this program on the nodes.
fn find_program(cluster: &BenchCluster) -> Result<PathBuf, CommandError> {
    match &cluster.program {
        Some(program) => Ok(program.clone()),
        None => Ok(std::env::current_exe()?),
    }
}

fn unavailable(error: EngineError) -> CommandError {
    CommandError::unavailable(error)
}
