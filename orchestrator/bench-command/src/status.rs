//! `bench status`

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_bench::job::{
    JobContents, KnownWorker, SpentMoney, StartedTrial, WorkerIdentity,
};
use ralph_orchestrator_bench::report::format_cost;
use ralph_orchestrator_bench::trial::TrialRecord;
use ralph_orchestrator_bench_run::absolute;
use ralph_orchestrator_machine::millis;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{duration, one_line};
use serde_json::json;

use super::cluster::ClusterView;
use super::job_error::explain;

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a job has cost.
struct Cost {
    /// In US dollars, as far as it is known; none if something was spent and no part of it is known.
    dollars: Option<f64>,
    /// Attempts that began a run and whose cost is not known.
    unknown: usize,
    /// A part was computed, or is what was reserved.
    is_estimated: bool,
}

impl Cost {
    fn of(contents: &JobContents, spent: &SpentMoney) -> Self {
        let is_unknown = |record: &&TrialRecord| {
            // What was taken from another job is no cost of this one.
            record.usage.cost.is_none() && record.run.is_some() && record.reused.is_none()
        };
        let unknown = contents.records.iter().filter(is_unknown).count();
        let is_known = contents.ledger.iter().any(|entry| entry.cost_usd.is_some());
        Self {
            dollars: (is_known || unknown == 0).then(|| spent.total().dollars()),
            unknown,
            is_estimated: contents.ledger.iter().any(|entry| entry.estimated),
        }
    }
}

pub(crate) fn status(args: &StatusArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let cluster = ClusterView::read(&folder)?;
    let planned = contents.plan.trials().len();
    let last = contents.last_records();
    let ended = contents.count_ended();
    let judged = last.values().filter(|record| record.is_judged()).count();
    let solved = last.values().filter(|record| record.is_solved()).count();
    let spent = contents.spent();
    let cost = Cost::of(&contents, &spent);
    let is_performed = |started: &&StartedTrial| contents.is_performed(started);
    let running = contents.started.iter().filter(is_performed).count();
    let lost = contents.started.len().saturating_sub(running);
    if args.json {
        output::json(&json!({
            "job": contents.plan.name,
            "folder": folder,
            "is_running": contents.is_running,
            "planned": planned,
            "ended": ended,
            "judged": judged,
            "solved": solved,
            "running": running,
            "lost": lost,
            "cost_usd": cost.dollars,
            "cost_unknown": cost.unknown,
            "cost_estimated": cost.is_estimated,
            "last_change": contents.last_change(),
            "workers": living(&contents).map(worker_object).collect::<Vec<_>>(),
            "cluster": cluster.objects(),
        }));
        return Ok(exit::OK);
    }
    let phase = match (contents.is_running, ended == planned) {
        (true, _) => "running",
        (false, true) => "finished",
        (false, false) => "not finished",
    };
    output::result(&format!("{} {phase}", one_line(&contents.plan.name, 100)));
    output::result(&format!(
        "  trials  {ended} of {planned} ended, {judged} judged, {solved} solved"
    ));
    let text = format_cost(cost.dollars, cost.unknown as u64, cost.is_estimated);
    output::result(&format!("  cost    {text}"));
    print_started(&contents);
    cluster.print();
    if phase == "not finished" && !cluster.has_workers() {
        output::info(&next_step(&contents, &spent, &folder));
    }
    Ok(exit::OK)
}

/// Says how what is left of a job that nobody performs is performed.
fn next_step(contents: &JobContents, spent: &SpentMoney, folder: &Path) -> String {
    let folder = quote_word(folder);
    if contents.is_money_used_up(spent) {
        return format!(
            "next: the money of this job is used up; a new one with a higher bench.max_cost_usd and `--reuse {folder}` \
             performs the rest"
        );
    }
    // One that was only planned is meant for others to join.
    let is_begun = !contents.records.is_empty() || !contents.started.is_empty();
    let command = if is_begun { "resume" } else { "work" };
    format!("next: `ralph-orchestrator bench {command} {folder}`")
}

/// Prints each trial that has begun and not ended, and who performs it if several processes perform the job.
fn print_started(contents: &JobContents) {
    let are_several = living(contents).count() > 1;
    for started in &contents.started {
        let name = one_line(&started.key.to_string(), 100);
        let by = contents.worker_of(started).filter(|_| are_several);
        let by = by.map_or_else(String::new, |worker| format!(" (worker {})", worker.identity.id));
        let next =
            if contents.is_running { "another worker repeats it" } else { "resume repeats it" };
        output::result(&match contents.is_performed(started) {
            true => format!("  running  {name}{by}"),
            false => format!("  lost    {name}{by}; {next}"),
        });
    }
    if are_several {
        living(contents).for_each(|worker| output::result(&worker_line(worker)));
    }
}

/// The workers that perform trials, as far as that can be known at a glance.
fn living(contents: &JobContents) -> impl Iterator<Item = &KnownWorker> {
    contents.workers.iter().filter(|worker| worker.is_heard())
}

fn worker_line(worker: &KnownWorker) -> String {
    let WorkerIdentity { id, host, pid, .. } = &worker.identity;
    let age =
        worker.last_sign.and_then(|last| Timestamp::now().duration_since(last).try_into().ok());
    let heard = age.map_or_else(String::new, |age: std::time::Duration| {
        format!(", last sign of life {} ago", duration(millis(age)))
    });
    format!("  worker  {id} on {}, pid {pid}{heard}", one_line(host, 40))
}

fn worker_object(worker: &KnownWorker) -> serde_json::Value {
    let WorkerIdentity { id, host, pid, started, .. } = &worker.identity;
    json!({"id": id, "host": host, "pid": pid, "started": started, "last_sign": worker.last_sign})
}
