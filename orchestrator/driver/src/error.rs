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
    /// What is stored beside the runs cannot be encoded or decoded.
    #[error("{what}: {source}; begin anew with `run --restart`")]
    Encoding {
        /// What it is.
        what: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}
