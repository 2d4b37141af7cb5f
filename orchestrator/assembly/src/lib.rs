//! Puts a run together: finds its configuration and decides whether that may be obeyed, fills the registry with all that a
//! configuration can name, resolves the sandbox, and opens the run. [`Orchestrator`] does so inside of other programs.
//! Must not know command lines or what prints; only this crate knows parts by name.

pub mod agent_names;
pub mod agent_places;
pub mod agent_words;
mod backlog_keys;
pub mod backlog_view;
pub mod backlogs;
pub mod block_on;
pub mod built_in;
pub mod check_place;
mod compiled_agent;
mod compiled_detector;
mod compiled_format;
pub mod compiled_in;
mod compiled_validator;
mod config_errors;
pub mod config_sources;
pub mod config_values;
pub mod context;
pub mod control;
pub mod defaults;
pub mod discovery;
mod embedded;
pub mod error;
mod file_owner;
pub mod found_backlog;
pub mod git;
mod host_programs;
mod key_schema;
pub mod lane_view;
pub mod messages;
pub mod missing_agent_program;
mod name_checks;
pub mod orphans;
pub mod overrides;
pub mod own_locks;
mod panics;
pub mod placeholder;
mod plugin_attachment;
pub mod plugins;
pub mod presets;
pub mod probe;
pub mod processes;
mod read_only;
pub mod receipts;
pub mod registry;
pub mod run_above;
pub mod run_selection;
pub mod sandbox;
pub mod schema;
pub mod served_agent;
pub mod serving;
pub mod stream_trial;
pub mod tasks;
mod trackers;
pub mod transient_checkout;
pub mod trust;
pub mod user_budget;
pub mod user_folders;
mod workspace_setup;

pub use compiled_in::{CompiledInKind, NameError};
pub use embedded::{
    ControlHandle, Orchestrator, OrchestratorBuilder, OrchestratorError, Run, RunResult, RunUpdate,
    StopHandle, intercept,
};
pub use ralph_adapter_common as adapter;
pub use ralph_orchestrator_contract::*;
pub use ralph_orchestrator_engine::RunEvent;
pub use ralph_orchestrator_machine::StopReason;
pub use ralph_orchestrator_supervisor as supervisor;
