//! The adapters, detectors and validators that are built in, and those of plugins.

use std::path::PathBuf;

use ralph_adapter_claude_sdk::WriteGuard;
use ralph_orchestrator_config::Defaults;
use ralph_orchestrator_contract::{BuildContext, BuildError};
use ralph_orchestrator_core::registry::{Registry, Surroundings};
use ralph_orchestrator_core::workspace::GuardedPaths;
use ralph_orchestrator_detectors::{marker, promise};
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};

use crate::plugins::Plugins;
use crate::sandbox::Policy;

/// Returns the names of the adapter and the detectors where a configuration names none.
pub(crate) fn config_defaults() -> Defaults {
    Defaults {
        adapter: "claude-cli".to_owned(),
        detectors: vec!["promise".to_owned(), "marker".to_owned()],
    }
}

/// A registry of everything, for those who start nothing that lasts.
pub(crate) fn plain(plugins: &Plugins) -> Registry {
    whole(plugins, None, Surroundings::default(), KillSwitch::default())
}

/// A registry of everything. Agents, but not validators, are confined by `sandbox`; all
/// processes end at `switch`.
pub(crate) fn whole(
    plugins: &Plugins,
    sandbox: Option<&Policy>,
    surroundings: Surroundings,
    switch: KillSwitch,
) -> Registry {
    let Surroundings { guard, protects, own } = surroundings;
    let supervisor = Supervisor::this_binary().with_kill_switch(switch);
    let supervisor = match guard {
        Some(guard) => {
            let guarded = supervisor.with_guard(guard);
            // While everything else is looked at.
            guarded.prepare();
            guarded
        }
        None => supervisor,
    };
    let guarded = guarded(protects.clone(), own);
    let confined = match sandbox.cloned() {
        Some(policy) => {
            let policy = policy.reading(plugins.copies());
            supervisor.clone().with_sandbox(move || policy.now(&protects))
        }
        None => supervisor.clone(),
    };
    let mut registry = Registry::default();
    plugins.register(&mut registry, &confined, &supervisor);

    let (s, guards) = (confined.clone(), guarded.clone());
    registry.agents.add("acp", move |config, context| {
        ralph_adapter_acp::build(config, context, &s, guards(context)?)
    });
    let s = confined.clone();
    registry.agents.add("claude-cli", move |config, context| {
        ralph_adapter_claude_cli::build(config, context, &s)
    });
    let (s, guards) = (confined.clone(), guarded);
    registry.agents.add("claude-sdk", move |config, context| {
        ralph_adapter_claude_sdk::build(config, context, &s, guards(context)?)
    });
    let s = confined.clone();
    registry
        .agents
        .add("codex", move |config, context| ralph_adapter_codex::build(config, context, &s));
    let s = confined.clone();
    registry
        .agents
        .add("command", move |config, context| ralph_adapter_command::build(config, context, &s));
    registry.agents.add("replay", move |config, context| {
        ralph_adapter_replay::build(config, context, &confined)
    });

    registry.detectors.add("promise", promise::build);
    registry.detectors.add("marker", marker::build);

    registry.validators.add("command", move |config, context| {
        ralph_validator_command::build(config, context, &supervisor)
    });
    registry.validators.add("evidence-files", ralph_validator_evidence_files::build);
    registry.validators.add("protected-paths", ralph_validator_protected_paths::build);
    registry
}

/// What agents are refused to write: what is protected, and the orchestrator's own files.
fn guarded(
    globs: Vec<String>,
    own: Vec<PathBuf>,
) -> impl Fn(&BuildContext) -> Result<WriteGuard, BuildError> + Clone {
    move |context| {
        let guard = GuardedPaths::new(&context.workspace, &globs, &own)
            .map_err(|error| BuildError::at("", error.to_string()))?;
        Ok(WriteGuard::new(move |path| guard.contains(path)))
    }
}
