//! Collects mistakes while a configuration is read and checked.

use figment::value::Value;

use crate::error::{ConfigError, SourceLocation};
use crate::key::{self, KeyPath};
use crate::preset::PRESET;
use crate::provenance::Provenance;
use crate::serde_messages::DeserializeIssue;
use crate::suggest::{misspelt, nearest};
use crate::{schema, shapes, variables};

/// The mistakes so far, and the keys they concern.
pub(crate) struct Diagnostics<'a> {
    pub(crate) provenance: &'a Provenance,
    errors: Vec<ConfigError>,
    /// Values that are wrong and were left out: what follows from that is no mistake of its own.
    broken: Vec<KeyPath>,
}

impl<'a> Diagnostics<'a> {
    pub(crate) fn new(
        provenance: &'a Provenance,
        errors: Vec<ConfigError>,
        broken: Vec<KeyPath>,
    ) -> Self {
        Self { provenance, errors, broken }
    }

    /// Whether a source has a value at `path`.
    pub(crate) fn is_given(&self, path: &[&str]) -> bool {
        let path = path.iter().map(|&part| part.to_owned()).collect::<KeyPath>();
        self.provenance.value(&path).is_some()
    }

    pub(crate) fn into_parts(self) -> (Vec<ConfigError>, Vec<KeyPath>) {
        (self.errors, self.broken)
    }

    /// Whether the value at `path` was left out, by itself or with what is around it.
    pub(crate) fn is_broken(&self, path: &[&str]) -> bool {
        self.broken.iter().any(|broken| starts_with(path, broken))
    }

    /// Whether something in the value at `path` was left out, or all of it.
    pub(crate) fn is_damaged(&self, path: &[&str]) -> bool {
        self.is_broken(path) || self.broken.iter().any(|broken| starts_with(broken, path))
    }

    /// Records what is wrong at `path`, unless that follows from another mistake.
    pub(crate) fn report(&mut self, path: &[String], issue: &DeserializeIssue) {
        let mut full = path.iter().map(String::as_str).collect::<Vec<_>>();
        full.extend(issue.unknown_key.as_deref());
        full.extend(issue.missing_key.as_deref());
        if !self.is_broken(&full) {
            self.errors.push(explain(self.provenance, path, issue));
        }
        if issue.missing_key.is_some() {
            full.pop();
        }
        self.broken.push(full.into_iter().map(str::to_owned).collect());
    }

    /// Records a mistake in the value at `path`, unless that follows from another mistake.
    pub(crate) fn add(&mut self, path: &[&str], message: impl Into<String>) {
        self.add_with_help(path, message, None);
    }

    /// Records that the table at `path` lacks `key`, which it may have by another name.
    pub(crate) fn add_missing(&mut self, path: &[&str], key: &str) {
        let table = path.iter().map(|&part| part.to_owned()).collect::<KeyPath>();
        let other = SYNONYMS
            .iter()
            .find(|(name, meant)| *meant == key && self.is_given(&[path, &[*name]].concat()));
        let Some((name, _)) = other.filter(|_| !self.is_broken(path)) else {
            return self.add(path, format!("`{key}` is missing"));
        };
        let issue = DeserializeIssue::unknown_key(name, vec![key.to_owned()]);
        self.errors.push(explain(self.provenance, &table, &issue));
    }

    /// Records a mistake at another place than that of a value.
    pub(crate) fn add_at(
        &mut self,
        location: SourceLocation,
        key: &str,
        message: &str,
        help: &str,
    ) {
        let mut error = ConfigError::new(location, key, message);
        error.help = Some(help.to_owned());
        self.errors.push(error);
    }

    /// As [`add`](Self::add), with what to do.
    pub(crate) fn add_with_help(
        &mut self,
        path: &[&str],
        message: impl Into<String>,
        help: Option<&str>,
    ) {
        if !self.is_broken(path) {
            let path = path.iter().map(|&part| part.to_owned()).collect::<KeyPath>();
            let location = self.provenance.location(&path, false);
            let mut error = ConfigError::new(location, key::dotted(&path), message);
            error.help = help.map(str::to_owned);
            self.errors.push(error);
        }
    }
}

fn starts_with<A: AsRef<str>, B: AsRef<str>>(path: &[A], start: &[B]) -> bool {
    path.len() >= start.len() && path.iter().zip(start).all(|(a, b)| a.as_ref() == b.as_ref())
}

