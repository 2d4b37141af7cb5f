//! What agents, checks and the setup find out about the item that is worked on.

use std::collections::BTreeMap;

use ralph_orchestrator_backlog::BacklogItem;
use ralph_orchestrator_store::{Layout, SeriesFiles};
use serde_json::json;

use crate::error::DriverError;

/// The file with the item, in the folder of the series.
const FILE: &str = "item.json";

/// Returns the variables of an item's run.
pub(crate) fn item_env(id: &str, layout: &Layout) -> BTreeMap<String, String> {
    let file = layout.series().join(FILE).display().to_string();
    let vars = [("RALPH_ITEM", id.to_owned()), ("RALPH_ITEM_FILE", file)];
    // No variable can hold it.
    let vars = vars.into_iter().filter(|(_, value)| !value.contains('\0'));
    vars.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Writes the file anew, so that it says what the item was before the agent worked, whatever became of both since.
pub(crate) fn write_item(files: &SeriesFiles, item: &BacklogItem) -> Result<(), DriverError> {
    let object = json!({
        "id": item.id,
        "title": item.title,
        "description": item.description,
        "criteria": item.criteria,
    });
    Ok(files.write_plain(FILE, format!("{object}\n").as_bytes())?)
}
