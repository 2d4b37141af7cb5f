//! Checks of `[hooks]` and `[context]`.

use crate::diagnostics::Diagnostics;
use crate::model::{ContextCommand, HookSandbox, Hooks, SandboxMode};

/// Checks that each command names a program, and that there is the sandbox in which it is to run.
pub(super) fn check(hooks: &Hooks, sandbox: SandboxMode, diagnostics: &mut Diagnostics<'_>) {
    for (key, commands) in hooks.events() {
        for (index, command) in commands.iter().enumerate() {
            if command.first().is_none_or(String::is_empty) {
                let message = "expected a program and its arguments, such as [\"./tell.sh\"]";
                diagnostics.add(&["hooks", key, &index.to_string()], message);
            }
        }
    }
    if hooks.timeout.is_zero() {
        diagnostics.add(&["hooks", "timeout"], "must be greater than 0s");
    }
    if hooks.sandbox == HookSandbox::Always && sandbox == SandboxMode::Off {
        let message =
            "there is no sandbox: set `mode = \"landlock\"` in [sandbox], or leave this key out";
        diagnostics.add(&["hooks", "sandbox"], message);
    }
}

/// Checks the command whose output is given to agents.
pub(super) fn check_context(context: &ContextCommand, diagnostics: &mut Diagnostics<'_>) {
    if context.command.first().is_some_and(String::is_empty) {
        diagnostics.add(&["context", "command"], "expected a program and its arguments");
    }
    if context.timeout.is_zero() {
        diagnostics.add(&["context", "timeout"], "must be greater than 0s");
    }
    if context.max_bytes > ContextCommand::LARGEST {
        diagnostics.add(&["context", "max_bytes"], "must be at most \"1 MiB\"");
    }
}
