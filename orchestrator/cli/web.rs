//! Shows runs to the web page and the HTTP interface: the same facts as `runs`, `status`, `log` and `diff`, and the
//! same controls.

mod controls;
mod iteration;
mod metrics;
mod records;
mod shown_run;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::user_folders::all_states;
use ralph_orchestrator_story::listing::Listing;
use ralph_orchestrator_story::located_run::LocatedRun;
use ralph_orchestrator_story::tracked_run::TrackedRun;
use ralph_orchestrator_web::{
    Connection, IterationPart, RecordStream, RunSource, SourceError, StartAt,
};
use serde_json::Value;

use records::Records;

/// Runs whose state is kept between requests.
const MOST_TRACKED: usize = 8;

/// The runs of this user.
#[derive(Default)]
pub(crate) struct UserRuns {
    listing: Mutex<Listing>,
    tracked: Mutex<HashMap<String, Arc<Mutex<TrackedRun>>>>,
}

/// Finds a run by its whole id.
fn find(run: &str) -> Result<LocatedRun, SourceError> {
    LocatedRun::find(run, all_states())
        .ok_or_else(|| SourceError::NotFound("there is no such run".to_owned()))
}

impl UserRuns {
    /// Reads all runs, so that the first request does not wait for what they have recorded until then.
    pub(crate) fn read_ahead(&self) {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner).read(all_states());
    }

    fn tracked(&self, run: &str) -> Result<Arc<Mutex<TrackedRun>>, SourceError> {
        let known = self.tracked.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(Mutex::new(TrackedRun::new(find(run)?)));
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
        Ok(listing.read(all_states()).into_iter().map(|listed| listed.object.clone()).collect())
    }

    fn show(&self, run: &str) -> Result<Value, SourceError> {
        self.read_tracked(run, shown_run::show)
    }

    fn iterations(&self, run: &str, before: Option<u64>) -> Result<Value, SourceError> {
        self.read_tracked(run, |tracked| shown_run::iterations(tracked, before))
    }

    fn follow(&self, run: &str, start: StartAt) -> Result<Box<dyn RecordStream>, SourceError> {
        Ok(Box::new(Records::new(&find(run)?, start)))
    }

    fn iteration(&self, run: &str, number: u64, part: IterationPart) -> Result<Value, SourceError> {
        let located = find(run)?;
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
        connection: Connection,
    ) -> Result<String, SourceError> {
        controls::send(&find(run)?, control, arguments, key, connection)
    }

    fn metrics(&self) -> Result<String, SourceError> {
        let mut listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let objects: Vec<&Value> =
            listing.read(all_states()).into_iter().map(|listed| &listed.object).collect();
        Ok(metrics::format(&objects))
    }
}

/// A command's error as the interface says it.
fn refused(error: &CommandError) -> SourceError {
    match error.code() {
        exit::USAGE => SourceError::Refused(error.summary()),
        _ => SourceError::Failed(error.summary()),
    }
}
