//! Parses arguments, puts runs together from their configuration, and shows them: the command line, as a library.
//! Must not know how anything is decided.
//!
//! [`Cli`] is the whole program. It knows everything by name that a configuration can name, and is the only
//! part that prints. `context`, `registry` and their neighbours are *assembly*,
//! `commands` has a file for each command, `render` what `run` prints, `bench` the trials of benchmarks.
// Some of what commands share is used once only, and once more by the web page or the full-screen view.
#![cfg_attr(not(all(feature = "web", feature = "watch")), allow(dead_code, unused_imports))]

mod activity;
mod agent_words;
mod args;
mod backlog;
mod bench;
mod block_on;
mod bounded_file;
mod cli;
mod commands;
mod compiled_in;
mod complete;
mod config_sources;
mod config_values;
mod context;
mod control;
mod detach;
mod discovery;
mod dry_run;
mod embedded;
mod error;
mod git;
mod help;
mod help_examples;
mod hook;
mod init;
mod missing_agent_program;
mod new_file;
mod notices;
mod orphans;
mod output;
mod output_place;
mod overrides;
mod own_locks;
mod plugins;
mod presets;
mod probe;
mod processes;
mod question;
mod receipts;
mod registry;
mod render;
mod report;
mod run_above;
mod run_selection;
mod sandbox;
mod schema;
mod served_agent;
mod serving;
mod set_args;
mod signals;
mod stop_request;
mod suggest;
mod task;
mod tasks;
mod telemetry;
mod trace;
mod trust;
mod user_folders;
#[cfg(any(feature = "watch", feature = "web"))]
mod user_runs;
mod validation_setup;
mod values;
#[cfg(feature = "watch")]
mod watch;
#[cfg(feature = "web")]
mod web;
mod workspace_selection;
mod workspace_setup;
mod writer;

pub use cli::{Cli, CliBuilder};
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
