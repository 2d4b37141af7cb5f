//! Rules such as `Bash(git push:*)`.

use serde_json::Value;

use super::shell;
use super::tools::{PathContext, SHELL, WRITERS};
use crate::control::text;

/// A rule that denies calls of tools.
///
/// It is given to Claude Code, too, which knows forms of rules that are not known here; what is seen
/// here first is refused with the rule's reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    text: String,
    tool: String,
    /// What is in the parentheses.
    argument: Option<String>,
    reason: Option<String>,
}

impl Rule {
    /// Reads `Tool` or `Tool(what)`.
    pub(crate) fn new(rule: &str, reason: Option<String>) -> Result<Self, String> {
        let bad = || {
            format!(
                "`{rule}` is no rule; expected a tool, such as \"WebSearch\" or \"Bash(git push:*)\""
            )
        };
        let text = rule.trim();
        let (tool, argument) = match text.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(bad)?)),
            None => (text, None),
        };
        if tool.is_empty() || tool.contains([')', ' ', ',']) || argument == Some("") {
            return Err(bad());
        }
        Ok(Self {
            text: text.to_owned(),
            tool: tool.to_owned(),
            argument: argument.filter(|argument| *argument != "*").map(str::to_owned),
            reason,
        })
    }

    /// Returns the rule as it was configured.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Claude Code would take the whole tool away, so that nobody could be told the reason.
    pub(crate) const fn hides_a_reason(&self) -> bool {
        self.argument.is_none() && self.reason.is_some()
    }

    /// Returns the reason for the model.
    pub(crate) fn reason(&self) -> String {
        let Self { text, reason, .. } = self;
        match reason {
            Some(reason) => format!("`{text}` is denied: {reason}"),
            None => format!("`{text}` is denied by this run's configuration. Do without it."),
        }
    }

    /// Returns whether the rule denies this call.
    pub(crate) fn matches(&self, tool: &str, input: &Value, paths: &PathContext) -> bool {
        let Some(argument) = &self.argument else { return self.names(tool) };
        match self.tool.as_str() {
            SHELL => {
                tool == SHELL
                    && text(input, "command").is_some_and(|line| in_command(argument, &line))
            }
            "WebFetch" => {
                tool == "WebFetch"
                    && text(input, "url").is_some_and(|url| in_domain(argument, &url))
            }
            _ => {
                self.names(tool)
                    && path_of(tool, input).is_some_and(|p| in_path(argument, &p, paths))
            }
        }
    }

    /// A rule for `Edit` is one for all tools that write, and one for a server of tools for all of
    /// them.
    fn names(&self, tool: &str) -> bool {
        let writes = |tool: &str| WRITERS.iter().any(|(writer, _)| *writer == tool);
        let served = || {
            let rest = tool.strip_prefix(self.tool.as_str());
            self.tool.starts_with("mcp__") && rest.is_some_and(|rest| rest.starts_with("__"))
        };
        glob(&self.tool, tool) || (self.tool == "Edit" && writes(tool)) || served()
    }
}

fn path_of(tool: &str, input: &Value) -> Option<String> {
    let key = WRITERS.iter().find(|(writer, _)| *writer == tool).map(|(_, key)| *key);
    text(input, key.unwrap_or("file_path")).or_else(|| text(input, "path"))
}

/// `prefix:*`, or a whole command with `*` for any part of it; said of any command in the line.
fn in_command(argument: &str, line: &str) -> bool {
    shell::commands(line).iter().any(|command| match argument.strip_suffix(":*") {
        Some(prefix) => command
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
        None => glob(argument, command),
    })
}

fn in_domain(argument: &str, url: &str) -> bool {
    let Some(domain) = argument.strip_prefix("domain:") else { return false };
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    let host = after.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let domain = domain.to_ascii_lowercase();
    let domain = domain.strip_prefix("*.").unwrap_or(&domain);
    host.strip_suffix(domain).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
}

