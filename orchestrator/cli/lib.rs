//! Parses arguments, has runs put together and performed, and shows them: the command line, as a library.
//! Must not know how anything is decided.
//!
//! [`Cli`] is the whole program, and the only part that prints. `commands` has a file for each command, `render` what
//! `run` prints.
// Some of what commands share is used once only, and once more by the web page or the full-screen view.
#![cfg_attr(not(all(feature = "web", feature = "watch")), allow(dead_code, unused_imports))]

mod activity;
mod agent_words;
mod args;
mod backlog;

mod block_on;
mod bounded_file;
mod cli;
mod commands;
mod complete;
mod detach;
mod dry_run;
mod error;
mod git;
mod help;
mod help_examples;
mod hook;
mod init;
mod new_file;
mod notices;
mod output;
mod output_place;
mod probe;
mod question;
mod receipts;
mod render;
mod report;
mod set_args;
mod signals;
mod stop_request;
mod suggest;
mod telemetry;
mod trace;
mod trust;
#[cfg(any(feature = "watch", feature = "web"))]
mod user_runs;
mod validation_setup;
mod values;
#[cfg(feature = "watch")]
mod watch;
#[cfg(feature = "web")]
mod web;
mod workspace_selection;
mod writer;

pub use cli::{Cli, CliBuilder};
pub use ralph_orchestrator_assembly::{
    CompiledInKind, ControlHandle, NameError, Orchestrator, OrchestratorBuilder, OrchestratorError,
    Run, RunEvent, RunResult, RunUpdate, StopHandle, StopReason, adapter, intercept, supervisor,
};
pub use ralph_orchestrator_contract::*;
