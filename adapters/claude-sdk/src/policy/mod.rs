//! What the agent must not do, and what it is told when it tries.

mod rule;
mod shell;

use std::path::PathBuf;

pub use ralph_adapter_common::Guarded;
use serde_json::Value;

use crate::control::text;
pub(crate) use rule::Rule;

/// Tools that write the file that an argument names, and the argument.
const WRITERS: [(&str, &str); 4] = [
    ("Write", "file_path"),
    ("Edit", "file_path"),
    ("MultiEdit", "file_path"),
    ("NotebookEdit", "notebook_path"),
];
pub(crate) const SHELL: &str = "Bash";

/// Where the agent is when it calls a tool.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) workspace: PathBuf,
    /// Its current folder.
    pub(crate) cwd: PathBuf,
    pub(crate) home: Option<PathBuf>,
}

impl Place {
    /// The absolute path that a word of the agent's means.
    fn path(&self, word: &str) -> PathBuf {
        match (word.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.cwd.join(word),
        }
    }
}

/// What is refused, whatever the permission mode.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    deny: Vec<Rule>,
    guarded: Guarded,
}

impl Policy {
    pub(crate) const fn new(deny: Vec<Rule>, guarded: Guarded) -> Self {
        Self { deny, guarded }
    }

    /// Why this call is refused, for the model; nothing if it is not.
    pub(crate) fn refusal(&self, tool: &str, input: &Value, place: &Place) -> Option<String> {
        if let Some(path) = self.guarded_target(tool, input, place) {
            return Some(format!(
                "{path} is protected: this run's orchestrator lets nobody change it, and a change \
                 would have the work rejected. Leave it as it is, and do the task without it."
            ));
        }
        self.deny.iter().find(|rule| rule.matches(tool, input, place)).map(Rule::reason)
    }

    fn guarded_target(&self, tool: &str, input: &Value, place: &Place) -> Option<String> {
        if tool == SHELL {
            return shell::targets(&text(input, "command")?, place)
                .into_iter()
                .find(|path| self.guarded.guards(path))
                .map(|path| path.display().to_string());
        }
        let (_, key) = WRITERS.iter().find(|(name, _)| *name == tool)?;
        let written = text(input, key)?;
        self.guarded.guards(&place.path(&written)).then_some(written)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use serde_json::json;

    fn place() -> Place {
        let workspace = PathBuf::from("/ws");
        Place { cwd: workspace.clone(), workspace, home: Some("/home/me".into()) }
    }

    fn policy() -> Policy {
        let guarded = ["/ws/tests/a.py", "/state/key", "/home/me/x"];
        let guards = move |path: &Path| guarded.iter().any(|guarded| path == Path::new(guarded));
        let push = Rule::new("Bash(git push:*)", Some("pushing is for people".to_owned())).unwrap();
        Policy::new(vec![push], Guarded::new(guards))
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
            let told = policy().refusal(tool, &input, &place()).unwrap();
            assert!(told.contains("is protected"), "{tool}: {told}");
        }
        for (tool, input) in [
            ("Read", json!({"file_path": "/ws/tests/a.py"})),
            ("Write", json!({"file_path": "/ws/tests/b.py"})),
            ("Write", json!({})),
            ("Write", json!("/ws/tests/a.py")),
            ("Bash", json!({"command": "cat tests/a.py"})),
        ] {
            assert_eq!(policy().refusal(tool, &input, &place()), None, "{tool} {input}");
        }
    }

    #[test]
    fn a_denied_call_is_refused_with_its_reason() {
        let input = json!({"command": "cd x && git push origin main"});
        let told = policy().refusal("Bash", &input, &place()).unwrap();
        assert!(
            told.contains("Bash(git push:*)") && told.contains("pushing is for people"),
            "{told}"
        );
    }
}
