//! The file after an agent had it: what was there before stays, what was added follows.

use std::collections::BTreeMap;

use crate::entries::{EntryFormat, EntryList, append_entry, split_entries};

/// A file that has all that was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The file's content, which begins with that before.
    pub content: Vec<u8>,
    /// What was there before had been changed or removed.
    pub is_restored: bool,
}

/// Puts what was there before the agent back where it was changed, and appends what the agent added. An
/// entry that the agent edited is one that it added: the entry before stays beside it.
#[must_use]
pub fn merge(format: EntryFormat, before: &[u8], found: &[u8]) -> Merged {
    if found.starts_with(before) {
        return Merged { content: found.to_vec(), is_restored: false };
    }
    let mut content = before.to_vec();
    if !before.starts_with(found) {
        for part in added(format, before, found) {
            content = append_entry(&content, part);
        }
    }
    Merged { content, is_restored: true }
}

/// Returns the parts that were not there before, in their order.
fn added<'a>(format: EntryFormat, before: &'a [u8], found: &'a [u8]) -> Vec<&'a [u8]> {
    let mut known: BTreeMap<&[u8], usize> = BTreeMap::new();
    for part in parts(format, before) {
        *known.entry(part.trim_ascii_end()).or_default() += 1;
    }
    let mut is_added = |part: &&[u8]| {
        let text = part.trim_ascii_end();
        match known.get_mut(text) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            // What was cut off in the middle of a part is whole again: in their order, the first part that is not
            // before the text begins with it, if any does.
            _ => known.range(text..).next().is_none_or(|(whole, _)| !whole.starts_with(text)),
        }
    };
    parts(format, found).filter(|part| is_added(part)).collect()
}

/// Returns what comes before the entries of a file, and its entries.
fn parts(format: EntryFormat, content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let EntryList { preamble, entries } = split_entries(format, content);
    std::iter::once(preamble).chain(entries)
}
