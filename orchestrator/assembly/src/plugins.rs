//! The plugins of a configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_backlog::{Backlog, open_backlog_of};
use ralph_orchestrator_config::{ConfigErrors, PluginConfig};
use ralph_orchestrator_contract::Agent;
use ralph_orchestrator_engine::plain_environment;
use ralph_orchestrator_engine::registry::{FactoryMap, Registry};
use ralph_orchestrator_plugin_host::{FrameTrace, Plugin, ProgramError, check};
use ralph_orchestrator_plugin_protocol::PluginHello;
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor, path_outside};
use serde_json::json;

use crate::backlog_keys::backlog_file;
use crate::compiled_in::CompiledIn;
use crate::context::Context;
use crate::plugin_attachment::PluginAttachment;
use crate::served_agent::ServedAgent;

/// The plugins of a configuration; none of their code has run.
#[derive(Clone)]
pub struct Plugins {
    /// What needs no plugin.
    compiled_in: Arc<CompiledIn>,
    all: Vec<Arc<Plugin>>,
    /// The private copies of libraries.
    copies: Vec<PathBuf>,
}

impl Plugins {
    /// Returns no plugins, beside what is compiled in.
    pub fn none(compiled_in: &Arc<CompiledIn>) -> Self {
        Self { compiled_in: Arc::clone(compiled_in), all: Vec::new(), copies: Vec::new() }
    }

    /// Returns what is compiled in.
    pub fn compiled_in(&self) -> &CompiledIn {
        &self.compiled_in
    }

    /// Adds a plugin, and copies its library.
    ///
    /// # Errors
    /// It cannot be used.
    pub(crate) fn add(
        &mut self,
        context: &Context,
        name: &str,
        config: &PluginConfig,
        attachment: Option<&PluginAttachment>,
    ) -> Result<(), ConfigErrors> {
        let mut env = plain_environment(&context.loaded, &context.vars);
        // What belongs to no iteration runs with the user's rights.
        if let Some(path) = env.get_mut("PATH") {
            *path = path_outside(path, &context.agent_places());
        }
        let pinned = config.digest.as_deref();
        let socket = attachment.map(|attachment| attachment.socket_of(name, config));
        let socket =
            socket.transpose().map_err(|(key, why)| error_at(context, name, Some(key), &why))?;
        let plugin = if let Some(socket) = socket.flatten() {
            Plugin::attached(name, socket, env)
        } else if let Some(library) = &config.library {
            let checked =
                check(library, pinned).and_then(|checked| checked.copy_to(&context.plugin_cache()));
            let copy = checked
                .map_err(|error| error_at(context, name, Some("library"), &error.to_string()))?;
            self.copies.push(copy.path().to_owned());
            Plugin::library(name, copy, env)
        } else {
            let path = context.vars.get("PATH").map(String::as_str).unwrap_or_default();
            let place = (context.loaded.dir(), path);
            Plugin::program(name, &config.command, place, pinned, env).map_err(|error| {
                let key = match error {
                    ProgramError::DigestMismatch { .. } => "digest",
                    _ => "command",
                };
                error_at(context, name, Some(key), &error.to_string())
            })?
        };
        self.all.push(Arc::new(plugin));
        Ok(())
    }

    /// Gives `trace` what passes in all sessions from now on.
    pub fn trace_frames(&self, trace: &FrameTrace) {
        self.all.iter().for_each(|plugin| plugin.trace_frames(Arc::clone(trace)));
    }

