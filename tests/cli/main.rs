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
mod artefacts;
mod backlog;
mod bench;
mod broken_configuration;
mod budget;
mod checkout;
mod checks;
mod claude;
mod claude_sdk;
mod codex;
mod commands;
mod completion;
mod configuration;
mod configurations;
mod controls;
mod crash;
mod detached;
mod discovery;
mod doctor;
mod echoes;
mod environment;
mod escalate;
mod explained;
mod fallback;
mod faults;
mod foreign;
mod git;
mod given;
mod golden;
mod guarded;
mod handoff;
mod help;
mod hook;
mod hooks;
mod hostile;
mod init;
mod limits;
mod log;
mod memory;
mod messages;
mod moved;
mod newcomer;
mod next_steps;
mod notices;
mod occupied;
mod own_binary;
mod plan;
mod plugins;
mod presets;
mod proof;
mod protection;
mod proved;
mod rate_windows;
mod readers;
mod real;
mod receipts;
mod rehearse;
mod renewed;
mod report;
mod resumed;
mod review;
mod roles;
mod runs;
mod samples;
mod sandbox;
mod screen;
mod screens;
mod secrets;
mod seed;
mod serve;
mod setup;
mod shells;
mod shipped;

mod side_by_side;
mod signals;
mod skipped;
mod state;
mod stops;
mod stream;
mod task;
mod telemetry;
mod terminal;
mod tests_that_ran;
mod threats;
mod tmux;
mod tools;
mod trace;
mod traces;
mod tracker;
mod trust;
mod user_budget;
mod verify;
mod waits;
mod watch;
mod why;
