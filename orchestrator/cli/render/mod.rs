//! What a run looks like while it goes on, and afterwards.

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

pub(crate) use human::Human;
pub(crate) use json::Json;
pub(crate) use quiet::Quiet;

use crate::activity::Activity;

/// Passes everything on, and keeps in mind what goes on.
pub(crate) struct Watched(Arc<dyn RunObserver>);

impl Watched {
    pub(crate) fn around(observer: Arc<dyn RunObserver>) -> Arc<dyn RunObserver> {
        Arc::new(Self(observer))
    }
}

impl RunObserver for Watched {
    fn on_event(&self, run: &str, notice: &RunEvent) {
        Activity::follow(notice);
        self.0.on_event(run, notice);
    }
}
