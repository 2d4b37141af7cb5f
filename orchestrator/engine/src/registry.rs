//! Names of adapters, detectors and validators, and how each is built.
//!
//! The engine knows none of them by name; the command line fills the registry.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use ralph_orchestrator_contract::{
    Agent, BuildContext, BuildError, CompletionDetector, EvidenceValidator, FactoryError,
};
use ralph_orchestrator_workspace::GuardedPaths;
use serde_json::Value;

use crate::hooks::Hooks;
use crate::read_only_agents::ReadOnlyAgents;
use crate::workspace_setup::WorkspaceSetup;

/// The result of a factory.
pub type BuildResult<T> = Result<Box<T>, BuildError>;
/// The result of an asynchronous factory.
pub type BuildFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<Box<T>, FactoryError>> + Send + 'a>>;
type SyncFactory<T> = Box<dyn Fn(Value, &BuildContext) -> BuildResult<T> + Send + Sync>;
type AsyncFactory<T> = Box<
    dyn for<'a> Fn(Option<&'a str>, Value, &'a BuildContext) -> BuildFuture<'a, T> + Send + Sync,
>;

/// The factory of a plugin, which may provide several members.
struct PluginFactory<T: ?Sized> {
    factory: AsyncFactory<T>,
    digest: Option<String>,
}

/// Factories by name.
pub struct FactoryMap<T: ?Sized> {
    built_in: BTreeMap<String, SyncFactory<T>>,
    plugins: BTreeMap<String, PluginFactory<T>>,
}

impl<T: ?Sized> Default for FactoryMap<T> {
    fn default() -> Self {
        Self { built_in: BTreeMap::new(), plugins: BTreeMap::new() }
    }
}

impl<T: ?Sized> FactoryMap<T> {
    /// Registers a factory; a later one of the same name takes its place.
    pub fn add<F>(&mut self, name: &str, factory: F)
    where
        F: Fn(Value, &BuildContext) -> BuildResult<T> + Send + Sync + 'static,
    {
        self.built_in.insert(name.to_owned(), Box::new(factory));
    }

    /// Registers an asynchronous factory for `name` and for every `name/MEMBER`, which is passed to it.
    /// `digest` identifies its code, see [`digest`](Self::digest).
    pub fn add_async<F>(&mut self, name: &str, digest: Option<String>, factory: F)
    where
        F: for<'a> Fn(Option<&'a str>, Value, &'a BuildContext) -> BuildFuture<'a, T>
            + Send
            + Sync
            + 'static,
    {
        self.plugins.insert(name.to_owned(), PluginFactory { factory: Box::new(factory), digest });
    }

    /// Takes a factory away.
    pub fn remove(&mut self, name: &str) {
        self.built_in.remove(name);
        self.plugins.remove(name);
    }

    /// Returns whether there is a factory of that name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.built_in.contains_key(name) || self.plugin(name).is_some()
    }

    /// Builds what is called `name` from its table; `None` if there is no such factory.
    pub async fn build(
        &self,
        name: &str,
        table: Value,
        context: &BuildContext,
    ) -> Option<Result<Box<T>, FactoryError>> {
        if let Some(factory) = self.built_in.get(name) {
            return Some(factory(table, context).map_err(FactoryError::from));
        }
        let (plugin, member) = self.plugin(name)?;
        Some((plugin.factory)(member, table, context).await)
    }

    /// Returns the digest of the code behind a name, unless it is this program's own.
    #[must_use]
    pub fn digest(&self, name: &str) -> Option<&str> {
        let (plugin, _) = self.plugin(name).filter(|_| !self.built_in.contains_key(name))?;
        plugin.digest.as_deref()
    }

    /// Returns all names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.built_in.keys().chain(self.plugins.keys()).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(String::as_str).collect()
    }

    fn plugin<'a>(&self, name: &'a str) -> Option<(&PluginFactory<T>, Option<&'a str>)> {
        if let Some(whole) = self.plugins.get(name) {
            return Some((whole, None));
        }
        let (first, member) = name.split_once('/')?;
        Some((self.plugins.get(first)?, Some(member)))
    }
}

/// What is known of a run once its workspace is locked, and needed by whatever starts its processes.
#[derive(Clone, Debug, Default)]
pub struct LaunchContext {
    /// The lock that every process of the run has to inherit.
    pub guard: Option<Arc<File>>,
    /// Globs of what validators protect in the workspace.
    pub protects: Vec<String>,
    /// The orchestrator's own files and folders, which no agent has to write: state, configuration,
    /// and the prompt if it is fixed.
    pub orchestrator_paths: Vec<PathBuf>,
}

impl LaunchContext {
    /// Returns what agents' own tools must not write in this workspace; `None` if a glob cannot be used.
    pub(crate) fn write_guard(&self, workspace: &Path) -> Option<Arc<GuardedPaths>> {
        GuardedPaths::new(workspace, &self.protects, &self.orchestrator_paths).ok().map(Arc::new)
    }
}

/// Builds what runs a command that prepares a place, from its words.
type SetupFactory = SyncFactory<dyn WorkspaceSetup>;

/// Receives the launch context of a run.
type LaunchHook = Box<dyn Fn(LaunchContext) + Send + Sync>;

/// Everything that a configuration can name.
///
/// Agents, detectors and validators are built once, before the run is locked, so that a mistake in
/// the configuration changes nothing on disk. What depends on the lock follows in a [`LaunchContext`].
#[derive(Default)]
pub struct Registry {
    /// `[agent] adapter`.
    pub agents: FactoryMap<dyn Agent>,
    /// `[completion] detectors`.
    pub detectors: FactoryMap<dyn CompletionDetector>,
    /// `[[validator]] kind`.
    pub validators: FactoryMap<dyn EvidenceValidator>,
    /// `setup` in `[run]` and `[validation]`.
    pub(crate) setup: Option<SetupFactory>,
    hooks: Option<Arc<dyn Hooks>>,
    read_only_agents: Option<Arc<dyn ReadOnlyAgents>>,
    launch_hook: Option<LaunchHook>,
}

impl Registry {
    /// Has the commands that prepare a place built by `factory`.
    pub fn set_setup<F>(&mut self, factory: F)
    where
        F: Fn(Value, &BuildContext) -> BuildResult<dyn WorkspaceSetup> + Send + Sync + 'static,
    {
        self.setup = Some(Box::new(factory));
    }

    /// Has the user's commands at points of a run performed by this.
    pub fn set_hooks(&mut self, hooks: Arc<dyn Hooks>) {
        self.hooks = Some(hooks);
    }

    pub(crate) const fn hooks(&self) -> Option<&Arc<dyn Hooks>> {
        self.hooks.as_ref()
    }

    /// Has the agents that review the work made by this.
    pub fn set_read_only_agents(&mut self, agents: Arc<dyn ReadOnlyAgents>) {
        self.read_only_agents = Some(agents);
    }

    pub(crate) const fn read_only_agents(&self) -> Option<&Arc<dyn ReadOnlyAgents>> {
        self.read_only_agents.as_ref()
    }

    /// Has `hook` called with the launch context of a run before any of its processes starts.
    pub fn on_launch(&mut self, hook: impl Fn(LaunchContext) + Send + Sync + 'static) {
        self.launch_hook = Some(Box::new(hook));
    }

    /// Passes the launch context to whatever starts the processes of the run.
    pub fn set_launch_context(&self, context: LaunchContext) {
        if let Some(hook) = &self.launch_hook {
            hook(context);
        }
    }
}
