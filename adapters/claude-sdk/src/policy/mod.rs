//! Calls of tools that are refused, and the reasons given to the model.

pub(crate) mod rule;
mod shell;
pub(crate) mod tools;

use ralph_adapter_common::WriteGuard;
use serde_json::Value;

use crate::control::text;
use rule::Rule;
use tools::{PathContext, SHELL, WRITERS};

/// Refuses calls of tools, whatever the permission mode.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    deny: Vec<Rule>,
    guard: WriteGuard,
}

impl Policy {
    pub(crate) const fn new(deny: Vec<Rule>, guard: WriteGuard) -> Self {
        Self { deny, guard }
    }

    /// Returns why this call is refused, for the model.
    pub(crate) fn refusal(&self, tool: &str, input: &Value, paths: &PathContext) -> Option<String> {
        if let Some(path) = self.guarded_target(tool, input, paths) {
            return Some(format!(
                "{path} is protected: this run's orchestrator lets nobody change it, and a change \
                 would have the work rejected. Leave it as it is, and do the task without it."
            ));
        }
        self.deny.iter().find(|rule| rule.matches(tool, input, paths)).map(Rule::reason)
    }

    fn guarded_target(&self, tool: &str, input: &Value, paths: &PathContext) -> Option<String> {
        if tool == SHELL {
            return shell::written_paths(&text(input, "command")?, paths)
                .into_iter()
                .find(|path| self.guard.is_guarded(path))
                .map(|path| path.display().to_string());
        }
        let (_, key) = WRITERS.iter().find(|(name, _)| *name == tool)?;
        let written = text(input, key)?;
        self.guard.is_guarded(&paths.resolve(&written)).then_some(written)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use serde_json::json;

    fn paths() -> PathContext {
        let workspace = PathBuf::from("/ws");
        PathContext { cwd: workspace.clone(), workspace, home: Some("/home/me".into()) }
    }

    fn policy() -> Policy {
        let guarded = ["/ws/tests/a.py", "/state/key", "/home/me/x"];
        let guards = move |path: &Path| guarded.iter().any(|guarded| path == Path::new(guarded));
        let push = Rule::new("Bash(git push:*)", Some("pushing is for people".to_owned())).unwrap();
        Policy::new(vec![push], WriteGuard::new(guards))
    }

    #[test]
    fn writing_tools_are_refused_what_is_guarded() {
        for (tool, input) in [
            ("Write", json!({"file_path": "/ws/tests/a.py"})),
            ("Edit", json!({"file_path": "tests/a.py"})),
            ("MultiEdit", json!({"file_path": "/state/key"})),
            ("NotebookEdit", json!({"notebook_path": "~/x"})),
            ("Bash", json!({"command": "echo x >tests/a.py"})),
        ] {
            let refusal_text = policy().refusal(tool, &input, &paths()).unwrap();
            assert!(refusal_text.contains("is protected"), "{tool}: {refusal_text}");
        }
        for (tool, input) in [
            ("Read", json!({"file_path": "/ws/tests/a.py"})),
            ("Write", json!({"file_path": "/ws/tests/b.py"})),
            ("Write", json!({})),
            ("Write", json!("/ws/tests/a.py")),
            ("Bash", json!({"command": "cat tests/a.py"})),
        ] {
            assert_eq!(policy().refusal(tool, &input, &paths()), None, "{tool} {input}");
        }
    }

    #[test]
    fn a_denied_call_is_refused_with_its_reason() {
        let input = json!({"command": "cd x && git push origin main"});
        let refusal_text = policy().refusal("Bash", &input, &paths()).unwrap();
        assert!(
            refusal_text.contains("Bash(git push:*)")
                && refusal_text.contains("pushing is for people"),
            "{refusal_text}"
        );
    }
}
