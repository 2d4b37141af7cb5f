//! Finds out what made a check green: which parts of the work the check notices.
//! Must not know runs, processes, file systems or the engine: contents in, findings out. A [`VariantChecker`] writes
//! the variants and runs the checks.
//!
//! [`explain`] leaves parts of the accepted work out and has the checks run on the rest. A part is a hunk, a file mode,
//! or a whole file that is new, deleted, binary or a link. Every finding is what one run showed, so its words are no
//! stronger: no part is called unneeded or tested, since 8 % of honest reference code is noticed by no check.
//!
//! The search tries parts one by one. Most parts of a patch are needed, which is the worst case of delta debugging: for
//! 80 parts of which 50 are needed it takes 839 runs instead of 74. Only what is likely inert is tried in halved
//! groups, and what nobody noticed is left out together in one run at the end.

mod conditions;
mod content;
mod edits;
mod explanation;
mod inert;
mod patch;
mod patch_view;
mod search;
mod summary;
mod units;
mod variant;
mod words;

pub use conditions::ExplainConditions;
pub use content::{FileContent, FileRole, WorkFile};
pub use edits::LineRange;
pub use explanation::{ExplainedPart, Explanation, PartVerdict, StopCause};
pub use patch::{FileEvent, PartRegion};
pub use patch_view::{PatchHunk, PatchLine, PatchLineKind, view_patch};
pub use search::explain;
pub use summary::summarize;
pub use variant::{CheckedVariant, PatchVariant, VariantChecker, VariantOutcome};
