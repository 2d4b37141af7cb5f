//! Writes a configuration to start from: which agent is there, how the project is tested, what its checks rely on. Tries what
//! those checks would let pass: a new test runner is a row in `rehearsal/runners.rs`.
//! Must not know the state of runs.

mod agent;
mod check;
mod check_commands;
mod check_run;
mod command;
mod ignore;
mod next_commands;
mod packages;
mod preset;
mod prompt;
mod protect;
mod rehearsal;
mod systemd;
mod systems;
mod test_files;
mod toml_list;
mod touched_tests;

pub use agent::names as agent_names;
pub use command::{InitArgs, init};
pub use ignore::is_in_repository;
pub use protect::protected_by;
pub use rehearsal::{MoveKind, RehearsalReport, RehearsedRow, RowVerdict, rehearse};
pub use systems::dependencies::implied_setup;
pub use touched_tests::{
    ProjectFileKind, TouchedTestCommand, classify_file, find_dependency_setup, find_touched_tests,
    is_source_file,
};
