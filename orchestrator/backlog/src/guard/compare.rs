//! Compares two versions of a backlog, whatever their format.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::report::{AgentCompletions, GuardFinding, GuardRules};
use crate::item::{BacklogItem, ItemStatus};

/// An item with what the comparison needs beside it.
#[derive(Clone, Debug)]
pub(crate) struct GuardedItem {
    pub(crate) item: BacklogItem,
    /// The fields that an agent must not change.
    pub(crate) fields: Map<String, Value>,
    /// The item as its file has it.
    pub(crate) source: String,
}

/// What differs, and what it means for the file.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) findings: Vec<GuardFinding>,
    /// For each item of the base, its position in the other version.
    pub(crate) positions: Vec<Option<usize>>,
    /// Positions in the base of items whose status is restored.
    pub(crate) reverted: HashSet<usize>,
    /// Positions in the other version of items that the base does not have.
    pub(crate) added: Vec<usize>,
    /// Whether more than statuses and notes has to be restored.
    pub(crate) is_structural: bool,
}

impl Comparison {
    /// Returns the status that an item of the base has from now on.
    pub(crate) fn status_of(
        &self,
        position: usize,
        base: &BacklogItem,
        after: &BacklogItem,
    ) -> ItemStatus {
        if self.reverted.contains(&position) { base.status } else { after.status }
    }
}

pub(crate) fn compare_items(
    base: &[GuardedItem],
    after: &[GuardedItem],
    rules: GuardRules,
) -> Comparison {
    let mut comparison = Comparison::default();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for (position, guarded) in after.iter().enumerate() {
        // Of two items with one id, the first is the base's.
        index.entry(&guarded.item.id).or_insert(position);
    }
    for (position, before) in base.iter().enumerate() {
        let found = index.remove(before.item.id.as_str());
        comparison.positions.push(found);
        match found.and_then(|found| after.get(found)) {
            Some(after) => compare_item(&mut comparison, position, before, after, rules),
            None => {
                comparison.findings.push(GuardFinding::Removed { id: before.item.id.clone() });
                comparison.is_structural = true;
            }
        }
    }
    report_reordered(&mut comparison, base);
    let known: HashSet<usize> = comparison.positions.iter().copied().flatten().collect();
    for (position, guarded) in after.iter().enumerate() {
        if !known.contains(&position) {
            let (item, source) = (guarded.item.clone(), guarded.source.clone());
            comparison.findings.push(GuardFinding::Proposed { item, source });
            comparison.added.push(position);
            comparison.is_structural = true;
        }
    }
    comparison
}

fn compare_item(
    comparison: &mut Comparison,
    position: usize,
    base: &GuardedItem,
    after: &GuardedItem,
    rules: GuardRules,
) {
    let id = &base.item.id;
    for (field, before, after) in changed_fields(&base.fields, &after.fields) {
        let finding = GuardFinding::Edited { id: id.clone(), field, before, after };
        comparison.findings.push(finding);
        comparison.is_structural = true;
    }
    let (before, now) = (base.item.status, after.item.status);
    if before != now {
        comparison.findings.push(if now == ItemStatus::Completed {
            let is_reverted = rules.completions == AgentCompletions::Revert;
            if is_reverted {
                comparison.reverted.insert(position);
            }
            GuardFinding::CompletedByAgent { id: id.clone(), before, is_reverted }
        } else {
            // Else it would be worked on again and again.
            let is_reverted = before == ItemStatus::Blocked;
            if is_reverted {
                comparison.reverted.insert(position);
            }
            GuardFinding::StatusChanged { id: id.clone(), before, after: now, is_reverted }
        });
    }
    if base.item.notes != after.item.notes {
        comparison.findings.push(GuardFinding::NotesChanged { id: id.clone() });
    }
}

fn report_reordered(comparison: &mut Comparison, base: &[GuardedItem]) {
    let mut last = None;
    let found = comparison.positions.iter().enumerate().find(|(_, position)| {
        let is_before = position.is_some() && **position < last;
        last = position.or(last);
        is_before
    });
    if let Some((_, guarded)) = found.and_then(|(n, _)| base.get(n).map(|item| (n, item))) {
        comparison.findings.push(GuardFinding::Reordered { id: guarded.item.id.clone() });
        comparison.is_structural = true;
    }
}

/// Compares the fields beside the items. Returns whether they differ.
pub(crate) fn compare_frames(
    comparison: &mut Comparison,
    base: &Map<String, Value>,
    after: &Map<String, Value>,
) {
    for (field, before, after) in changed_fields(base, after) {
        comparison.findings.push(GuardFinding::FrameEdited { field, before, after });
        comparison.is_structural = true;
    }
}

type ChangedField = (String, Option<Value>, Option<Value>);

fn changed_fields(base: &Map<String, Value>, after: &Map<String, Value>) -> Vec<ChangedField> {
    let changed = base.iter().filter(|(key, value)| after.get(*key) != Some(*value));
    let mut fields: Vec<ChangedField> = changed
        .map(|(key, value)| (key.clone(), Some(value.clone()), after.get(key).cloned()))
        .collect();
    let added = after.iter().filter(|(key, _)| !base.contains_key(*key));
    fields.extend(added.map(|(key, value)| (key.clone(), None, Some(value.clone()))));
    fields
}
