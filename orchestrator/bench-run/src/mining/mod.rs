//! Makes tasks of the commits of a repository: what a commit's message asks for, on the tree before it, verified by the
//! tests that it brought.

mod changes;
mod issues;
mod outcome;
mod prompt;
mod scripts;
mod task_files;
mod tested_project;

pub use changes::{CommitParts, sort_changes};
pub use issues::{IssueError, IssueTexts};
pub use outcome::{DropReason, MiningOutcome, judge_trials};
pub use prompt::{TaskPrompt, remove_hashes};
pub use scripts::VerifierCommands;
pub use task_files::{MinedTask, name_task};
pub use tested_project::{ChangedFileKind, ProjectTests, TestCommand};
