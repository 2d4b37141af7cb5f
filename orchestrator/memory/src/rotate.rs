//! Rotation: whole old entries leave the file for an archive.

use crate::entries::{EntryFormat, split_entries};

/// A file in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The oldest entries, for the archive.
    pub archived: Vec<u8>,
    /// The file without them.
    pub remaining: Vec<u8>,
}

/// Takes the oldest entries out of a file that is larger than `above` bytes, until it has half of that or
/// one entry. `None` if it is not larger, or has no entry to spare.
#[must_use]
pub fn rotate(format: EntryFormat, content: &[u8], above: usize) -> Option<Rotation> {
    if content.len() <= above {
        return None;
    }
    let parts = split_entries(format, content);
    let spare = parts.entries.len().saturating_sub(1);
    let mut left = content.len();
    let mut count = 0;
    for entry in parts.entries.iter().take(spare) {
        if left <= above / 2 {
            break;
        }
        left -= entry.len();
        count += 1;
    }
    let (old, new) = parts.entries.split_at_checked(count).filter(|(old, _)| !old.is_empty())?;
    let remaining = [parts.preamble, &new.concat()].concat();
    Some(Rotation { archived: old.concat(), remaining })
}

/// Returns the file without the entries that are in the archive already, if it still begins with them: the
/// rotation was interrupted between its two writes.
#[must_use]
pub fn finish_rotation(format: EntryFormat, content: &[u8], archived: &[u8]) -> Option<Vec<u8>> {
    let preamble = split_entries(format, content).preamble;
    let entries = content.get(preamble.len()..)?;
    let rest = entries.strip_prefix(archived).filter(|_| !archived.is_empty())?;
    Some([preamble, rest].concat())
}
