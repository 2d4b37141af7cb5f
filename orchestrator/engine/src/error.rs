//! Why a run could not start or had to be interrupted.

use ralph_orchestrator_checkout::CheckoutError;
use ralph_orchestrator_config::ConfigErrors;
use ralph_orchestrator_contract::AgentError;
use ralph_orchestrator_store::StateError;
use ralph_orchestrator_workspace::{PromptError, TreeError, WorkspaceError};

use super::role_prompts::RolePromptError;

/// A failure that is none of the run's stop reasons.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The state on disk is held, damaged, or cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// No agent is available.
    #[error("{error}")]
    Agent {
        /// The adapter's name.
        agent: String,
        /// Why.
        error: AgentError,
    },
    /// The workspace cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Something else has taken the place of the workspace.
    #[error(transparent)]
    Exchanged(#[from] WorkspaceError),
    /// There is no checkout for the checks.
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
    /// The prompt cannot be read.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// A role has no prompt that can be used.
    #[error(transparent)]
    RolePrompt(#[from] RolePromptError),
    /// The workspace could not be made or a protected path not be read.
    #[error("{0}")]
    Workspace(String),
    /// The work cannot be stored as `[git]` says.
    #[error("{0}")]
    Repository(String),
    /// A part of the engine ended unexpectedly.
    #[error("internal error: {0}")]
    Internal(String),
}
