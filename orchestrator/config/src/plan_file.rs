//! The plan of a task: a Markdown file whose front matter is a source of the configuration.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use toml::{Table, Value};

use crate::error::{ConfigError, Position, SourceLocation};
use crate::front_matter::{self, Entry};
use crate::key::KeyPath;
use crate::layers::text_file::{self, TextFileError};
use crate::suggest::nearest;

/// A larger file is no plan.
const MAX_FILE: usize = 1 << 20;
/// The keys of the front matter.
const KEYS: [&str; 4] = ["task", "test_command", "max_iterations", "completion_promise"];
const MAX_ITERATIONS: &str = "max_iterations";
/// What a limit that is off is called.
const NONE: &str = "none";

/// The task that is worked on, where several share a configuration: each has runs of its own.
#[derive(Clone, Debug)]
pub struct TaskSource {
    /// Its id, such as `ralph-1`.
    pub id: String,
    /// Its plan.
    pub plan: PlanFile,
}

/// A plan as it was read, and the values of the configuration that follow from it.
#[derive(Clone, Debug)]
pub struct PlanFile {
    path: PathBuf,
    text: String,
    entries: Vec<Entry>,
    errors: Vec<ConfigError>,
    values: Table,
    /// Those of the values that the front matter gives; the others follow from where the plan lies.
    given: Table,
    spans: BTreeMap<KeyPath, Range<usize>>,
}

impl PlanFile {
    /// Reads a plan. What is wrong with it is an error of the configuration that it is a part of. Links are not
    /// followed: agents can write where plans are.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let mut plan = Self {
            path: path.to_owned(),
            text: String::new(),
            entries: Vec::new(),
            errors: Vec::new(),
            values: Table::new(),
            given: Table::new(),
            spans: BTreeMap::new(),
        };
        match text_file::decode(read_file(path, MAX_FILE, SymlinkPolicy::Refuse)) {
            Ok(text) => plan.parse(text),
            Err(error) => plan.errors.push(unreadable(path, &error)),
        }
        plan
    }

    fn parse(&mut self, text: String) {
        match front_matter::parse(&text) {
            Ok(entries) => self.entries = entries,
            Err(errors) => {
                for error in errors {
                    let error =
                        ConfigError::new(locate(&self.path, &text, &error.span), "", error.message);
                    self.errors.push(error);
                }
            }
        }
        self.text = text;
        let errors =
            self.entries.iter().filter_map(|entry| self.mistake(entry)).collect::<Vec<_>>();
        self.errors.extend(errors);
    }

    /// Returns what is wrong with an entry, if anything is.
    fn mistake(&self, entry: &Entry) -> Option<ConfigError> {
        let key = entry.key.as_str();
        let error = |span: &Range<usize>, message: &str| {
            ConfigError::new(locate(&self.path, &self.text, span), key, message)
        };
        if !KEYS.contains(&key) {
            let mut error = error(&entry.key_span, "unknown key");
            error.suggestion = nearest(key, KEYS).map(str::to_owned);
            error.help =
                error.suggestion.is_none().then(|| format!("known are: {}", KEYS.join(", ")));
            return Some(error);
        }
        let value = entry.value.as_ref()?;
        if key == MAX_ITERATIONS {
            let is_count = value.text().parse::<i64>().is_ok_and(|count| count > 0);
            let message = "expected a whole number, 1 or more, or none";
            return (!is_count && value.text() != NONE).then(|| error(&entry.value_span, message));
        }
        let found = value.other_type()?;
        let message = format!("expected text, found {found}; quote it: \"{}\"", value.text());
        Some(error(&entry.value_span, &message))
    }

    /// Returns the text that the front matter has for a key; `None` without one, or if it is blank.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        entry.value.as_ref().map(front_matter::Scalar::text).filter(|text| !text.trim().is_empty())
    }

    /// Returns the most iterations that the front matter allows, as a value of the configuration.
    #[must_use]
    pub fn max_iterations(&self) -> Option<Value> {
        let text = self.value(MAX_ITERATIONS)?;
        Some(text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from))
    }

    /// Sets a key of the configuration, such as `limits.max_iterations`, to what follows from the key `of` of the
    /// front matter; its place is the place of that.
    pub fn set(&mut self, key: &[&str], value: impl Into<Value>, of: &str) {
        let value = value.into();
        if !of.is_empty() {
            insert(&mut self.given, key, value.clone());
        }
        insert(&mut self.values, key, value);
        let span = self.span_of(of);
        self.spans.insert(key.iter().map(|&part| part.to_owned()).collect(), span);
    }

    /// Returns where a key of the front matter has its value, or where the front matter begins.
    fn span_of(&self, key: &str) -> Range<usize> {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.map_or(0..0, |entry| entry.value_span.clone())
    }

    /// Returns the place of a key of the front matter.
    pub(crate) fn location(&self, key: &str) -> SourceLocation {
        locate(&self.path, &self.text, &self.span_of(key))
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// Returns all values that were set, as TOML.
    pub(crate) fn toml(&self) -> String {
        self.values.to_string()
    }

    /// Returns the values that the front matter gives, as TOML: the same wherever the plan is moved.
    #[must_use]
    pub fn given_toml(&self) -> String {
        self.given.to_string()
    }

    /// Returns the place of the value at `path`, or of the one that it is a part of.
    pub(crate) fn span(&self, path: &[String]) -> Option<&Range<usize>> {
        (1..=path.len()).rev().find_map(|len| self.spans.get(path.get(..len)?))
    }
}

