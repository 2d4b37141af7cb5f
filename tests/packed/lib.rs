//! The adapter `command` as a plugin, so that the same agents can be driven by either.

use ralph_orchestrator_plugin_sdk::export_plugin;
use ralph_orchestrator_supervisor::Supervisor;
use serde_json::Value;

export_plugin! {
    /// Drives any program as an agent.
    agent "command", |table: Value, context| {
        // The program that has loaded this library starts shims for the orchestrator, too.
        ralph_adapter_command::build(table, context, &Supervisor::this_binary())
    };
}
