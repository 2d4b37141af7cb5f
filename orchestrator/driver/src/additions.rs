//! Items that people add, at any time.
//!
//! While a driver works, the file is the agent's to change and the driver's to restore. What a person adds
//! then is stored in the state directory, and the driver adds it as soon as the iteration is over. So it
//! is never taken for the agent's.

use ralph_orchestrator_backlog::{Backlog, BacklogItem, BacklogSnapshot, NewItem};
use ralph_orchestrator_store::{Disk, Layout, SeriesFiles, SeriesLock, StateError};

use crate::error::DriverError;
use crate::iteration_base::read_base;
use crate::ledger::BacklogLedger;
use crate::record::SeriesRecord;

const PREFIX: &str = "addition-";

/// What became of an item that was to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// It is in the backlog, with this id.
    Added(String),
    /// It will be, as soon as the running iteration is over, or by the next driver if it was interrupted.
    Queued,
}

/// Adds an item: at once if no driver works on the backlog and none was killed in an iteration.
///
/// # Errors
/// The backlog refuses it, also where it would only be added later; or a file cannot be read or written.
pub fn add_item(
    backlog: &dyn Backlog,
    disk: &Disk,
    layout: &Layout,
    item: &NewItem,
) -> Result<AddOutcome, DriverError> {
    // Without any state nobody works, and adding an item is no reason to make one.
    let Some(files) = SeriesFiles::open(disk, layout)? else {
        return Ok(AddOutcome::Added(backlog.add_item(item)?.0));
    };
    // After a kill the next driver takes back what the agent made of the file, and anything with it.
    match SeriesLock::take(disk, layout) {
        Ok(_lock) if read_base(&files)?.is_none() => {
            Ok(AddOutcome::Added(backlog.add_item(item)?.0))
        }
        Ok(_) | Err(StateError::Busy { .. }) => {
            check_queued(backlog, &files, item)?;
            let source = |source| DriverError::Encoding { what: "the new item", source };
            let text = serde_json::to_vec(item).map_err(source)?;
            let name = format!("{PREFIX}{}", uuid::Uuid::now_v7());
            files.write(&name, &text)?;
            Ok(AddOutcome::Queued)
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes sure that a new item can be added to the version before the running iteration and the items that
/// wait already. What the agent has made of the file meanwhile is taken back, so it does not count.
fn check_queued(
    backlog: &dyn Backlog,
    files: &SeriesFiles,
    item: &NewItem,
) -> Result<(), DriverError> {
    let mut version = match read_base(files)? {
        Some((_, bytes)) => bytes,
        None => backlog.load()?.bytes,
    };
    for name in files.names(PREFIX)? {
        let Some(text) = files.read(&name)? else { continue };
        let Ok(waiting) = serde_json::from_slice(&text) else { continue };
        // One that is refused was added this moment.
        if let Ok((_, after)) = backlog.preview_add(&version, &waiting) {
            version = after.bytes;
        }
    }
    backlog.preview_add(&version, item)?;
    Ok(())
}

/// What the driver did with a request to add an item.
pub(crate) struct Addition {
    /// The name of its file, to be removed once the record is safe.
    pub(crate) name: String,
    pub(crate) record: SeriesRecord,
    /// For people.
    pub(crate) message: String,
}

/// Adds the items that wait. With `after_crash`, an item that is there already was added by a driver that
/// was killed before it could record that.
pub(crate) fn take_additions(
    backlog: &dyn Backlog,
    files: &SeriesFiles,
    ledger: &BacklogLedger,
    after_crash: bool,
) -> Result<Vec<Addition>, DriverError> {
    let mut taken = Vec::new();
    for name in files.names(PREFIX)? {
        if ledger.additions.contains(&name) {
            files.remove(&name)?;
            continue;
        }
        let Some(text) = files.read(&name)? else { continue };
        let source = |source| DriverError::Encoding { what: "an item to be added", source };
        let item: NewItem = serde_json::from_slice(&text).map_err(source)?;
        let known = if after_crash { find_same(&backlog.load()?, &item) } else { None };
        let added = match known {
            Some(id) => Ok(id),
            None => backlog.add_item(&item).map(|(id, _)| id),
        };
        let (id, problem, message) = match added {
            Ok(id) => {
                let message = format!("item `{id}` was added: {}", item.title);
                (Some(id), None, message)
            }
            Err(error) => (None, Some(error.to_string()), error.to_string()),
        };
        let record = SeriesRecord::ItemAdded { addition: name.clone(), item: id, problem };
        taken.push(Addition { name, record, message });
    }
    Ok(taken)
}

fn find_same(snapshot: &BacklogSnapshot, new: &NewItem) -> Option<String> {
    let is_same = |item: &&BacklogItem| {
        (&item.title, &item.description, &item.criteria)
            == (&new.title, &new.description, &new.criteria)
            && new.id.as_ref().is_none_or(|id| *id == item.id)
    };
    snapshot.items.iter().rev().find(is_same).map(|item| item.id.clone())
}