fn insert(mut table: &mut Table, key: &[&str], value: Value) {
    let Some((last, tables)) = key.split_last() else { return };
    for name in tables {
        let inner = table.entry((*name).to_owned()).or_insert_with(|| Table::new().into());
        let Value::Table(inner) = inner else { return };
        table = inner;
    }
    table.insert((*last).to_owned(), value);
}

fn locate(path: &Path, text: &str, span: &Range<usize>) -> SourceLocation {
    SourceLocation::File { path: path.to_owned(), position: Some(Position::new(text, span)) }
}

fn unreadable(path: &Path, error: &TextFileError) -> ConfigError {
    let location = match error {
        TextFileError::NotUtf8 { offset, text, .. } => locate(path, text, &(*offset..*offset)),
        _ => SourceLocation::file(path),
    };
    ConfigError::new(location, "", format!("not a plan: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> PlanFile {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("plan.md");
        std::fs::write(&path, text).unwrap();
        PlanFile::read(&path)
    }

    #[track_caller]
    fn refuses(text: &str, line: usize, says: &str) {
        let plan = plan(text);
        let [error] = plan.errors() else { panic!("{text:?}: {:?}", plan.errors()) };
        let SourceLocation::File { position: Some(at), .. } = &error.location else {
            panic!("{error}");
        };
        assert!(at.line == line && error.to_string().contains(says), "{text:?}: {error}");
    }

    #[test]
    fn each_key_has_its_type() {
        let plan = plan(
            "---\ntask: Do it\ntest_command: make test\nmax_iterations: 7\ncompletion_promise: 'DONE'\n---\n",
        );
        assert_eq!(plan.errors(), []);
        assert_eq!(plan.value("test_command"), Some("make test"));
        assert_eq!(plan.max_iterations(), Some(Value::Integer(7)));
        assert_eq!(plan.value("completion_promise"), Some("DONE"));
        refuses("---\ntask: Do it\nmax_iterations: many\n---\n", 3, "whole number");
        refuses("---\nmax_iterations: 0\n---\n", 2, "1 or more");
        refuses("---\ntest_command: true\n---\n", 2, "quote it: \"true\"");
        refuses("---\ntask: 15\n---\n", 2, "found a number");
        refuses("---\n\ntest-command: x\n---\n", 3, "did you mean `test_command`?");
        refuses("---\nagent: x\n---\n", 2, "unknown key");
    }

    #[test]
    fn what_is_no_plan_is_an_error_and_no_panic() {
        assert!(plan("").errors()[0].message.contains("first line"));
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("plan.md");
        assert!(PlanFile::read(&path).errors()[0].message.contains("no such file"));
        std::fs::write(&path, b"---\ntask: \xff\n---\n").unwrap();
        assert!(PlanFile::read(&path).errors()[0].message.contains("not UTF-8"));
        let link = temp.path().join("link.md");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(PlanFile::read(&link).errors().len(), 1);
        assert_eq!(PlanFile::read(temp.path()).errors().len(), 1);
    }

    #[test]
    fn a_value_is_where_the_line_is_that_it_follows_from() {
        let mut plan = plan("---\ntest_command: make\n---\n");
        plan.set(&["run", "prompt"], "/p", "");
        plan.set(&["validator"], vec![Value::from("x")], "test_command");
        let path = |key: &str| key.split('.').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(plan.span(&path("run.prompt")), Some(&(0..0)));
        assert_eq!(plan.span(&path("validator.0.program")), Some(&(18..22)));
        assert_eq!(plan.span(&path("run")), None);
        assert!(plan.location("test_command").to_string().ends_with("plan.md:2:15"));
    }
}
