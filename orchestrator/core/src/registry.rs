//! Names of adapters, detectors and validators, and how each is built.
//!
//! The engine knows none of them by name; the command line fills the registry.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::contract::{Agent, BuildContext, BuildError, CompletionDetector, EvidenceValidator};

/// Builds a `T` from its table in the configuration.
pub type Factory<T> = Box<dyn Fn(Value, &BuildContext) -> Result<Box<T>, BuildError> + Send + Sync>;

/// Factories by name.
pub struct Kinds<T: ?Sized>(BTreeMap<String, Factory<T>>);

impl<T: ?Sized> Default for Kinds<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: ?Sized> Kinds<T> {
    /// Registers a factory; a later one of the same name takes its place.
    pub fn add<F>(&mut self, name: &str, factory: F)
    where
        F: Fn(Value, &BuildContext) -> Result<Box<T>, BuildError> + Send + Sync + 'static,
    {
        self.0.insert(name.to_owned(), Box::new(factory));
    }

    /// The factory of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Factory<T>> {
        self.0.get(name)
    }

    /// All names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

/// What the things in a registry are to be used for.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Has to be handed to every process that is started.
    pub guard: Option<Arc<File>>,
    /// What validators protect in the workspace: globs, as `protects` of each gives them.
    pub protects: Vec<String>,
    /// The orchestrator's own files and folders, which no agent has to write: state, configuration,
    /// and the prompt if it is fixed.
    pub own: Vec<PathBuf>,
}

/// Everything that a configuration can name.
#[derive(Default)]
pub struct Registry {
    /// `[agent] adapter`.
    pub agents: Kinds<dyn Agent>,
    /// `[completion] detectors`.
    pub detectors: Kinds<dyn CompletionDetector>,
    /// `[[validator]] kind`.
    pub validators: Kinds<dyn EvidenceValidator>,
}
