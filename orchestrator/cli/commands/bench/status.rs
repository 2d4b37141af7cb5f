//! `bench status`

use std::path::PathBuf;

use ralph_orchestrator_bench::job::{JobContents, SpentMoney};
use serde_json::json;

use super::run::explain;
use crate::bench::absolute;
use crate::error::{CommandError, exit};
use crate::output;
use crate::render::text::one_line;

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Folder of the job
    #[arg(value_name = "DIR")]
    job: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn status(args: &StatusArgs) -> Result<u8, CommandError> {
    let folder = absolute(&args.job)?;
    let contents = JobContents::read(&folder).map_err(|error| explain(error, &folder))?;
    let planned = contents.plan.trials().len();
    let last = contents.last_records();
    let ended = contents.count_ended();
    let judged = last.values().filter(|record| record.is_judged()).count();
    let solved = last.values().filter(|record| record.is_solved()).count();
    let mut spent = SpentMoney::default();
    contents.ledger.iter().for_each(|entry| spent.add(entry));
    let (running, lost) =
        if contents.is_running { (contents.started.len(), 0) } else { (0, contents.started.len()) };
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
            "cost_usd": spent.total(),
            "last_change": contents.last_change(),
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
    output::result(&format!("  cost    ${:.2}", spent.total().dollars()));
    let names = contents.started.iter().map(|started| started.key.to_string());
    let state = if contents.is_running { "running" } else { "lost" };
    for name in names {
        output::result(&format!("  {state:<6}  {}", one_line(&name, 100)));
    }
    if phase == "not finished" {
        let (folder, budget) = (folder.display(), contents.plan.budgets.job);
        output::info(
            &if !contents.is_running && budget.is_some_and(|most| spent.total() >= most) {
                format!(
                    "next: the money of this job is used up; a new one with a higher bench.max_cost_usd and \
                 `--reuse {folder}` performs the rest"
                )
            } else {
                format!("next: `ralph-orchestrator bench resume {folder}`")
            },
        );
    }
    Ok(exit::OK)
}
