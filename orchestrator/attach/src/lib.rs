//! Sessions that people run themselves: the hooks of their agents ask here whether a session may end as done.
//!
//! `events` decides, `check` has the validators decide in a process of its own, `settings` enters the hooks in the
//! agents' settings. Must not know how a run decides.

mod agent;
mod check;
mod child;
mod command;
mod events;
mod message;
mod processes;
mod record;
mod settings;
mod transcript;

pub use command::{HookCommand, hook};
