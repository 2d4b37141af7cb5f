//! Writes a configuration to start from: which agent is there, how the project is tested, what its checks rely on.
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
mod systemd;
mod systems;
mod test_files;
mod toml_list;

pub use agent::names as agent_names;
pub use command::{InitArgs, init};
pub use ignore::is_in_repository;
pub use protect::protected_by;
pub use systems::dependencies::implied_setup;
