//! Reports a run while it is active and at its end.

mod backlog;
mod human;
mod json;
mod lanes;
mod live;
mod quiet;
pub(crate) mod summary;

pub(crate) use backlog::{HumanBacklogReporter, JsonBacklogReporter};
pub(crate) use human::HumanReporter;
pub(crate) use json::JsonReporter;
pub(crate) use lanes::LaneReporter;
pub(crate) use quiet::QuietReporter;
