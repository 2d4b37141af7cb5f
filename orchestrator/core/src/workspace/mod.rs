//! What the engine knows of the agent's workspace.
//!
//! Everything here looks at files the agent may be changing, removing or booby-trapping at this very
//! moment. So: links are never followed beneath the workspace, pipes and devices are never opened,
//! every list is bounded, and content that cannot be pinned down is reported as changed, never as
//! unchanged. Nothing here starts a process. Nothing is written into the workspace, but for
//! [`create_from_template`], [`PromptPlace::restore`], [`HeldWorkspace::make_again`], [`write_file`] and
//! [`PinnedFile::put_back`].
//!
//! The functions block on the disk (only [`PromptWatch`] is async): call them from a thread that may
//! wait.

mod at;
mod content;
mod escape;
mod folder;
mod git;
mod globs;
mod guard;
mod held;
mod identity;
mod large;
mod lines;
mod manifest;
mod paths;
mod pinned;
mod programs;
mod prompt;
mod protected;
mod put_back;
mod rules;
mod scope;
mod template;
mod tree;
mod unfollowed;
mod watch;
mod writers;

pub(crate) use escape::{escape, unescape};
pub use globs::GlobError;
pub use guard::Guard;
pub use held::{HeldWorkspace, WorkspaceError};
pub use identity::FileId;
pub use manifest::{EvidenceDigests, EvidenceHasher, evidence_digests, evidence_digests_until};
pub use paths::{identity, identity_of_link};
pub use pinned::{PinRecord, PinnedFile};
pub use programs::ProgramDigests;
pub use prompt::{Prompt, PromptError, PromptPlace};
pub use protected::{Baseline, ProtectedError, ProtectedHasher, ProtectedPaths};
pub use template::{TemplateError, create_from_template};
pub use tree::{
    FileChange, FileChanged, PinnedPaths, TreeChanges, TreeDiff, TreeDigest, TreeError, TreeHasher,
    TreeSnapshot, TreeState,
};
pub use unfollowed::{Links, read_file, write_file};
pub use watch::PromptWatch;
