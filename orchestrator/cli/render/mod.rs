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

use ralph_orchestrator_core::engine::{Notice, Observer};

pub(crate) use human::Human;
pub(crate) use json::Json;
pub(crate) use quiet::Quiet;

use crate::activity::Activity;

/// Passes everything on, and keeps in mind what goes on.
pub(crate) struct Watched(Arc<dyn Observer>);

impl Watched {
    pub(crate) fn around(observer: Arc<dyn Observer>) -> Arc<dyn Observer> {
        Arc::new(Self(observer))
    }
}

impl Observer for Watched {
    fn notice(&self, run: &str, notice: &Notice) {
        Activity::follow(notice);
        self.0.notice(run, notice);
    }
}
