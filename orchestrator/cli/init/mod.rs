//! What a new configuration proposes: the agent, the checks, and what they rely on.

pub(crate) mod agent;
pub(crate) mod check;
pub(crate) mod check_run;
pub(crate) mod ignore;
pub(crate) mod next_commands;
pub(crate) mod preset;
pub(crate) mod prompt;
pub(crate) mod protect;
pub(crate) mod systemd;
pub(crate) mod systems;
