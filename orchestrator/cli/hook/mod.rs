//! Sessions that people run themselves: the hooks of their agents ask here whether a session may end as done.
//!
//! `events` decides, `check` has the validators decide in a process of its own, `settings` enters the hooks in the
//! agents' settings.

pub(crate) mod agent;
pub(crate) mod check;
pub(crate) mod child;
pub(crate) mod events;
pub(crate) mod message;
pub(crate) mod processes;
pub(crate) mod record;
pub(crate) mod settings;
pub(crate) mod transcript;
