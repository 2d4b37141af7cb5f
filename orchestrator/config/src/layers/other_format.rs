//! Recognizes configuration files in other formats.

use std::path::Path;

use crate::error::{ConfigError, SourceLocation};

/// Returns the one error for a file that is YAML or JSON, instead of one for every line of it. `None` if it
/// looks like TOML.
pub(crate) fn explain(path: &Path, text: &str) -> Option<ConfigError> {
    let format = format_of(path, text)?;
    let message = format!("this is {format}; the configuration is TOML");
    let mut error = ConfigError::new(SourceLocation::file(path), "", message);
    error.help = Some(
        "`ralph-orchestrator init` writes a ralph.toml; docs/user/coming-from.md says what becomes of \
         the keys of other tools"
            .to_owned(),
    );
    Some(error)
}

fn format_of(path: &Path, text: &str) -> Option<&'static str> {
    let is = |extensions: &[&str]| {
        path.extension().is_some_and(|found| extensions.iter().any(|one| found == *one))
    };
    let first = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))?;
    if is(&["yml", "yaml"]) || first == "---" || is_yaml_key(first) {
        Some("YAML")
    } else if is(&["json"]) || first.starts_with('{') {
        Some("JSON")
    } else {
        None
    }
}

/// Whether the line is `key:` or `key: value`, which TOML never has at the beginning of a line.
fn is_yaml_key(line: &str) -> bool {
    let Some((key, value)) = line.split_once(':') else { return false };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    !key.is_empty() && key.chars().all(is_plain) && (value.is_empty() || value.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is() {
        for (name, text, format) in [
            ("ralph.yml", "cli: claude", Some("YAML")),
            ("ralph.yml", "- a", Some("YAML")),
            ("ralph.toml", "# comment\n\nagent: claude\n", Some("YAML")),
            ("ralph.toml", "---\na: 1\n", Some("YAML")),
            ("ralph.toml", "cli:\n  backend: claude\n", Some("YAML")),
            ("ralph.toml", "{\"agent\": 1}", Some("JSON")),
            ("ralph.toml", "[run\n", None),
            ("ralph.toml", "prompt = \"a: b\n", None),
            ("ralph.toml", "https://example.org", None),
            ("ralph.toml", "", None),
        ] {
            assert_eq!(format_of(Path::new(name), text), format, "{name}: {text:?}");
        }
    }
}
