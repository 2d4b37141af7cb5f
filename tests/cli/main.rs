//! The program as its users run it. One binary for all tests, one environment for each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs
)]

mod acp;
mod agents;
mod answers;
mod budget;
mod checks;
mod claude;
mod claude_sdk;
mod codex;
mod commands;
mod completion;
mod configuration;
mod configurations;
mod crash;
mod detached;
mod echoes;
mod environment;
mod fallback;
mod faults;
mod given;
mod hostile;
mod init;
mod limits;
mod log;
mod next_steps;
mod occupied;
mod plugins;
mod protection;
mod readers;
mod real;
mod renewed;
mod resumed;
mod sandbox;
mod secrets;
mod seed;
mod shipped;
mod side_by_side;
mod signals;
mod state;
mod stops;
mod terminal;
mod trace;
mod waits;
mod why;
