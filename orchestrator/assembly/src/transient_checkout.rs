//! A checkout for checks outside of any run: of the workspace as it is, removed with what they wrote.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_checkout::{Checkout, CheckoutSource, PreparedCheckout, Visibility};
use ralph_orchestrator_contract::LayeredFolder;
use ralph_orchestrator_engine::EngineError;
use ralph_orchestrator_safe_fs::remove_layer;
use ralph_orchestrator_store::{Disk, StateError};
use ralph_orchestrator_workspace::common_git_folder;

use crate::check_place::{FoundPlace, storage};
use crate::context::Context;
use crate::error::CommandError;

/// Where they are, among the states: each in a folder of its own, with a file that is locked as long as it is in use.
const ALL: &str = ".checks";
const LOCK: &str = "lock";

/// A checkout of the workspace as it is; nothing where checks run in the workspace.
pub struct TransientCheckout(Option<MadeCheckout>);

struct MadeCheckout {
    prepared: PreparedCheckout,
    folder: PathBuf,
    _lock: File,
}

impl TransientCheckout {
    /// Makes one where there can be one.
    ///
    /// # Errors
    /// The configuration asks for one and there can be none, or it cannot be made.
    pub async fn make(context: &Context) -> Result<Self, CommandError> {
        let Some(FoundPlace::Checkout) = FoundPlace::find(context).await? else {
            return Ok(Self(None));
        };
        let all = storage(context)?.join(ALL);
        Disk::default().create_dir(&all)?;
        let workspace = context.loaded.config.run.workspace.canonicalize()?;
        let git = common_git_folder(&workspace);
        let source = CheckoutSource { workspace, git, shown: Vec::new(), made: Vec::new() };
        let made = tokio::task::spawn_blocking(move || MadeCheckout::in_folder(&all, source));
        let made = made.await.map_err(|error| CommandError::internal(error.to_string()))??;
        Ok(Self(Some(made)))
    }

    /// Returns what checks see over the workspace.
    #[must_use]
    pub fn overlays(&self) -> &[LayeredFolder] {
        self.0.as_ref().map_or(&[], |made| &made.prepared.overlays)
    }
}

impl MadeCheckout {
    fn in_folder(all: &Path, source: CheckoutSource) -> Result<Self, CommandError> {
        let (folder, lock) = take_folder(all).map_err(StateError::io("create a folder in", all))?;
        let checkout = Checkout::begin(source, &folder.join("checkout"));
        // Nothing changes meanwhile that would be no work.
        let prepared = checkout.and_then(|made| made.prepare(&|_| true, Visibility::Cold));
        let prepared = prepared.map_err(EngineError::from)?;
        Ok(Self { prepared, folder, _lock: lock })
    }
}

impl Drop for MadeCheckout {
    /// What cannot be removed now is before the next one is made.
    fn drop(&mut self) {
        let _ = remove_layer(&self.folder);
    }
}

/// Makes a folder that nobody takes for an abandoned one.
fn take_folder(all: &Path) -> io::Result<(PathBuf, File)> {
    let of_all = File::create(all.join(LOCK))?;
    of_all.lock()?;
    remove_abandoned(all);
    let folder = tempfile::tempdir_in(all)?.keep();
    let lock = File::create(folder.join(LOCK))?;
    lock.lock()?;
    Ok((folder, lock))
}

/// Removes those whose process has ended without doing so.
fn remove_abandoned(all: &Path) {
    for folder in fs::read_dir(all).into_iter().flatten().flatten() {
        let folder = folder.path();
        if folder.ends_with(LOCK) {
            continue;
        }
        let is_held = File::open(folder.join(LOCK)).is_ok_and(|file| file.try_lock().is_err());
        if !is_held {
            let _ = remove_layer(&folder);
        }
    }
}
