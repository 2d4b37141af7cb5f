//! The built-in adapters, detectors and validators, and those of plugins.

use std::path::PathBuf;

use ralph_adapter_claude_sdk::WriteGuard;
use ralph_orchestrator_config::Defaults;
use ralph_orchestrator_contract::{BuildContext, BuildError};
use ralph_orchestrator_core::registry::{Registry, Surroundings};
use ralph_orchestrator_core::workspace::Guard;
use ralph_orchestrator_detectors::{marker, promise};
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};

use crate::plugins::Plugins;
use crate::sandbox::SandboxPolicy;

/// Returns the names of the adapter and the detectors where a configuration names none.
pub(crate) fn config_defaults() -> Defaults {
    Defaults {
        adapter: "claude-cli".to_owned(),
        detectors: vec!["promise".to_owned(), "marker".to_owned()],
    }
}

/// Returns a registry for commands that start no agent: without sandbox, guard and kill switch.
pub(crate) fn unsupervised(plugins: &Plugins) -> Registry {
    for_run(plugins, None, Surroundings::default(), KillSwitch::default())
}

/// Returns a registry for a run. Agents, but not validators, are confined by `sandbox`; `switch` kills all
/// processes.
pub(crate) fn for_run(
    plugins: &Plugins,
    sandbox: Option<&SandboxPolicy>,
    surroundings: Surroundings,
    switch: KillSwitch,
) -> Registry {
    let Surroundings { guard, protects, own } = surroundings;
    let supervisor = Supervisor::this_binary().with_kill_switch(switch);
    let supervisor = match guard {
        Some(guard) => {
            let guarded = supervisor.with_guard(guard);
            // Concurrently with the other preparations.
            guarded.prepare();
            guarded
        }
        None => supervisor,
    };
    let guarded = guarded(protects.clone(), own);
    let confined = match sandbox.cloned() {
        Some(policy) => {
            let policy = policy.with_readable(plugins.copies());
            supervisor.clone().with_sandbox(move || policy.resolve(&protects))
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

/// Returns the guard of an agent's own tools: protected paths and the orchestrator's own files.
fn guarded(
    globs: Vec<String>,
    own: Vec<PathBuf>,
) -> impl Fn(&BuildContext) -> Result<WriteGuard, BuildError> + Clone {
    move |context| {
        let guard = Guard::new(&context.workspace, &globs, &own)
            .map_err(|error| BuildError::at("", error.to_string()))?;
        Ok(WriteGuard::new(move |path| guard.guards(path)))
    }
}
