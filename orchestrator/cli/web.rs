//! Shows runs to the web page and the HTTP interface: the same facts as `runs`, `status`, `log` and `diff`, and the
//! same controls.

mod controls;
mod iteration;
mod listing;
mod metrics;
mod records;
mod tracked;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_core::store::{StateDir, list_runs};
use ralph_orchestrator_web::{IterationPart, RecordStream, RunSource, SourceError, StartAt};
use serde_json::Value;

use crate::error::{CommandError, exit};
use crate::workspace_selection::all_states;
use listing::Listing;
use records::Records;
use tracked::TrackedRun;

/// Runs whose state is kept between requests.
const MOST_TRACKED: usize = 8;

/// The runs of this user.
#[derive(Default)]
pub(crate) struct UserRuns {
    listing: Mutex<Listing>,
    tracked: Mutex<HashMap<String, Arc<Mutex<TrackedRun>>>>,
}

/// A run of some state directory.
struct LocatedRun {
    state_dir: StateDir,
    run: String,
    is_current: bool,
}

impl LocatedRun {
    /// Finds a run by its whole id.
    fn find(run: &str) -> Result<Self, SourceError> {
        let mut states = all_states();
        let current = states.iter().position(|state| state.run().is_some_and(|own| own == run));
        let is_current = current.is_some();
        let has = |state: &StateDir| {
            list_runs(&state.layout).is_ok_and(|runs| runs.iter().any(|own| own == run))
        };
        let at = current.or_else(|| states.iter().position(has));
        let at = at.ok_or_else(|| SourceError::NotFound("there is no such run".to_owned()))?;
        Ok(Self { state_dir: states.swap_remove(at), run: run.to_owned(), is_current })
    }
}

impl UserRuns {
    fn tracked(&self, run: &str) -> Result<Arc<Mutex<TrackedRun>>, SourceError> {
        let known = self.tracked.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(Mutex::new(TrackedRun::new(LocatedRun::find(run)?)));
        let mut tracked = self.tracked.lock().unwrap_or_else(PoisonError::into_inner);
        if tracked.len() >= MOST_TRACKED {
            tracked.clear();
        }
        Ok(tracked.entry(run.to_owned()).or_insert(made).clone())
    }

    fn read_tracked(
        &self,
        run: &str,
        read: impl FnOnce(&mut TrackedRun) -> Result<Value, SourceError>,
    ) -> Result<Value, SourceError> {
        let tracked = self.tracked(run)?;
        let object = read(&mut tracked.lock().unwrap_or_else(PoisonError::into_inner));
        if object.is_err() {
            // It is read anew: it may have been replaced.
            self.tracked.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        }
        object
    }
}

impl RunSource for UserRuns {
    fn list(&self) -> Result<Value, SourceError> {
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(listing.read().into_iter().collect())
    }

    fn show(&self, run: &str) -> Result<Value, SourceError> {
        self.read_tracked(run, TrackedRun::show)
    }

    fn iterations(&self, run: &str, before: Option<u64>) -> Result<Value, SourceError> {
        self.read_tracked(run, |tracked| tracked.iterations(before))
    }

    fn follow(&self, run: &str, start: StartAt) -> Result<Box<dyn RecordStream>, SourceError> {
        Ok(Box::new(Records::new(&LocatedRun::find(run)?, start)))
    }

    fn iteration(&self, run: &str, number: u64, part: IterationPart) -> Result<Value, SourceError> {
        let located = LocatedRun::find(run)?;
        match part {
            IterationPart::Transcript => iteration::transcript(&located, number),
            IterationPart::Diff => iteration::diff(&located, number),
            IterationPart::Evidence => iteration::evidence(&located, number),
        }
    }

    fn control(
        &self,
        run: &str,
        control: &str,
        arguments: &Value,
        key: &str,
    ) -> Result<String, SourceError> {
        controls::send(&LocatedRun::find(run)?, control, arguments, key)
    }

    fn metrics(&self) -> Result<String, SourceError> {
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(metrics::format(&listing.read()))
    }
}

/// A command's error as the interface says it.
fn refused(error: &CommandError) -> SourceError {
    match error.code() {
        exit::USAGE => SourceError::Refused(error.summary()),
        _ => SourceError::Failed(error.summary()),
    }
}