/// A pattern for the path in the workspace, after `//` for an absolute one.
fn in_path(argument: &str, path: &str, paths: &PathContext) -> bool {
    let path = paths.resolve(path);
    if let Some(absolute) = argument.strip_prefix('/').filter(|rest| rest.starts_with('/')) {
        return glob(absolute, &path.to_string_lossy());
    }
    let argument = argument.trim_start_matches("./").trim_start_matches('/');
    let beneath = path.strip_prefix(&paths.workspace).map(|path| path.to_string_lossy());
    beneath.is_ok_and(|path| glob(argument, &path) || glob(&format!("{argument}/*"), &path))
}

/// Whether the pattern, in which each `*` stands for anything at all, matches the whole text. For a
/// denial it is well to match too much.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(rule: &str, tool: &str, input: &Value) -> bool {
        let paths = PathContext {
            workspace: "/ws".into(),
            cwd: "/ws/sub".into(),
            home: Some("/home/me".into()),
        };
        Rule::new(rule, None).unwrap().matches(tool, input, &paths)
    }

    #[test]
    fn tools_by_name() {
        let none = json!({});
        for (rule, tool) in [
            ("Bash", "Bash"),
            ("Bash(*)", "Bash"),
            ("Edit", "Write"),
            ("Edit", "NotebookEdit"),
            ("mcp__x", "mcp__x__y"),
            ("mcp__x__*", "mcp__x__y"),
        ] {
            assert!(matches(rule, tool, &none), "{rule} {tool}");
        }
        for (rule, tool) in [("Bash", "BashOutput"), ("Write", "Edit"), ("mcp__x", "mcp__xy__z")] {
            assert!(!matches(rule, tool, &none), "{rule} {tool}");
        }
    }

    #[test]
    fn commands() {
        let bash = |rule: &str, line: &str| matches(rule, "Bash", &json!({"command": line}));
        for line in
            ["git push", "git push -f", "cd x && git push", "X=1 git  push", "a; (git push)"]
        {
            assert!(bash("Bash(git push:*)", line), "{line}");
        }
        for line in ["git pushy", "git pull", "echo 'git push'", "git -C x push", ""] {
            assert!(!bash("Bash(git push:*)", line), "{line}");
        }
        assert!(bash("Bash(npm run * --force)", "npm run x y --force"));
        assert!(bash("Bash(make)", "make") && !bash("Bash(make)", "make all"));
        assert!(!matches("Bash(make)", "Write", &json!({"command": "make"})));
        assert!(!matches("Bash(make)", "Bash", &json!({"command": 7})));
    }

    #[test]
    fn paths_and_domains() {
        let edit = |rule: &str, path: &str| matches(rule, "Edit", &json!({"file_path": path}));
        assert!(edit("Edit(docs/**)", "/ws/docs/a/b.md") && edit("Edit(docs)", "/ws/docs/a"));
        assert!(edit("Edit(//etc/**)", "/etc/passwd") && !edit("Edit(docs/**)", "/ws/src/docs.rs"));
        assert!(!edit("Edit(docs/**)", "/docs/a"));
        let fetch =
            |url: &str| matches("WebFetch(domain:example.com)", "WebFetch", &json!({"url": url}));
        for url in ["https://example.com", "http://me@a.EXAMPLE.com:80/x", "example.com/x"] {
            assert!(fetch(url), "{url}");
        }
        assert!(!fetch("https://example.org/example.com") && !fetch("https://notexample.com"));
    }

    #[test]
    fn no_rules() {
        for bad in ["", "(x)", "Bash(", "Bash()", "Bash(x", "Bash x", "A,B", "Bash)"] {
            assert!(Rule::new(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn stars() {
        for (pattern, text) in [("*", ""), ("a*", "a"), ("*b", "ab"), ("a*b*c", "axbyc"), ("", "")]
        {
            assert!(glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*a", "a"), ("a*b*c", "acb"), ("", "a")] {
            assert!(!glob(pattern, text), "{pattern} {text}");
        }
    }
}