/// Returns the error for what is wrong at `path`, with the name that was probably meant.
pub(crate) fn explain(
    provenance: &Provenance,
    path: &[String],
    issue: &DeserializeIssue,
) -> ConfigError {
    let mut full = path.to_vec();
    full.extend(issue.unknown_key.clone());
    let location = provenance.location(&full, issue.unknown_key.is_some());
    let mut error = ConfigError::new(location, key::dotted(&full), issue.message.clone());
    if let Some(name) = &issue.name {
        suggest(&mut error, path, name, issue);
    } else if let Some(help) = shapes::advice(provenance.value(&full), &full, &issue.message) {
        error.help = Some(help);
    } else if schema::may_be_none(&full) && !is_off(provenance.value(&full)) {
        error.help = Some("\"none\" turns this limit off".to_owned());
    } else if matches!(provenance.value(&full), Some(Value::Array(..))) && is_table(&full) {
        error.help = Some(format!("one table is `[{}]`, with single brackets", error.key));
    } else if is_single_table(provenance.value(&full), &issue.message) {
        error.help =
            Some(format!("write `[[{}]]`, with double brackets: there may be several", error.key));
    }
    error
}

/// Whether a limit is turned off already.
fn is_off(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::String(_, word)) if word == "none")
}

/// Whether it is one table where there may be several.
fn is_single_table(value: Option<&Value>, message: &str) -> bool {
    matches!(value, Some(Value::Dict(..))) && message.starts_with("expected an array")
}

fn is_table(path: &[String]) -> bool {
    path.len() == 1 && path.first().is_some_and(|name| name != "validator" && name != PRESET)
}

fn suggest(error: &mut ConfigError, path: &[String], name: &str, issue: &DeserializeIssue) {
    let is_key = issue.unknown_key.is_some();
    let form = match &error.location {
        SourceLocation::Variable { .. } if is_key => variables::name,
        SourceLocation::Set { .. } if is_key => |path: &[String]| key::dotted(path),
        _ => |path: &[String]| path.last().cloned().unwrap_or_default(),
    };
    // A single word is no key, wherever there is one of that name.
    let is_whole_name =
        path.is_empty() && matches!(error.location, SourceLocation::Variable { .. });
    let elsewhere =
        if is_key && !is_whole_name { schema::tables_with(name, path) } else { Vec::new() };
    if let Some(table) = elsewhere.first() {
        error.help = Some(format!("`{name}` is a key of [{table}]"));
    } else {
        let here = |name: &str| form(&[path, &[name.to_owned()]].concat());
        error.suggestion = nearest_variable(error)
            .or_else(|| synonym(name, &issue.names).map(here))
            .or_else(|| misspelt(name, &issue.names).map(here))
            .or_else(|| nearest(name, &issue.names).map(here));
    }
    if is_whole_name && error.suggestion.is_none() {
        error.help = Some(variables::how_to_name());
    }
    if is_key && error.suggestion.is_none() && error.help.is_none() && is_agent(path) {
        let table = key::dotted(path);
        let keys = issue.names.join(", ");
        error.help = Some(format!(
            "a key of the adapter belongs in [{table}.config]; the keys here are: {keys}"
        ));
    }
    if is_key && error.suggestion.is_none() && error.help.is_none() {
        let keys = issue.names.join(", ");
        error.help = Some(if keys.is_empty() {
            "no key is known here".to_owned()
        } else {
            format!("the keys here are: {keys}")
        });
    }
}

/// Other programs' words for keys, and the keys.
const SYNONYMS: [(&str, &str); 3] = [("type", "kind"), ("cmd", "program"), ("command", "program")];

/// Returns the key, one of `names`, that other programs call `name`.
fn synonym<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let (_, meant) = SYNONYMS.iter().find(|(other, _)| *other == name)?;
    names.iter().map(String::as_str).find(|known| known == meant)
}

fn is_agent(path: &[String]) -> bool {
    match path {
        [table] => table == "agent",
        [table, _] => table == "agents",
        _ => false,
    }
}

/// Returns the variable that was probably meant: everything in a name may be misspelt, underscores included.
fn nearest_variable(error: &ConfigError) -> Option<String> {
    let SourceLocation::Variable { name } = &error.location else { return None };
    variables::nearest_name(name)
}
