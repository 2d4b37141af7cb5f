//! The user's git repository: who starts git, where runs work, what is stored, and what of it the engine sees.

mod accept;
mod backlog;
mod branch_push;
mod branch_work;
mod check;
mod create;
mod ended_request;
mod lane_git;
mod lanes;
mod moved_worktree;
mod process;
mod proposal;
mod proposal_text;
mod publisher;
mod run_place;
mod saving;
mod stored;
mod uncommitted;
mod worktree;
mod worktree_maker;

pub use accept::accept_repository;
pub use backlog::BacklogCommits;
pub use check::{check, check_commits};
pub use create::create_repository;
pub use lanes::{GitLanes, MergeProver};
pub use moved_worktree::{
    find_disconnection, is_moved_to, locate_worktrees, read_git_dir, repair_command, worktrees_dir,
};
pub use process::{Confinement, SupervisedGit, blocking, environment, kept_folder};
pub use proposal::propose;
pub use publisher::BranchPublisher;
pub use run_place::{PlaceRequest, RunPlace, check_worktree, verify_worktree};
pub use saving::{GitRepositories, skip_reason};
pub use stored::{open_stored, open_stored_run};
pub use uncommitted::{DirtSearch, UncommittedView, has_unfinished_run};
pub use worktree::{
    WorktreeView, enter_existing, enter_for_task, enter_here, find_of, find_replaced,
};
