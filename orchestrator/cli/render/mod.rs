//! Reports a run while it is active and at its end.

pub(crate) mod atif;
pub(crate) mod config_errors;
mod human;
mod json;
mod live;
mod quiet;
pub(crate) mod summary;
pub(crate) mod terminal;
pub(crate) mod text;

use std::sync::Arc;

use ralph_orchestrator_core::engine::{RunEvent, RunObserver};

pub(crate) use human::HumanReporter;
pub(crate) use json::JsonReporter;
pub(crate) use quiet::QuietReporter;

use crate::activity::Activity;

/// Forwards all events and updates the current [`Activity`].
pub(crate) struct ActivityObserver(Arc<dyn RunObserver>);

impl ActivityObserver {
    pub(crate) fn wrap(observer: Arc<dyn RunObserver>) -> Arc<dyn RunObserver> {
        Arc::new(Self(observer))
    }
}

impl RunObserver for ActivityObserver {
    fn on_event(&self, run: &str, notice: &RunEvent) {
        Activity::update(notice);
        self.0.on_event(run, notice);
    }
}
