//! Slurm, from 22.05 on: an array of jobs, each of which is one worker.

use std::time::{Duration, Instant};

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_bench::job::Submission;
use ralph_orchestrator_shell_text::{quote_command, quote_word};

use super::programs::ClusterPrograms;
use super::{EngineRequest, WorkerOrder, WorkerState, find_program};
use crate::engine_call::EngineError;

/// What separates the fields of a line of `squeue`.
const SEPARATOR: char = '|';
/// How long workers have to end by themselves: trials have ten seconds.
const END_TIME: Duration = Duration::from_secs(20);
/// How often it is asked whether they have.
const END_POLL: Duration = Duration::from_millis(500);

/// Returns the call that asks for workers.
pub(super) fn make_request(
    order: &WorkerOrder<'_>,
    programs: &ClusterPrograms,
) -> Result<EngineRequest, CommandError> {
    let program = find_program(order.cluster)?;
    if !program.is_absolute() {
        let message = format!(
            "bench.cluster.program is {}, and the nodes have another search path",
            program.display()
        );
        return Err(CommandError::config(message).hinted("name the program by its absolute path"));
    }
    // In the names of files Slurm replaces what follows a per cent sign.
    let output = order.job.join("cluster").display().to_string().replace('%', "%%");
    let mut words: Vec<String> = ["sbatch", "--parsable"].map(str::to_owned).into();
    words.extend([
        format!("--job-name={}", order.name),
        format!("--array=0-{}", order.workers.saturating_sub(1)),
        format!("--output={output}/%A_%a.out"),
        // Slurm would start a second copy of a worker while the first lives on: another worker repeats its trials.
        "--no-requeue".to_owned(),
        // Nothing of this environment is stored in the files of the controller.
        "--export=NONE".to_owned(),
        // To the worker alone, and early enough for its trials to end.
        "--signal=B:TERM@60".to_owned(),
    ]);
    words.extend(order.cluster.sbatch_args.iter().cloned());
    let work: [std::ffi::OsString; 4] =
        [program.into(), "bench".into(), "work".into(), order.job.into()];
    let input = format!(
        "#!/bin/sh\nexport PATH={}\nexec {} -n \"${{SLURM_CPUS_ON_NODE:-1}}\"\n",
        quote_word(programs.search_path()),
        quote_command(&work)
    );
    Ok(EngineRequest { words, input })
}

/// Refuses more workers than an array can have, if that can be found out.
pub(super) async fn verify_size(
    workers: u32,
    programs: &ClusterPrograms,
) -> Result<(), CommandError> {
    let words = ["scontrol", "show", "config"].map(str::to_owned);
    let Ok(printed) = programs.ask(&words).await else { return Ok(()) };
    let Some(most) = read_max_array_size(&printed).filter(|most| workers > *most) else {
        return Ok(());
    };
    let message = format!(
        "{workers} workers are more than an array can have elements here: MaxArraySize is {most}"
    );
    let hint = "submit fewer, several times: all workers share the job";
    Err(CommandError::user(message).hinted(hint))
}

fn read_max_array_size(config: &str) -> Option<u32> {
    let line = config.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"))?;
    line.split_once('=')?.1.trim().parse().ok()
}

/// Reads what `sbatch --parsable` prints. Returns the id, and the options by which it is found.
pub(super) fn read_id(printed: &str) -> Result<(String, Vec<String>), EngineError> {
    // A site can have it print more before.
    let line = printed.trim().lines().next_back().unwrap_or_default();
    let (id, cluster) = line.split_once(';').map_or((line, None), |(id, name)| (id, Some(name)));
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(EngineError::Answer {
            command: "sbatch".to_owned(),
            reason: format!("expected the id of a job, found {line:?}"),
        });
    }
    Ok((id.to_owned(), cluster.map(|name| format!("--clusters={name}")).into_iter().collect()))
}

