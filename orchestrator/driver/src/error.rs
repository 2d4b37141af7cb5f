//! What keeps a backlog from being worked.

use ralph_orchestrator_backlog::BacklogError;
use ralph_orchestrator_engine::EngineError;
use ralph_orchestrator_store::StateError;

/// Why a backlog cannot be worked.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The backlog cannot be read or written, or is not valid.
    #[error(transparent)]
    Backlog(#[from] BacklogError),
    /// The backlog has no items.
    #[error("{path}: the backlog has no items; add one with `ralph-orchestrator add \"…\"`")]
    Empty {
        /// The backlog's file.
        path: String,
    },
    /// A person decides about an item that is complete.
    #[error("item `{item}` is complete already")]
    AlreadyComplete {
        /// The item's id.
        item: String,
    },
    /// A person wants an item worked on again that nothing keeps from being worked on.
    #[error("item `{item}` is neither blocked nor skipped; `run` works on it when its turn comes")]
    NotBlocked {
        /// The item's id.
        item: String,
    },
    /// An item is to be skipped before there is a place to record it.
    #[error(
        "{path}: its format cannot store that item `{item}` is skipped, and no run has begun; remove the item from the file, or `run` first"
    )]
    NotBegun {
        /// The item's id.
        item: String,
        /// The backlog's file.
        path: String,
    },
    /// The state on disk is held, damaged, or cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A run cannot be opened or continued.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A run was watched that was not submitted.
    #[error("the run {run} was not submitted to this executor; submit it before watching it")]
    NotSubmitted {
        /// The run.
        run: String,
    },
    /// An item's lane cannot be made, merged or removed.
    #[error("item `{item}` in its worktree: {problem}; `run` goes on with it")]
    Lane {
        /// The item's id.
        item: String,
        /// What is wrong.
        problem: String,
    },
    /// No lanes can be made, or none merged.
    #[error("items cannot be worked on at once (parallel.max): {problem}")]
    Lanes {
        /// What is wrong.
        problem: String,
    },
    /// Items were begun in worktrees of their own, and the configuration does not allow that any more.
    #[error(
        "item `{item}` was begun in a worktree of its own (parallel.max); to go on, set `worktree = true` and `commit = \"iteration\"` in [git], or begin anew with `run --restart`"
    )]
    InLanes {
        /// The item's id.
        item: String,
    },
    /// The work on a complete item is nowhere else.
    #[error(
        "item `{item}` is complete, and its work is only here, so its status is not written: {problem}"
    )]
    NotPublished {
        /// The item's id.
        item: String,
        /// What is wrong.
        problem: String,
    },
    /// What is stored beside the runs cannot be encoded or decoded.
    #[error("{what}: {source}; begin anew with `run --restart`")]
    Encoding {
        /// What it is.
        what: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}
