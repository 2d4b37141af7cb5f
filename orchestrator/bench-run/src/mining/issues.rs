//! Texts of issues, from a file that a code host's program has printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;

/// Why issues cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The file cannot be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no JSON.
    #[error("{}: {source}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its line and column.
        source: serde_json::Error,
    },
    /// It has another form.
    #[error(
        "{}: expected a list of issues with `number` (or `iid`), `title` and `body` (or `description`), as \
         `gh issue list --state all --json number,title,body` prints it",
        .0.display()
    )]
    Form(PathBuf),
}

/// The texts of issues, by their numbers.
#[derive(Debug, Default)]
pub struct IssueTexts(BTreeMap<u64, String>);

impl IssueTexts {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or has another form.
    pub fn read(path: &Path) -> Result<Self, IssueError> {
        let text = fs::read(path).map_err(|source| IssueError::Io { path: path.into(), source })?;
        let value: Value = serde_json::from_slice(&text)
            .map_err(|source| IssueError::Json { path: path.into(), source })?;
        Self::from_json(&value).ok_or_else(|| IssueError::Form(path.into()))
    }

    fn from_json(value: &Value) -> Option<Self> {
        let issues = value.as_array()?.iter().map(|issue| {
            let number = issue.get("number").or_else(|| issue.get("iid"))?.as_u64()?;
            let title = issue.get("title")?.as_str()?.trim();
            let body = issue.get("body").or_else(|| issue.get("description"));
            let body = body.and_then(Value::as_str).unwrap_or_default().trim();
            Some((number, format!("{title}\n\n{body}").trim().to_owned()))
        });
        issues.collect::<Option<_>>().map(Self)
    }

    /// Returns the texts of the issues that a message names: those that it closes, else all that it mentions.
    #[must_use]
    pub fn find_linked(&self, message: &str) -> Vec<&str> {
        let (mut closed, mut mentioned) = (Vec::new(), Vec::new());
        for (at, _) in message.match_indices('#') {
            let (before, after) = message.split_at(at);
            let digits: String = after.chars().skip(1).take_while(char::is_ascii_digit).collect();
            let Some(text) = digits.parse().ok().and_then(|number| self.0.get(&number)) else {
                continue;
            };
            let word = before.trim_end_matches([' ', ':']).rsplit([' ', '\n', '(']).next();
            let word = word.unwrap_or_default().to_lowercase();
            let list = match ["fix", "close", "resolve"].iter().any(|verb| word.starts_with(verb)) {
                true => &mut closed,
                false => &mut mentioned,
            };
            if !list.contains(&text.as_str()) {
                list.push(text);
            }
        }
        if closed.is_empty() { mentioned } else { closed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn issues_of_both_hosts_are_found_where_a_message_names_them() {
        let issues = json!([
            { "number": 1, "title": "One", "body": "first\r\n" },
            { "iid": 2, "title": "Two", "description": null },
            { "number": 12, "title": "Twelve", "body": "" },
        ]);
        let issues = IssueTexts::from_json(&issues).unwrap();
        for (message, expected) in [
            ("Fix it (#1)", vec!["One\n\nfirst"]),
            ("Work for #2\n\nFixes: #1", vec!["One\n\nfirst"]),
            ("Closes #12, resolves #2", vec!["Twelve", "Two"]),
            ("#2 and #12 and #2", vec!["Two", "Twelve"]),
            ("#99 # #x", vec![]),
        ] {
            assert_eq!(issues.find_linked(message), expected, "{message}");
        }
        for wrong in
            [json!({}), json!([{ "title": "x" }]), json!([{ "number": "1", "title": "x" }])]
        {
            assert!(IssueTexts::from_json(&wrong).is_none(), "{wrong}");
        }
    }
}
