//! Guards a text whose format is not built in.
//!
//! Of such a text only the items are known, so the base is written anew with what an agent may change.
//! Where that is not what the agent left, byte for byte, the agent changed something else.

use std::collections::HashMap;

use ralph_orchestrator_contract::{BacklogEdit, BacklogItem, NewItem};
use serde_json::{Map, Value, json};

use super::compare::{Comparison, GuardedItem, compare_items};
use super::file::GuardOutcome;
use super::report::{GuardFinding, GuardRules, TrustedEdit};
use crate::error::BacklogError;
use crate::format_backlog::FormatBacklog;
use crate::item::BacklogSnapshot;

/// What a finding calls everything that is no item.
const TEXT: &str = "text";

impl FormatBacklog {
    /// Compares `after`, or the reason why there is none, with `base`.
    pub(crate) fn compare(
        &self,
        base: &BacklogSnapshot,
        after: Result<&[u8], String>,
        rules: GuardRules,
    ) -> GuardOutcome {
        let restore = |problem: String| GuardOutcome {
            findings: vec![GuardFinding::Corrupted { problem }],
            content: Some(base.bytes.clone()),
        };
        let bytes = match after {
            Ok(bytes) if bytes == base.bytes => {
                return GuardOutcome { findings: Vec::new(), content: None };
            }
            Ok(bytes) => bytes,
            Err(problem) => return restore(problem),
        };
        // A text that the format fails at is no text that anybody can work with.
        let items = match self.read_items(bytes) {
            Ok(items) => items,
            Err(error) => return restore(error.to_string()),
        };
        let mut comparison = compare_items(&guarded(&base.items), &guarded(&items), rules);
        let edits = permitted_edits(&base.items, &items, &comparison);
        let rebuilt = match edits.as_slice() {
            [] => Ok(base.clone()),
            edits => self.edit(base, edits),
        };
        let content = match rebuilt {
            Ok(rebuilt) if rebuilt.bytes == bytes => None,
            Ok(rebuilt) => {
                if !comparison.findings.iter().any(GuardFinding::is_reverted) {
                    let field = TEXT.to_owned();
                    let finding = GuardFinding::FrameEdited { field, before: None, after: None };
                    comparison.findings.push(finding);
                }
                Some(rebuilt.bytes)
            }
            Err(error) => {
                let problem = format!("what the agent may change cannot be written: {error}");
                comparison.findings.push(GuardFinding::Corrupted { problem });
                Some(base.bytes.clone())
            }
        };
        GuardOutcome { findings: comparison.findings, content }
    }

    /// Writes what people and the orchestrator changed meanwhile into the base.
    pub(crate) fn merge_edits(
        &self,
        base: &BacklogSnapshot,
        edits: &[TrustedEdit],
    ) -> Result<BacklogSnapshot, BacklogError> {
        let mut base = self.snapshot(base.bytes.clone())?;
        for edit in edits {
            base = if edit.before == base.bytes {
                self.snapshot(edit.after.clone())?
            } else {
                let changes = self.changes_of(edit)?;
                self.edit(&base, &changes)?
            };
        }
        Ok(base)
    }

    /// Returns a trusted edit as edits of items.
    fn changes_of(&self, edit: &TrustedEdit) -> Result<Vec<BacklogEdit>, BacklogError> {
        let before = self.read_items(&edit.before)?;
        let after = self.read_items(&edit.after)?;
        let was: HashMap<&str, &BacklogItem> =
            before.iter().map(|item| (item.id.as_str(), item)).collect();
        let mut changes = Vec::new();
        for item in &after {
            match was.get(item.id.as_str()) {
                Some(old) if fields(old) == fields(item) => {
                    changes.extend(open_edits(old, item, item.status));
                }
                Some(_) => {
                    let id = &item.id;
                    return Err(self.failed(format!(
                        "it cannot merge an edit of item `{id}` with what an agent changed"
                    )));
                }
                None => changes.push(BacklogEdit::Add { item: as_new(item) }),
            }
        }
        Ok(changes)
    }
}

/// Returns the edits of the base that an agent may make.
fn permitted_edits(
    base: &[BacklogItem],
    after: &[BacklogItem],
    comparison: &Comparison,
) -> Vec<BacklogEdit> {
    let mut edits = Vec::new();
    for (position, before) in base.iter().enumerate() {
        let found = comparison.positions.get(position).copied().flatten();
        let Some(found) = found.and_then(|found| after.get(found)) else { continue };
        edits.extend(open_edits(before, found, comparison.status_of(position, before, found)));
    }
    edits
}

/// Returns the edits that give an item another status, and the notes of another version of it.
fn open_edits(
    before: &BacklogItem,
    after: &BacklogItem,
    status: ralph_orchestrator_contract::ItemStatus,
) -> Vec<BacklogEdit> {
    let id = &before.id;
    let mut edits = Vec::new();
    if status != before.status {
        edits.push(BacklogEdit::SetStatus { id: id.clone(), status });
    }
    if after.notes != before.notes {
        edits.push(BacklogEdit::SetNotes { id: id.clone(), notes: after.notes.clone() });
    }
    edits
}

fn guarded(items: &[BacklogItem]) -> Vec<GuardedItem> {
    let guarded = |item: &BacklogItem| GuardedItem {
        item: item.clone(),
        fields: fields(item),
        source: String::new(),
    };
    items.iter().map(guarded).collect()
}

/// Returns the fields that an agent must not change.
fn fields(item: &BacklogItem) -> Map<String, Value> {
    let fields = [
        ("title", json!(item.title)),
        ("description", json!(item.description)),
        ("priority", json!(item.priority)),
        ("criteria", json!(item.criteria)),
        ("dependencies", json!(item.dependencies)),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn as_new(item: &BacklogItem) -> NewItem {
    NewItem {
        id: Some(item.id.clone()),
        title: item.title.clone(),
        description: item.description.clone(),
        category: None,
        // A format without priorities reads each as 0.
        priority: Some(item.priority).filter(|priority| *priority != 0),
        criteria: item.criteria.clone(),
        dependencies: item.dependencies.clone(),
    }
}
