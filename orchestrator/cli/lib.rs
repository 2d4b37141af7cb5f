//! Parses arguments, has runs put together and performed, and shows them: the command line, as a library.
//! Must not know how anything is decided.
//!
//! [`Cli`] is the whole program, and the only part that prints. `commands` has a file for each command, `render` what
//! `run` prints.
// Some of what commands share is used once only, and once more by the web page or the full-screen view.
#![cfg_attr(not(all(feature = "web", feature = "watch")), allow(dead_code, unused_imports))]

mod args;

mod cli;
mod commands;
mod complete;
mod detach;
mod dry_run;
mod error;
mod help;
mod help_examples;
mod hooks;
mod notices;
#[cfg(feature = "bench")]
mod project_tests;
mod render;
mod report;
mod stop_request;
mod suggest;
mod telemetry;
mod trace;
#[cfg(any(feature = "watch", feature = "web"))]
mod user_runs;
#[cfg(feature = "watch")]
mod watch;
#[cfg(feature = "web")]
mod web;
mod workspace_selection;

pub use cli::{Cli, CliBuilder};
pub use ralph_orchestrator_assembly::{
    CompiledInKind, ControlHandle, NameError, Orchestrator, OrchestratorBuilder, OrchestratorError,
    Run, RunEvent, RunResult, RunUpdate, StopHandle, StopReason, adapter, intercept, supervisor,
};
pub use ralph_orchestrator_contract::*;