fn call(program: &str, submission: &Submission, args: &[&str]) -> Vec<String> {
    let name = format!("--name={}", submission.name);
    let mut words = vec![program.to_owned()];
    words.extend(submission.options.iter().cloned());
    // By the name: ids are given anew once a controller has lost its state.
    words.push(name);
    words.extend(args.iter().map(|arg| (*arg).to_owned()));
    words
}

/// Returns the command that lists workers, one a line.
pub(super) fn list_workers(submission: &Submission) -> Vec<String> {
    call("squeue", submission, &["--noheader", "--array", "--format=%i|%T|%N|%r"])
}

/// Reads a line of that command; none of one that is of something else.
pub(super) fn read_worker(line: &str) -> Option<WorkerState> {
    let mut fields = line.trim().splitn(4, SEPARATOR);
    let mut field = || fields.next().map(str::to_owned);
    let (name, state) = (field()?, field()?);
    let (node, reason) = (field()?, field()?);
    let node = (!node.is_empty()).then_some(node);
    let reason = (!reason.is_empty() && reason != "None").then_some(reason);
    // Those that have ended are not listed, or for a while only.
    Some(WorkerState { name, state, node, reason, has_ended: false })
}

/// Ends workers: what runs is asked first, and by itself, so that no agent is killed while its worker records how it ended.
pub(super) async fn cancel(
    submissions: &[&Submission],
    programs: &ClusterPrograms,
) -> Result<(), EngineError> {
    // Where one ends another would begin that waits.
    end_all(submissions, &["--state=PENDING"], programs).await?;
    end_all(submissions, &["--state=RUNNING", "--batch", "--signal=TERM"], programs).await?;
    if !wait_for_end(submissions, programs).await? {
        end_all(submissions, &[], programs).await?;
        if !wait_for_end(submissions, programs).await? {
            return Err(EngineError::Answer {
                command: "squeue".to_owned(),
                reason: "workers are still listed after `scancel`".to_owned(),
            });
        }
    }
    Ok(())
}

async fn end_all(
    submissions: &[&Submission],
    args: &[&str],
    programs: &ClusterPrograms,
) -> Result<(), EngineError> {
    for submission in submissions {
        programs.call(&call("scancel", submission, args), String::new()).await?;
    }
    Ok(())
}

/// Waits until no worker is left, for a time. Returns whether that is so.
async fn wait_for_end(
    submissions: &[&Submission],
    programs: &ClusterPrograms,
) -> Result<bool, EngineError> {
    let deadline = Instant::now() + END_TIME;
    for submission in submissions {
        let words = list_workers(submission);
        while !programs.ask(&words).await?.trim().is_empty() {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            tokio::time::sleep(END_POLL).await;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_is_read() {
        assert_eq!(read_id("12\n").unwrap(), ("12".to_owned(), Vec::new()));
        let clusters = vec!["--clusters=north".to_owned()];
        assert_eq!(read_id("welcome\n12;north\n").unwrap(), ("12".to_owned(), clusters));
        for wrong in ["", "Submitted batch job 12\n", ";north"] {
            assert!(read_id(wrong).unwrap_err().to_string().contains("the id of a job"), "{wrong}");
        }
        let config = "Configuration data\nMaxArraySize            = 1001\nMaxBatchRequeue = 5\n";
        assert_eq!(read_max_array_size(config), Some(1001));
        assert_eq!(read_max_array_size("MaxArraySize = many"), None);
        let running = read_worker("12_0|RUNNING|node1|None\n").unwrap();
        assert_eq!((running.name.as_str(), running.node.as_deref()), ("12_0", Some("node1")));
        assert_eq!(running.reason, None);
        let pending = read_worker("12_1|PENDING||QOS|Limit").unwrap();
        assert_eq!((pending.node, pending.reason.as_deref()), (None, Some("QOS|Limit")));
        assert_eq!(read_worker("CLUSTER: north"), None);
    }
}