    /// Returns the digest of each plugin.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let version = |plugin: &Arc<Plugin>| {
            (format!("plugin {}", plugin.name()), plugin.digest().to_owned())
        };
        self.all.iter().map(version).collect()
    }

    /// Returns the files that must be readable to load the libraries.
    pub fn copies(&self) -> Vec<PathBuf> {
        self.copies.clone()
    }

    /// Makes their items known: agents are started by `confined`, all else by `supervisor`.
    pub fn register(
        &self,
        registry: &mut Registry,
        confined: &Supervisor,
        supervisor: &Supervisor,
    ) {
        for plugin in &self.all {
            let name = plugin.name();
            let digest = Some(plugin.digest().to_owned());
            let (one, by) = (Arc::clone(plugin), confined.clone());
            registry.agents.add_async(name, digest.clone(), move |member, table, context| {
                let (one, by) = (Arc::clone(&one), by.clone());
                Box::pin(async move {
                    let agent = one.agent(member, table, context, &by).await?;
                    Ok(Box::new(ServedAgent(agent)) as Box<dyn Agent>)
                })
            });
            let (one, by) = (Arc::clone(plugin), supervisor.clone());
            registry.detectors.add_async(name, digest.clone(), move |member, table, context| {
                let (one, by) = (Arc::clone(&one), by.clone());
                Box::pin(async move { one.detector(member, table, context, &by).await })
            });
            let (one, by) = (Arc::clone(plugin), supervisor.clone());
            registry.validators.add_async(name, digest, move |member, table, context| {
                let (one, by) = (Arc::clone(&one), by.clone());
                Box::pin(async move { one.validator(member, table, context, &by).await })
            });
        }
    }

    /// Makes their formats of backlogs known.
    pub fn register_backlogs(&self, formats: &mut FactoryMap<dyn Backlog>) {
        for plugin in &self.all {
            let (name, digest) = (plugin.name(), Some(plugin.digest().to_owned()));
            let one = Arc::clone(plugin);
            formats.add_async(name, digest, move |member, table, context| {
                let one = Arc::clone(&one);
                Box::pin(async move {
                    let (file, order) = backlog_file(table, context)?;
                    let by = Supervisor::this_binary().with_kill_switch(KillSwitch::default());
                    let format = one.backlog(member, json!({}), context, &by).await?;
                    let name = member.map(|member| format!("{}/{member}", one.name()));
                    let name = name.as_deref().unwrap_or(one.name());
                    Ok(open_backlog_of(format, name, file, order))
                })
            });
        }
    }

    /// Starts each plugin and returns its handshake.
    pub async fn handshakes(&self) -> Vec<(Arc<Plugin>, Result<PluginHello, String>)> {
        let supervisor = Supervisor::this_binary().with_kill_switch(KillSwitch::default());
        let mut hellos = Vec::new();
        for plugin in &self.all {
            let hello = plugin.probe(&supervisor).await.map_err(|closed| closed.0);
            hellos.push((Arc::clone(plugin), hello));
        }
        hellos
    }

    /// Starts each plugin and returns its summary or problem.
    pub async fn probe_all(&self) -> Vec<(String, Result<String, String>)> {
        let hellos = self.handshakes().await.into_iter();
        let look = |(plugin, hello): (Arc<Plugin>, Result<PluginHello, String>)| {
            let name = plugin.name().to_owned();
            match hello {
                Ok(hello) => (name, Ok(summary(&hello))),
                Err(problem) => {
                    let problem = format!("{name}: {problem}");
                    (name, Err(problem))
                }
            }
        };
        hellos.map(look).collect()
    }
}

/// Name, version, and what it provides, in one line.
pub fn summary(hello: &PluginHello) -> String {
    let items: Vec<String> =
        hello.provides.iter().map(|item| format!("{} {}", item.kind.word(), item.name)).collect();
    let provides = if items.is_empty() { "nothing".to_owned() } else { items.join(", ") };
    let version = if hello.version.is_empty() { "without a version" } else { &hello.version };
    format!("{} {version} provides {provides}", hello.name)
}

/// Returns the error at a key of a plugin, or at its table.
pub fn error_at(context: &Context, name: &str, key: Option<&str>, message: &str) -> ConfigErrors {
    let path: Vec<String> = ["plugins", name].into_iter().chain(key).map(str::to_owned).collect();
    context.loaded.error_at(&path, None, message).into()
}
