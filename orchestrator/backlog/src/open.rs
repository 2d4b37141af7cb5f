//! How a backlog of a built-in format is opened.

use crate::backlog::Backlog;
use crate::file::BacklogFile;
use crate::json::JsonFormat;
use crate::kind::BacklogKind;
use crate::order::ItemOrder;
use crate::plan_md::PlanFormat;
use crate::text_backlog::TextBacklog;

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
