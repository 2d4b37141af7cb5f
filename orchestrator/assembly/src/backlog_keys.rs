//! The keys of `[backlog]` that every format has.

use std::path::PathBuf;

use ralph_orchestrator_backlog::{BacklogFile, ItemOrder};
use ralph_orchestrator_contract::{BuildContext, BuildError, parse_config};
use serde_json::Value;

/// Returns the file of a backlog, and the order that the configuration gives it.
pub(crate) fn backlog_file(
    table: Value,
    context: &BuildContext,
) -> Result<(BacklogFile, Option<ItemOrder>), BuildError> {
    let BacklogKeys { path, order } = parse_config(table)?;
    let path = path.ok_or_else(|| {
        BuildError::at("", "`path` is missing: the backlog's file, relative to the workspace")
    })?;
    let file = BacklogFile::new(&context.workspace, &path)
        .map_err(|error| BuildError::at("path", error.to_string()))?;
    Ok((file, order))
}

/// What a format is given of `[backlog]`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BacklogKeys {
    #[serde(default)]
    path: Option<PathBuf>,
    #[serde(default)]
    order: Option<ItemOrder>,
}
