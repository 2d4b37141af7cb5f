//! A checkout for checks outside of any run: of the workspace as it is, removed with what they wrote.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_checkout::{
    Checkout, CheckoutSource, PreparedCheckout, Variant, Visibility,
};
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
    checkout: Checkout,
    /// Removed before the next one is made.
    prepared: Option<PreparedCheckout>,
    folder: PathBuf,
    _lock: File,
}

impl TransientCheckout {
    /// Makes one where there can be one.
    ///
    /// # Errors
    /// The configuration asks for one and there can be none, or it cannot be made.
    pub async fn make(context: &Context) -> Result<Self, CommandError> {
        Self::make_without(context, &[]).await
    }

    /// Makes one without what is at and beneath these paths, relative to the workspace, where there can be one.
    ///
    /// # Errors
    /// As for [`TransientCheckout::make`].
    pub async fn make_without(context: &Context, hidden: &[PathBuf]) -> Result<Self, CommandError> {
        match FoundPlace::find(context).await? {
            Some(FoundPlace::Checkout) => {
                Ok(Self(Some(MadeCheckout::make(context, hidden).await?)))
            }
            _ => Ok(Self(None)),
        }
    }

    /// Makes one, also where the configuration has checks run in the workspace.
    ///
    /// # Errors
    /// There can be none, or it cannot be made.
    pub async fn require(context: &Context) -> Result<Self, CommandError> {
        FoundPlace::require_checkout(context).await?;
        Ok(Self(Some(MadeCheckout::make(context, &[]).await?)))
    }

    /// Has checks see these files over the workspace, instead of what they saw before.
    ///
    /// # Errors
    /// There is no checkout, or it cannot be made.
    pub fn show(&mut self, variant: &Variant) -> Result<(), CommandError> {
        let Some(made) = &mut self.0 else {
            return Err(CommandError::internal("the checks run in no checkout"));
        };
        drop(made.prepared.take());
        let is_work = |_: &Path| true;
        let work = made.checkout.find_changed_work(&is_work).map_err(EngineError::from)?;
        let prepared = made.checkout.prepare_variant(&is_work, &work, variant);
        made.prepared = Some(prepared.map_err(EngineError::from)?);
        Ok(())
    }

    /// Returns what checks see over the workspace.
    #[must_use]
    pub fn overlays(&self) -> &[LayeredFolder] {
        let prepared = self.0.as_ref().and_then(|made| made.prepared.as_ref());
        prepared.map_or(&[], |prepared| &prepared.overlays)
    }
}

impl MadeCheckout {
    async fn make(context: &Context, hidden: &[PathBuf]) -> Result<Self, CommandError> {
        let all = storage(context)?.join(ALL);
        Disk::default().create_dir(&all)?;
        let workspace = context.loaded.config.run.workspace.canonicalize()?;
        let git = common_git_folder(&workspace);
        let (shown, made, hidden) = (Vec::new(), Vec::new(), hidden.to_vec());
        let source = CheckoutSource { workspace, git, shown, made, hidden };
        let made = tokio::task::spawn_blocking(move || Self::in_folder(&all, source));
        made.await.map_err(|error| CommandError::internal(error.to_string()))?
    }

    fn in_folder(all: &Path, source: CheckoutSource) -> Result<Self, CommandError> {
        let (folder, lock) = take_folder(all).map_err(StateError::io("create a folder in", all))?;
        let begun = Checkout::begin(source, &folder.join("checkout"));
        // Nothing changes meanwhile that would be no work.
        let made = begun.and_then(|checkout| {
            let prepared = checkout.prepare(&|_| true, Visibility::Cold)?;
            Ok((checkout, Some(prepared)))
        });
        let (checkout, prepared) = made.map_err(EngineError::from)?;
        Ok(Self { checkout, prepared, folder, _lock: lock })
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
