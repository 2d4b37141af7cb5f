//! `next`

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::{backlog_view, context, git};
use ralph_orchestrator_backlog::{BacklogSnapshot, NextItem, PlacementReason};
use ralph_orchestrator_driver::{describe_unread, read_ledger};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::one_line;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct NextArgs {
    /// Show every item's place in the order, and the reason
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

/// Says that there are no items yet.
fn initializer_is_next(context: &Context, json: bool) -> u8 {
    if json {
        let path = context.loaded.config.backlog.as_ref().and_then(|backlog| backlog.path.as_ref());
        output::json(&json!({"next": "initializer", "path": path}));
    } else {
        output::result(&backlog_view::to_be_made(&context.loaded));
    }
    exit::OK
}

pub(crate) fn next(file: &ConfigFile, args: &NextArgs) -> Result<u8, CommandError> {
    let context = git::enter_existing(Context::with(file, &args.sets)?)?;
    let list = block_on(backlog_view::require(&context))?;
    if backlog_view::is_to_be_made(&*list, &context)? {
        return Ok(initializer_is_next(&context, args.json));
    }
    let snapshot = backlog_view::read_counted(&*list, &context)?;
    let next = snapshot.select_next();
    // Nobody knows whether what could not be read is done.
    let unread = describe_unread(list.path(), &snapshot).filter(|_| next == NextItem::Complete);
    let code = match &next {
        NextItem::Complete if unread.is_some() => exit::HUMAN,
        NextItem::Item { .. } | NextItem::Complete => exit::OK,
        NextItem::Blocked { .. } | NextItem::Empty => exit::HUMAN,
    };
    if args.json {
        output::json(&object(&snapshot, &next, unread.is_some(), args.explain)?);
        return Ok(code);
    }
    match &next {
        NextItem::Item { item } => {
            output::result(&format!("{}  {}", one_line(&item.id, 80), one_line(&item.title, 200)));
        }
        NextItem::Complete => output::result(&match unread {
            None if snapshot.left_out().is_empty() => {
                format!("all items are complete: {}", snapshot.counts())
            }
            None => format!("all items are complete or left out: {}", snapshot.counts()),
            Some(unread) => {
                let counts = snapshot.counts();
                format!("no item is open ({counts}); {unread}")
            }
        }),
        NextItem::Empty => output::result("the backlog has no items"),
        NextItem::Blocked { waiting } => {
            output::result("no item can be worked on:");
            for placement in waiting.iter().filter(|_| !args.explain) {
                output::result(&format!("  {}", one_line(&placement.to_string(), 400)));
            }
            let ledger = read_ledger(&context.layout()?)?.unwrap_or_default();
            let program = context::invocation(file);
            if let Some(advice) = backlog_view::mend(&ledger, waiting, &program) {
                output::info(&format!("next: {advice}"));
            }
        }
    }
    if args.explain {
        print_places(&snapshot);
    }
    Ok(code)
}

/// Returns what is next as `--json` prints it.
fn object(
    snapshot: &BacklogSnapshot,
    next: &NextItem,
    has_unread: bool,
    explain: bool,
) -> Result<Value, CommandError> {
    let mut object = json!({"order": snapshot.order, "items": snapshot.counts()});
    let fields = serde_json::to_value(next).map_err(CommandError::internal)?;
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
        if has_unread {
            object.insert("next".to_owned(), json!("unread"));
            object.insert("unread".to_owned(), json!(snapshot.unread));
        }
        if explain {
            object.insert("placements".to_owned(), json!(snapshot.explain()));
        }
    }
    Ok(object)
}

/// Prints each item with its place: in the order of work, then what waits, then what is complete.
fn print_places(snapshot: &BacklogSnapshot) {
    output::result(&format!("order: {}; {}", snapshot.order, snapshot.counts()));
    let mut placements = snapshot.explain();
    placements.sort_by_key(|placement| match placement.reason {
        PlacementReason::Selected => (0, 0),
        PlacementReason::Queued { rank, .. } => (0, rank),
        PlacementReason::Waiting { .. } => (1, 0),
        PlacementReason::Blocked { .. } => (2, 0),
        PlacementReason::Skipped | PlacementReason::LeftOut { .. } => (3, 0),
        PlacementReason::Completed => (4, 0),
    });
    for placement in placements {
        output::result(&format!("  {}", one_line(&placement.to_string(), 400)));
    }
}
