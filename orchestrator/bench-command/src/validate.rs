//! `bench validate`

use std::collections::BTreeSet;
use std::path::PathBuf;

use ralph_orchestrator_assembly::agent_names::{NOP, ORACLE};
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::JobContents;
use ralph_orchestrator_bench::summary::BrokenTasks;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::count;
use serde_json::json;

use super::job_error::explain;
use super::{MatrixArgs, run};

#[derive(Debug, clap::Args)]
pub struct ValidateArgs {
    /// Folder of a task, or with tasks in it [default: `bench.tasks`]
    #[arg(value_name = "TASKS")]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    matrix: MatrixArgs,
    /// Folder of the job [default: a new one, named by the time, in `bench.out`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object per event on stdout
    #[arg(long)]
    json: bool,
}

/// Performs each task by `oracle` and `nop`, and names those that neither should leave as they do.
pub(crate) fn validate(file: &ConfigFile, mut args: ValidateArgs) -> Result<u8, CommandError> {
    if !args.matrix.agents.is_empty() {
        let message = "tasks are validated by `oracle` and `nop` only";
        return Err(CommandError::user(message).hinted("leave out `--agents`"));
    }
    args.matrix.agents = [ORACLE, NOP].map(str::to_owned).to_vec();
    args.matrix.tasks.append(&mut args.folders);
    let (status, folder) = run::run_controls(file, args.matrix, args.out, args.json)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let last = contents.last_records();
    let broken = BrokenTasks::from_records(last.values().copied());
    let unjudged = last.values().filter(|record| !record.is_judged());
    let unjudged: BTreeSet<&str> = unjudged.map(|record| record.key.task.as_str()).collect();
    if args.json {
        output::json(&json!({
            "event": "validated",
            "rewarding_nop": broken.rewarding_nop,
            "failing_oracle": broken.failing_oracle,
            "not_judged": unjudged,
        }));
    } else {
        broken.describe().iter().for_each(|line| output::result(line));
        if !unjudged.is_empty() {
            output::result(&format!(
                "{} could not be judged",
                count(unjudged.len() as u64, "task")
            ));
        }
    }
    let is_broken = !broken.rewarding_nop.is_empty() || !broken.failing_oracle.is_empty();
    Ok(if status == exit::OK && (is_broken || !unjudged.is_empty()) { exit::LIMIT } else { status })
}
