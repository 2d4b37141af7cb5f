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
mod budget;
mod checks;
mod claude;
mod claude_sdk;
mod codex;
mod commands;
mod completion;
mod configuration;
mod crash;
mod echoes;
mod environment;
mod fallback;
mod faults;
mod given;
mod hostile;
mod init;
mod limits;
mod log;
mod occupied;
mod plugins;
mod protection;
mod readers;
mod real;
mod resumed;
mod runs;
mod sandbox;
mod screen;
mod screens;
mod secrets;
mod seed;
mod shipped;
mod side_by_side;
mod signals;
mod state;
mod stops;
mod terminal;
mod tmux;
mod trace;
mod waits;
mod why;
