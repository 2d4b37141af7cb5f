//! The file after an agent had it: what was there before stays, what was added follows.

use std::collections::BTreeMap;

use crate::entries::{EntryFormat, append_entry, split_entries};

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
    let (old, new) = (split_entries(format, before), split_entries(format, found));
    let parts = |preamble, entries: Vec<_>| std::iter::once(preamble).chain(entries);
    let mut known: BTreeMap<&[u8], usize> = BTreeMap::new();
    for part in parts(old.preamble, old.entries.clone()) {
        *known.entry(part.trim_ascii_end()).or_default() += 1;
    }
    let is_known = |part: &&[u8]| match known.get_mut(part.trim_ascii_end()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => part.trim_ascii().is_empty(),
    };
    let mut is_known = is_known;
    let others = parts(new.preamble, new.entries).filter(|part| !is_known(part));
    // What was cut off in the middle of an entry is whole again.
    let is_cut = |part: &&[u8]| {
        parts(old.preamble, old.entries.clone()).any(|old| old.starts_with(part.trim_ascii_end()))
    };
    others.filter(|part| !is_cut(part)).collect()
}
