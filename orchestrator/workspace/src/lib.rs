//! What the engine knows of the agent's workspace.
//!
//! All code here reads files that the agent may be changing, removing or replacing by traps at the same
//! time. So: links are never followed beneath the workspace, pipes and devices are never opened, every
//! list is bounded, and content that cannot be pinned down is reported as changed, never as unchanged.
//! Nothing here starts a process. Nothing is written into the workspace, but for
//! [`create_from_template`], [`PromptPlace::restore`], [`WorkspaceHandle::recreate`] and
//! [`PinnedFile::restore_if_changed`].
//!
//! The functions block on the disk (only [`PromptWatch`] is async): call them from a thread that may
//! wait.

mod clone_differences;
mod evidence_digests;
mod file_copy;
mod file_hasher;
mod file_id;
mod folder_watch;
mod git;
mod gitignore;
mod globs;
mod guarded_paths;
mod ignore_patterns;
mod large_file;
mod line_digests;
mod open_writers;
mod outer_rules;
mod own_outputs;
mod pinned_file;
mod program_digests;
mod prompt;
mod prompt_watch;
mod protected;
mod relative;
mod state_name;
mod template;
mod tree;
mod workspace_handle;

pub use clone_differences::CloneDifferences;
pub use evidence_digests::{
    EvidenceDigests, EvidenceHasher, evidence_digests, evidence_digests_until,
};
pub use file_copy::{copy_if_other, is_same_content};
pub use file_id::FileId;
pub use folder_watch::FolderWatch;
pub use git::{
    Conversion, GitEnvironment, IndexMark, common_git_folder, find_untracked, has_commit,
};
pub use globs::GlobError;
pub use guarded_paths::GuardedPaths;
pub use outer_rules::OuterRules;
pub use own_outputs::own_outputs;
pub use pinned_file::{PinRecord, PinnedFile};
pub use program_digests::ProgramDigests;
pub use prompt::{Prompt, PromptError, PromptPlace};
pub use prompt_watch::{PromptWatch, close_in_background};
pub use protected::differences::Differences;
pub use protected::shadowed_folder;
pub use protected::walker::ProtectedHasher;
pub use protected::{Baseline, ProtectedError, ProtectedPaths, is_cache};
pub use state_name::{state_dir_name, state_dir_name_of_link};
pub use template::{TemplateError, create_from_template};
pub use tree::{
    FileChangeKind, PathChange, PinnedPaths, TreeChanges, TreeDiff, TreeDigest, TreeError,
    TreeHasher, TreeSnapshot, TreeState, Uncommitted, UncommittedReason,
};
pub use workspace_handle::{WorkspaceError, WorkspaceHandle};
