//! `add`

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit, explain};
use ralph_orchestrator_backlog::NewItem;
use ralph_orchestrator_driver::{AddOutcome, DriverError, add_item};
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_terminal::block_on::block_on;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_terminal::{output, values};
use serde_json::json;

use crate::{backlog, git};

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The short name of the item
    pub(crate) title: String,
    /// The id; by default the next free one of the backlog's format
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// What to do
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,
    /// What has to hold for the item to be complete. Repeat it for several
    #[arg(long = "criterion", value_name = "TEXT")]
    pub(crate) criteria: Vec<String>,
    /// Id of an item that has to be completed first. Repeat it for several
    #[arg(long = "after", value_name = "ID")]
    pub(crate) dependencies: Vec<String>,
    /// The rank; the order says which end comes first
    #[arg(long, value_name = "N", value_parser = values::rank, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// The category, for formats that have one
    #[arg(long, value_name = "TEXT")]
    pub(crate) category: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn add(file: &ConfigFile, args: AddArgs) -> Result<u8, CommandError> {
    let context = git::enter_existing(Context::with(file, &args.sets)?)?;
    if context.vars.contains_key("RALPH_RUN_ID") {
        return Err(CommandError::user(
            "an agent cannot add items to the backlog that it works on",
        )
        .hinted("write a note that proposes the item"));
    }
    let list = block_on(backlog::require(&context))?;
    let item = NewItem {
        id: args.id,
        title: args.title,
        description: args.description,
        category: args.category,
        priority: args.priority,
        criteria: args.criteria,
        dependencies: args.dependencies,
    };
    let added = add_item(&*list, &Disk::default(), &context.layout()?, &item);
    let added = added.map_err(|error| match error {
        DriverError::Backlog(error) => explain(error, &context.loaded),
        error => error.into(),
    })?;
    let id = match &added {
        AddOutcome::Added(id) => Some(id.as_str()),
        AddOutcome::Queued => None,
    };
    if args.json {
        output::json(&json!({"item": id, "queued": id.is_none(), "title": item.title}));
        return Ok(exit::OK);
    }
    output::result(&match id {
        Some(id) => format!("added item {id}: {}", item.title),
        None => format!(
            "queued: {}; it is added when the iteration has ended, or by the next `run` if that was killed",
            item.title
        ),
    });
    Ok(exit::OK)
}
