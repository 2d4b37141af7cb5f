//! What the engine knows of the agent's workspace.
//!
//! Everything here looks at files the agent may be changing, removing or booby-trapping at this very
//! moment. So: links are never followed beneath the workspace, pipes and devices are never opened,
//! every list is bounded, and content that cannot be pinned down is reported as changed, never as
//! unchanged. Nothing here starts a process. Nothing is written into the workspace, but for
//! [`create_from_template`] and [`restore_prompt`].
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
mod large;
mod manifest;
mod paths;
mod prompt;
mod protected;
mod rules;
mod scope;
mod template;
mod tree;
mod watch;

pub use globs::GlobError;
pub use guard::Guard;
pub use manifest::{EvidenceDigests, evidence_digests, evidence_digests_until};
pub use paths::identity;
pub use prompt::{Prompt, PromptError, read_prompt, restore_prompt};
pub use protected::{Baseline, ProtectedError};
pub use template::{TemplateError, create_from_template};
pub use tree::{TreeDigest, TreeError, TreeHasher, TreeState};
pub use watch::PromptWatch;
