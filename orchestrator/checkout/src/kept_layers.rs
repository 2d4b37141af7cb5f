//! The layers that are kept for all validations of a run, and the record of what is in them: nobody else can have put anything
//! there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_safe_fs::remove_layer;
use serde::{Deserialize, Serialize};

use crate::error::CheckoutError;
use crate::inventory::Inventory;
use crate::repository::{REPOSITORY, is_folder};

/// A layer of what happened before any agent worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptLayer {
    /// What files that do not count as work held that the first checks wrote to.
    Before,
    /// What the setup made before the first checks.
    Setup,
    /// What the first checks wrote.
    Base,
}

impl KeptLayer {
    /// From the lowest up.
    pub(crate) const ALL: [Self; 3] = [Self::Before, Self::Setup, Self::Base];

    const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Setup => "setup",
            Self::Base => "base",
        }
    }
}

/// What is kept of the start and of the first checks: to be stored where nobody else can write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRecord {
    layers: Inventory,
    /// The digest of the copies of what counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copies: Option<String>,
    /// Files that were there and that the first checks wrote to.
    #[serde(default, skip_serializing_if = "Inventory::is_empty")]
    products: Inventory,
}

/// The layers in the storage, with git's own files as they were at the start.
#[derive(Debug)]
pub(crate) struct KeptLayers {
    storage: PathBuf,
    record: Mutex<KeptRecord>,
    /// It is not what was returned of it last.
    is_changed: AtomicBool,
}

impl KeptLayers {
    pub(crate) fn new(storage: PathBuf, record: KeptRecord) -> Self {
        Self { storage, record: Mutex::new(record), is_changed: AtomicBool::new(false) }
    }

    /// Returns the record, if it is not what was returned last.
    pub(crate) fn take_record(&self) -> Option<KeptRecord> {
        self.is_changed.swap(false, Ordering::Relaxed).then(|| self.record().clone())
    }

    /// Returns where a layer is, or would be.
    pub(crate) fn path(&self, layer: KeptLayer) -> PathBuf {
        self.storage.join(layer.name())
    }

    pub(crate) fn has(&self, layer: KeptLayer) -> bool {
        self.record().layers.entries.contains_key(Path::new(layer.name()))
    }

    /// Whether anything is in a layer.
    pub(crate) fn has_content(&self, layer: KeptLayer) -> bool {
        self.record().layers.beneath(layer.name()).len() > 1
    }

    /// Whether one of them has something at a path.
    pub(crate) fn have(&self, path: &Path) -> bool {
        let has = |layer| fs::symlink_metadata(self.path(layer).join(path)).is_ok();
        KeptLayer::ALL.into_iter().any(has)
    }

    /// Removes a layer. Returns where another one can be put instead.
    pub(crate) fn remove(&self, layer: KeptLayer) -> Result<PathBuf, CheckoutError> {
        let path = self.path(layer);
        remove_layer(&path).map_err(CheckoutError::errno("remove", &path))?;
        Ok(path)
    }

    /// Has the layers as they were recorded, without what was changed from outside. What the setup and the first checks wrote
    /// they can write again; git's own files are as they were nowhere else. Returns whether the products of the setup were
    /// lost.
    pub(crate) fn verify(&self) -> Result<bool, CheckoutError> {
        let storage = &self.storage;
        if !is_folder(storage) {
            remove_layer(storage).map_err(CheckoutError::errno("remove", storage))?;
            fs::create_dir_all(storage).map_err(CheckoutError::io("create", storage))?;
        }
        let (found, kept) = (self.look()?, self.record().layers.clone());
        if found == kept {
            return Ok(false);
        }
        if found.beneath(REPOSITORY) != kept.beneath(REPOSITORY) {
            return Err(CheckoutError::Damaged { path: self.storage.clone() });
        }
        let had_setup = self.has(KeptLayer::Setup);
        for layer in KeptLayer::ALL {
            self.remove(layer)?;
        }
        self.record_layers()?;
        Ok(had_setup)
    }

    /// Records what is in the layers.
    pub(crate) fn record_layers(&self) -> Result<(), CheckoutError> {
        let layers = self.look()?;
        self.change(|record| record.layers = layers);
        Ok(())
    }

    /// Records which files that were there the first checks wrote to.
    pub(crate) fn record_products(&self, products: Inventory) {
        self.change(|record| record.products = products);
    }

    /// Whether the first checks wrote to a file that was there.
    pub(crate) fn is_product(&self, path: &Path) -> bool {
        self.record().products.entries.contains_key(path)
    }

    /// Records the digest of the copies of what counted.
    pub(crate) fn record_copies(&self, digest: Option<String>) {
        self.change(|record| record.copies = digest);
    }

    /// Returns the digest of the copies of what counted.
    pub(crate) fn copies(&self) -> Option<String> {
        self.record().copies.clone()
    }

    fn look(&self) -> Result<Inventory, CheckoutError> {
        let names = || KeptLayer::ALL.map(KeptLayer::name).into_iter().chain([REPOSITORY]);
        let is_other = |path: &Path| !names().any(|name| path.starts_with(name));
        Inventory::take(&self.storage, &is_other)
    }

    fn change(&self, change: impl FnOnce(&mut KeptRecord)) {
        change(&mut self.record());
        self.is_changed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, KeptRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
