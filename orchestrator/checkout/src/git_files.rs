//! Git's own files, as they were when the run began and as they are.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::CheckoutError;
use crate::inventory::{Inventory, Stamp};
use crate::layers::Layer;
use crate::repository::{GIT, REPOSITORY, is_folder, is_shared, is_state, is_withheld};

/// Copies them, and returns what they are.
pub(crate) fn copy(git: &Path, storage: &Path) -> Result<Inventory, CheckoutError> {
    let inventory = Inventory::take(git, &|path| is_shared(path) || is_withheld(path))?;
    let root = storage.join(REPOSITORY);
    fs::create_dir(&root).map_err(CheckoutError::io("create", &root))?;
    let mut copies = Layer::create(root.join(GIT), git)?;
    for (path, stamp) in &inventory.entries {
        if !stamp.is_folder() {
            copies.copy(path, stamp.modified_ns())?;
        }
    }
    copies.finish()?;
    Ok(inventory)
}

/// Git's own files as checks see them: as they were when the run began.
pub(crate) struct SeenGit<'a> {
    pub(crate) folder: &'a Path,
    /// What was not there then, and what no check is to see, folders as a whole. What was there is covered by copies.
    pub(crate) new: Vec<PathBuf>,
    /// What tells the state of the repository and is not as it was then.
    pub(crate) changes: Inventory,
}

impl<'a> SeenGit<'a> {
    /// Compares what is in git's folder with what was there.
    pub(crate) fn look(folder: &'a Path, start: &Inventory) -> Result<Self, CheckoutError> {
        // Whatever has taken its place is covered as a whole.
        if !is_folder(folder) {
            return Ok(Self { folder, new: Vec::new(), changes: Inventory::default() });
        }
        let now = Inventory::take(folder, &is_shared)?;
        Ok(Self { folder, new: find_new(&now, start), changes: find_changes(&now, start) })
    }
}

fn find_new(now: &Inventory, start: &Inventory) -> Vec<PathBuf> {
    let mut new: Vec<PathBuf> = Vec::new();
    for (path, stamp) in &now.entries {
        let is_named = new.last().is_some_and(|last| path.starts_with(last));
        let known = start.entries.get(path);
        let is_known = known.is_some_and(|known| known.is_folder() == stamp.is_folder());
        if !is_named && !is_known {
            new.push(path.clone());
        }
    }
    new
}

fn find_changes(now: &Inventory, start: &Inventory) -> Inventory {
    let tells_state = |(path, stamp): &(&PathBuf, &Stamp)| {
        is_state(path) && !is_withheld(path) && !stamp.is_folder()
    };
    let is_other = |(path, stamp): &(&PathBuf, &Stamp)| {
        !start.entries.get(*path).is_some_and(|known| known.is_same(stamp))
    };
    let changed = now.entries.iter().filter(tells_state).filter(is_other);
    let is_gone = |(path, _): &(&PathBuf, &Stamp)| !now.entries.contains_key(*path);
    let gone = start.entries.iter().filter(tells_state).filter(is_gone);
    let entries = changed.chain(gone).map(|(path, stamp)| (path.clone(), *stamp));
    Inventory { entries: entries.collect() }
}
