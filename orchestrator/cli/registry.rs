//! The adapters, detectors and validators that are built in.

use std::fs::File;
use std::sync::Arc;

use orchestrator::registry::Registry;
use ralph_orchestrator_detectors::{marker, promise};
use ralph_orchestrator_supervise::{KillSwitch, Supervisor};

/// A registry of everything built in, for those who start nothing that lasts.
pub(crate) fn plain() -> Registry {
    built_in(None, KillSwitch::default())
}

/// A registry of everything built in. Processes that are started keep `guard` open and end at `switch`.
pub(crate) fn built_in(guard: Option<Arc<File>>, switch: KillSwitch) -> Registry {
    let supervisor = Supervisor::this_binary().with_kill_switch(switch);
    let supervisor = match guard {
        Some(guard) => supervisor.with_guard(guard),
        None => supervisor,
    };
    let mut registry = Registry::default();

    let s = supervisor.clone();
    registry.agents.add("claude-cli", move |config, context| {
        ralph_adapter_claude_cli::build(config, context, &s)
    });
    let s = supervisor.clone();
    registry
        .agents
        .add("command", move |config, context| ralph_adapter_command::build(config, context, &s));
    let s = supervisor.clone();
    registry
        .agents
        .add("replay", move |config, context| ralph_adapter_replay::build(config, context, &s));

    registry.detectors.add("promise", promise::build);
    registry.detectors.add("marker", marker::build);

    registry.validators.add("command", move |config, context| {
        ralph_validator_command::build(config, context, &supervisor)
    });
    registry.validators.add("evidence-files", ralph_validator_evidence_files::build);
    registry.validators.add("protected-paths", ralph_validator_protected_paths::build);
    registry
}
