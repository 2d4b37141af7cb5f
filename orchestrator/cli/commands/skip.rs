//! `skip` and `retry`

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit, explain};
use ralph_orchestrator_assembly::{backlog_view, git};
use ralph_orchestrator_driver::{Decision, DecisionOutcome, DriverError, decide_item};
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::one_line;
use serde_json::json;

// A documentation comment would take the place of the commands' own help.
#[derive(Debug, clap::Args)]
pub(crate) struct ItemArgs {
    /// The item's id: see `next --explain`
    pub(crate) item: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn skip(file: &ConfigFile, args: &ItemArgs) -> Result<u8, CommandError> {
    decide(file, args, Decision::Skip)
}

pub(crate) fn retry(file: &ConfigFile, args: &ItemArgs) -> Result<u8, CommandError> {
    decide(file, args, Decision::Retry)
}

fn decide(file: &ConfigFile, args: &ItemArgs, decision: Decision) -> Result<u8, CommandError> {
    let context = git::enter_existing(Context::with(file, &args.sets)?)?;
    if context.vars.contains_key("RALPH_RUN_ID") {
        return Err(CommandError::user(
            "an agent cannot decide which items of the backlog are worked on",
        )
        .hinted("write a note that proposes it"));
    }
    let list = block_on(backlog_view::require(&context))?;
    let decided = decide_item(&*list, &Disk::default(), &context.layout()?, (&args.item, decision));
    let decided = decided.map_err(|error| match error {
        DriverError::Backlog(error) => explain(error, &context.loaded),
        error => error.into(),
    })?;
    if args.json {
        let (is_queued, left_out) = match &decided {
            DecisionOutcome::Holds { left_out } => (false, left_out.as_slice()),
            DecisionOutcome::Queued => (true, [].as_slice()),
        };
        output::json(&json!({"item": args.item, "queued": is_queued, "left_out": left_out}));
        return Ok(exit::OK);
    }
    let item = one_line(&args.item, 80);
    output::result(&match (decided, decision) {
        (DecisionOutcome::Queued, _) => format!(
            "queued: {item}; it holds when the iteration has ended, or from the next `run` if that was killed"
        ),
        (DecisionOutcome::Holds { left_out }, Decision::Skip) if left_out.is_empty() => {
            format!("skipped {item}: `run` goes on without it, `retry` takes that back")
        }
        (DecisionOutcome::Holds { left_out }, Decision::Skip) => format!(
            "skipped {item}, and what depends on it: {}; `run` goes on without them, `retry` takes that back",
            one_line(&left_out.join(", "), 400)
        ),
        (DecisionOutcome::Holds { .. }, Decision::Retry) => {
            format!("{item} is open again: `run` works on it when its turn comes")
        }
    });
    Ok(exit::OK)
}
