//! Names of adapters, detectors and validators, and how each is built.
//!
//! The engine knows none of them by name; the command line fills the registry.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use ralph_orchestrator_contract::{
    Agent, BuildContext, BuildError, CompletionDetector, EvidenceValidator,
};

/// What a factory comes to.
pub type Built<T> = Result<Box<T>, BuildError>;
/// What a factory that takes its time comes to.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Built<T>> + Send + 'a>>;
type Now<T> = Box<dyn Fn(Value, &BuildContext) -> Built<T> + Send + Sync>;
type OneOf<T> =
    Box<dyn for<'a> Fn(Option<&'a str>, Value, &'a BuildContext) -> Later<'a, T> + Send + Sync>;

/// A factory of several members.
struct Family<T: ?Sized> {
    factory: OneOf<T>,
    digest: Option<String>,
}

/// Factories by name.
pub struct Kinds<T: ?Sized> {
    one: BTreeMap<String, Now<T>>,
    families: BTreeMap<String, Family<T>>,
}

impl<T: ?Sized> Default for Kinds<T> {
    fn default() -> Self {
        Self { one: BTreeMap::new(), families: BTreeMap::new() }
    }
}

impl<T: ?Sized> Kinds<T> {
    /// Registers a factory; a later one of the same name takes its place.
    pub fn add<F>(&mut self, name: &str, factory: F)
    where
        F: Fn(Value, &BuildContext) -> Built<T> + Send + Sync + 'static,
    {
        self.one.insert(name.to_owned(), Box::new(factory));
    }

    /// Registers a factory that takes its time, for `name` and for all that is called `name/MEMBER`: it
    /// is told the member. What it builds is told from what it would build of another content by
    /// `digest`, see [`digest`](Self::digest).
    pub fn add_async<F>(&mut self, name: &str, digest: Option<String>, factory: F)
    where
        F: for<'a> Fn(Option<&'a str>, Value, &'a BuildContext) -> Later<'a, T>
            + Send
            + Sync
            + 'static,
    {
        self.families.insert(name.to_owned(), Family { factory: Box::new(factory), digest });
    }

    /// Whether there is a factory of that name.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.one.contains_key(name) || self.family(name).is_some()
    }

    /// Builds what is called `name` from its table; `None` if there is no such factory.
    pub async fn build(
        &self,
        name: &str,
        table: Value,
        context: &BuildContext,
    ) -> Option<Built<T>> {
        if let Some(factory) = self.one.get(name) {
            return Some(factory(table, context));
        }
        let (family, member) = self.family(name)?;
        Some((family.factory)(member, table, context).await)
    }

    /// Digest of the code behind a name, if it is not this program's own.
    #[must_use]
    pub fn digest(&self, name: &str) -> Option<&str> {
        let (family, _) = self.family(name).filter(|_| !self.one.contains_key(name))?;
        family.digest.as_deref()
    }

    /// All names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.one.keys().chain(self.families.keys()).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(String::as_str).collect()
    }

    fn family<'a>(&self, name: &'a str) -> Option<(&Family<T>, Option<&'a str>)> {
        if let Some(whole) = self.families.get(name) {
            return Some((whole, None));
        }
        let (first, member) = name.split_once('/')?;
        Some((self.families.get(first)?, Some(member)))
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
