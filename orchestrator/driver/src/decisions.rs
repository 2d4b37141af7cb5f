//! What people decide about items, at any time: to leave one out, or to work on it again.
//!
//! While a driver works, it alone writes the record. What is decided then waits in the state directory until the
//! iteration is over, as items do that are added.

use ralph_orchestrator_backlog::{
    Backlog, BacklogError, BacklogSnapshot, ItemStatus, PlacementReason,
};
use ralph_orchestrator_store::{Disk, Layout, Series, SeriesFiles, SeriesLock, StateError};
use serde::{Deserialize, Serialize};

use crate::error::DriverError;
use crate::item_file::write_status;
use crate::iteration_base::read_base;
use crate::ledger::{BacklogLedger, read_ledger};
use crate::record::SeriesRecord;

const PREFIX: &str = "decision-";

/// What a person decides about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is left out, with those that depend on it.
    Skip,
    /// It is worked on again, in a new run.
    Retry,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// It holds. The ids of the items that are left out too.
    Holds {
        /// Those that depend on the item.
        left_out: Vec<String>,
    },
    /// It will, as soon as the running iteration is over, or by the next driver if it was interrupted.
    Queued,
}

/// A decision as it waits.
#[derive(Serialize, Deserialize)]
struct Request {
    item: String,
    decision: Decision,
}

impl Decision {
    /// Makes sure that it changes something.
    fn check(
        self,
        backlog: &dyn Backlog,
        (snapshot, item): (&BacklogSnapshot, &str),
        files: Option<&SeriesFiles>,
    ) -> Result<(), DriverError> {
        let path = backlog.path();
        let Some(found) = snapshot.find(item) else {
            return Err(
                BacklogError::UnknownItem { path: path.to_owned(), id: item.to_owned() }.into()
            );
        };
        let id = || item.to_owned();
        match self {
            _ if found.status == ItemStatus::Completed => {
                Err(DriverError::AlreadyComplete { item: id() })
            }
            Self::Skip if files.is_none() && !snapshot.storable.contains(&ItemStatus::Blocked) => {
                Err(DriverError::NotBegun { item: id(), path: path.display().to_string() })
            }
            Self::Skip => Ok(()),
            Self::Retry if found.status == ItemStatus::Blocked => Ok(()),
            Self::Retry => Err(DriverError::NotBlocked { item: id() }),
        }
    }

    fn to_record(self, item: &str) -> SeriesRecord {
        let item = item.to_owned();
        match self {
            Self::Skip => SeriesRecord::ItemSkipped { item },
            Self::Retry => SeriesRecord::ItemRetried { item },
        }
    }

    /// Writes it into the backlog, and returns what is recorded of it. Both can be repeated.
    fn write(self, backlog: &dyn Backlog, item: &str) -> Result<SeriesRecord, DriverError> {
        let status = match self {
            Self::Skip => ItemStatus::Blocked,
            Self::Retry => ItemStatus::Pending,
        };
        write_status(backlog, item, status)?;
        Ok(self.to_record(item))
    }
}

/// Decides about an item: at once if no driver works on the backlog and none was killed in an iteration.
///
/// # Errors
/// There is no such item, or nothing to decide about it; or a file cannot be read or written.
pub fn decide_item(
    backlog: &dyn Backlog,
    disk: &Disk,
    layout: &Layout,
    (item, decision): (&str, Decision),
) -> Result<DecisionOutcome, DriverError> {
    let Some(files) = SeriesFiles::open(disk, layout)? else {
        // Without any state nobody works.
        decision.check(backlog, (&backlog.load()?, item), None)?;
        decision.write(backlog, item)?;
        return Ok(DecisionOutcome::Holds { left_out: Vec::new() });
    };
    match SeriesLock::take(disk, layout) {
        Ok(_lock) if read_base(&files)?.is_none() => {
            decide_now(backlog, (disk, layout, &files), (item, decision))
        }
        Ok(_) | Err(StateError::Busy { .. }) => {
            let mut ledger = read_ledger(layout)?.unwrap_or_default();
            for (_, waiting) in read_requests(&files)? {
                ledger.apply(&waiting.decision.to_record(&waiting.item));
            }
            let mut snapshot = match read_base(&files)? {
                Some((_, bytes)) => backlog.parse(&bytes)?,
                None => backlog.load()?,
            };
            ledger.apply_to(&mut snapshot, false);
            decision.check(backlog, (&snapshot, item), Some(&files))?;
            let request = Request { item: item.to_owned(), decision };
            let source = |source| DriverError::Encoding { what: "the decision", source };
            let text = serde_json::to_vec(&request).map_err(source)?;
            files.write(&format!("{PREFIX}{}", uuid::Uuid::now_v7()), &text)?;
            Ok(DecisionOutcome::Queued)
        }
        Err(error) => Err(error.into()),
    }
}

/// Decides while nobody else can, after what was decided before.
fn decide_now(
    backlog: &dyn Backlog,
    (disk, layout, files): (&Disk, &Layout, &SeriesFiles),
    (item, decision): (&str, Decision),
) -> Result<DecisionOutcome, DriverError> {
    let mut ledger = BacklogLedger::default();
    let series = Series::open(disk, layout, |entry| ledger.apply(&entry.record))?;
    let mut series = series.ok_or_else(|| DriverError::NotBegun {
        item: item.to_owned(),
        path: backlog.path().display().to_string(),
    })?;
    for TakenDecision { name, record, .. } in take_decisions(backlog, files)? {
        series.append(&record)?;
        ledger.apply(&record);
        files.remove(&name)?;
    }
    let mut snapshot = backlog.load()?;
    ledger.apply_to(&mut snapshot, false);
    decision.check(backlog, (&snapshot, item), Some(files))?;
    let record = decision.write(backlog, item)?;
    series.append(&record)?;
    ledger.apply(&record);
    let mut snapshot = backlog.load()?;
    ledger.apply_to(&mut snapshot, false);
    let depends = |reason: &PlacementReason| matches!(reason, PlacementReason::LeftOut { skipped } if skipped == item);
    let left_out = snapshot.left_out().into_iter().filter(|placement| depends(&placement.reason));
    Ok(DecisionOutcome::Holds { left_out: left_out.map(|placement| placement.id).collect() })
}

fn read_requests(files: &SeriesFiles) -> Result<Vec<(String, Request)>, DriverError> {
    let mut requests = Vec::new();
    for name in files.names(PREFIX)? {
        let Some(text) = files.read(&name)? else { continue };
        let source = |source| DriverError::Encoding { what: "a decision about an item", source };
        requests.push((name, serde_json::from_slice(&text).map_err(source)?));
    }
    Ok(requests)
}

/// A decision that was waiting and now holds, once its record is safe.
pub(crate) struct TakenDecision {
    /// The name of its file, to be removed then.
    pub(crate) name: String,
    pub(crate) record: SeriesRecord,
    /// For people.
    pub(crate) message: String,
}

/// Writes what people decided meanwhile into the backlog.
pub(crate) fn take_decisions(
    backlog: &dyn Backlog,
    files: &SeriesFiles,
) -> Result<Vec<TakenDecision>, DriverError> {
    let take = |(name, Request { item, decision })| {
        let record = decision.write(backlog, &item)?;
        let message = match decision {
            Decision::Skip => format!("item `{item}` is skipped"),
            Decision::Retry => format!("item `{item}` is worked on again"),
        };
        Ok(TakenDecision { name, record, message })
    };
    read_requests(files)?.into_iter().map(take).collect()
}
