//! The built-in formats, and how a backlog is opened.

use serde::{Deserialize, Serialize};

use crate::backlog::Backlog;
use crate::file::BacklogFile;
use crate::json::JsonFormat;
use crate::order::ItemOrder;
use crate::plan_md::PlanFormat;
use crate::text_backlog::TextBacklog;

/// The built-in formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BacklogKind {
    /// feature-list.json, prd.json or feature_list.json; the content says which.
    Json,
    /// Checkboxes in Markdown.
    PlanMd,
    /// features.db.
    #[cfg(feature = "sqlite")]
    Sqlite,
}

/// Returns the backlog in `file`, which is not read yet. Without `order`, items have the order of
/// the format.
#[must_use]
pub fn open_backlog(
    kind: BacklogKind,
    file: BacklogFile,
    order: Option<ItemOrder>,
) -> Box<dyn Backlog> {
    match kind {
        BacklogKind::Json => Box::new(TextBacklog::new(JsonFormat, file, order)),
        BacklogKind::PlanMd => Box::new(TextBacklog::new(PlanFormat, file, order)),
        #[cfg(feature = "sqlite")]
        BacklogKind::Sqlite => Box::new(crate::sqlite::SqliteBacklog::new(file, order)),
    }
}
