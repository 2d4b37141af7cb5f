//! When the contents of the evidence folders were written, as observed at the ends of iterations.
//!
//! Dates are not used: a file that was written again has another stamp, see
//! `EvidenceDigests` of the workspace crate. What was there before the run stays old,
//! however it is touched, renamed or copied.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The files in the evidence folders: digests of their contents by their stamps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedEvidence {
    /// Digest of the content by stamp.
    pub contents: BTreeMap<String, String>,
    /// Files were left out that a later observation may list.
    pub overflowed: bool,
    /// Files were left out for their size, as they always are.
    pub skipped_large: bool,
}

impl ObservedEvidence {
    /// Whether all files in the folders are listed.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        !self.overflowed && !self.skipped_large
    }

    /// Returns the digest over all contents, regardless of names and times of the files.
    pub(super) fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for digest in self.contents.values().collect::<BTreeSet<_>>() {
            hasher.update(digest.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// When each content was last written. Cheap to clone, as each validation does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvidenceHistory {
    /// The last iteration that wrote a file with this content; 0 for good if it was there before.
    pub written_in: Arc<BTreeMap<String, u64>>,
    stamps: Arc<BTreeSet<String>>,
    /// Not all files from before the run are known: what appears later may be old.
    overflowed: bool,
    /// The last observation lists all files.
    complete: bool,
}

impl EvidenceHistory {
    /// Adds the files from before the run.
    pub(super) fn begin<'a>(
        &mut self,
        old: impl IntoIterator<Item = &'a String>,
        overflowed: bool,
    ) {
        let old = old.into_iter().map(|digest| (digest.clone(), 0));
        Arc::make_mut(&mut self.written_in).extend(old);
        self.overflowed |= overflowed;
    }

    /// Whether the last observation lists all files, so that any other file was written since.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.complete && !self.overflowed
    }

    /// Returns the files that were written since the last observation, except those whose content was
    /// there before the run.
    #[must_use]
    pub fn written_since(&self, observed: &ObservedEvidence) -> BTreeMap<String, String> {
        let old = |digest: &String| self.written_in.get(digest) == Some(&0);
        let written = observed.contents.iter();
        written
            .filter(|(stamp, digest)| !self.stamps.contains(*stamp) && !old(digest))
            .map(|(stamp, digest)| (stamp.clone(), digest.clone()))
            .collect()
    }

    /// Adds what an iteration wrote. Returns whether any of it is new content.
    pub fn record(
        &mut self,
        iteration: u64,
        written: &BTreeMap<String, String>,
        complete: bool,
    ) -> bool {
        let mut is_new = false;
        let written_in = if self.overflowed { 0 } else { iteration };
        self.complete = complete;
        if written.is_empty() {
            return false;
        }
        let stamps = Arc::make_mut(&mut self.stamps);
        let contents = Arc::make_mut(&mut self.written_in);
        for (stamp, digest) in written {
            stamps.insert(stamp.clone());
            match contents.entry(digest.clone()) {
                Entry::Vacant(new) => {
                    new.insert(written_in);
                    is_new |= !self.overflowed;
                }
                // What was there before the run stays old.
                Entry::Occupied(known) if *known.get() == 0 => {}
                Entry::Occupied(mut known) => {
                    known.insert(written_in);
                }
            }
        }
        is_new
    }
}
