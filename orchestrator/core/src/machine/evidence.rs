//! When the contents of the evidence folders were written, as seen at the ends of iterations.
//!
//! Never told by a date: a file that was written again has another stamp, see
//! [`EvidenceDigests`](crate::workspace::EvidenceDigests). What was there before the run stays old,
//! however it is touched, renamed or copied.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was found in the evidence folders: digests of contents by the stamps of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedEvidence {
    /// Digest of the content by stamp.
    pub contents: BTreeMap<String, String>,
    /// Files were left out that may be listed another time.
    pub overflowed: bool,
    /// Files were left out for their size, as they always are.
    pub skipped_large: bool,
}

impl ObservedEvidence {
    /// Whether everything that lies in the folders is listed.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        !self.overflowed && !self.skipped_large
    }

    /// Digest over all contents, whatever the files are called and whenever they were written.
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
    /// Not everything that was there before the run is known: what turns up may be old.
    overflowed: bool,
    /// Everything that was there when last observed is listed.
    complete: bool,
}

impl EvidenceHistory {
    /// Takes in what was there before the run.
    pub(super) fn begin<'a>(
        &mut self,
        old: impl IntoIterator<Item = &'a String>,
        overflowed: bool,
    ) {
        let old = old.into_iter().map(|digest| (digest.clone(), 0));
        Arc::make_mut(&mut self.written_in).extend(old);
        self.overflowed |= overflowed;
    }

    /// Whether everything that was there when last observed is listed, and so what is not listed was
    /// written since.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.complete && !self.overflowed
    }

    /// Returns the files that were written since this was last observed, as far as it matters: one whose
    /// content was there before the run never counts.
    #[must_use]
    pub fn written_since(&self, observed: &ObservedEvidence) -> BTreeMap<String, String> {
        let old = |digest: &String| self.written_in.get(digest) == Some(&0);
        let written = observed.contents.iter();
        written
            .filter(|(stamp, digest)| !self.stamps.contains(*stamp) && !old(digest))
            .map(|(stamp, digest)| (stamp.clone(), digest.clone()))
            .collect()
    }

    /// Takes in what an iteration wrote. Returns whether a content among it is new.
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
