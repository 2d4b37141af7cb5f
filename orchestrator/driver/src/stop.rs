//! Why the work on a backlog ends, and what comes next.

use ralph_orchestrator_backlog::{BacklogItem, ItemPlacement};
use ralph_orchestrator_machine::{State, StopReason};

use crate::executor::RunReport;

/// Why the work ends.
pub(crate) struct Stop {
    pub(crate) reason: StopReason,
    pub(crate) message: String,
    pub(crate) waiting: Vec<ItemPlacement>,
    pub(crate) ended_well: bool,
    pub(crate) state: Option<Box<State>>,
}

impl Stop {
    pub(crate) fn new(reason: StopReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            waiting: Vec::new(),
            ended_well: false,
            state: None,
        }
    }

    /// Returns the stop by a run of an item that ended without completion.
    pub(crate) fn from_report(item: &BacklogItem, report: &RunReport) -> Self {
        Self {
            ended_well: report.ended_well(),
            state: Some(Box::new(report.state.clone())),
            ..Self::new(report.reason, format!("item `{}`: {}", item.id, report.message))
        }
    }
}

/// What to do next.
pub(crate) enum Choice {
    /// `has_others`: others could be worked on instead.
    Work {
        item: Box<BacklogItem>,
        resume: Option<String>,
        has_others: bool,
    },
    Stop(Stop),
}
