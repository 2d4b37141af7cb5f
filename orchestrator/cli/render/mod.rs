//! Reports a run while it is active and at its end.

mod backlog;
pub(crate) mod config_errors;
mod human;
mod json;
mod live;
mod quiet;
pub(crate) mod summary;
pub(crate) mod terminal;

pub(crate) use backlog::{HumanBacklogReporter, JsonBacklogReporter};
pub(crate) use human::HumanReporter;
pub(crate) use json::JsonReporter;
pub(crate) use quiet::QuietReporter;
