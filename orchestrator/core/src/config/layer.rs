//! The sources of a configuration, each a layer of values that know where they come from.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use figment::value::{Dict, Empty, Map, Num, Tag, Value};
use figment::{Metadata, Profile, Provider, Source};
use toml::de::{DeArray, DeTable, DeValue};

use super::error::{ConfigError, Place, Position};
use super::key::{self, KeyPath};
use super::text::{self, Unreadable};

/// A larger file is no configuration.
const MAX_FILE: u64 = 1 << 20;
/// Variables with our prefix that are not configuration: a run tells its agent with two of them who it
/// is, and one says what the program is to say of itself.
const RESERVED: [&str; 3] = ["RUN_ID", "ITERATION", "LOG"];
/// What the names of configuration variables begin with.
const PREFIX: &str = "RALPH_";

/// Where the values of a layer come from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    File { path: PathBuf, text: String, spans: BTreeMap<KeyPath, Spans> },
    Variable { name: String, text: String, key: KeyPath },
    Set { index: usize, text: String, key: KeyPath },
}

/// Where a key and its value are, in bytes of the file.
#[derive(Clone, Debug)]
pub(super) struct Spans {
    key: Range<usize>,
    value: Range<usize>,
}

/// Values from one source.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) origin: Origin,
    values: Dict,
    /// Keys whose values were left out because no key can take them.
    pub(super) broken: Vec<KeyPath>,
}

impl Layer {
    /// Identifies the layer among its like.
    pub(super) fn source(&self) -> Source {
        match &self.origin {
            Origin::File { path, .. } => Source::File(path.clone()),
            Origin::Variable { name, .. } => Source::Custom(name.clone()),
            Origin::Set { index, .. } => Source::Custom(format!("--set {index}")),
        }
    }

    /// Whether the layer is a file and has a value at `path`.
    pub(super) fn has_span(&self, path: &[String]) -> bool {
        matches!(&self.origin, Origin::File { spans, .. } if spans.contains_key(path))
    }

    /// The place of the value at `path`, or of its key.
    pub(super) fn place(&self, path: &[String], of_key: bool) -> Place {
        match &self.origin {
            Origin::File { path: file, text, spans } => {
                let span = spans.get(path).map(|s| if of_key { &s.key } else { &s.value });
                let position = span.map(|span| Position::new(text, span));
                Place::File { path: file.clone(), position }
            }
            Origin::Variable { name, .. } => Place::Variable { name: name.clone() },
            Origin::Set { key, .. } => Place::Set { key: key::dotted(key) },
        }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::from("configuration", self.source())
    }
    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

/// The name of the variable that sets `path`.
pub(super) fn variable_name(path: &[String]) -> String {
    format!("{PREFIX}{}", path.join("__").to_uppercase())
}

/// Converts parsed TOML, noting spans and values that no key can take.
#[derive(Default)]
struct Converter {
    path: KeyPath,
    spans: BTreeMap<KeyPath, Spans>,
    wrong: Vec<(KeyPath, String)>,
}

impl Converter {
    fn table(&mut self, table: &DeTable<'_>) -> Dict {
        let mut dict = Dict::new();
        for (name, value) in table {
            let key = name.get_ref().clone().into_owned();
            self.path.push(key.clone());
            let spans = Spans { key: name.span(), value: value.span() };
            self.spans.insert(self.path.clone(), spans);
            if let Some(value) = self.value(value.get_ref()) {
                dict.insert(key, value);
            }
            self.path.pop();
        }
        dict
    }

    fn array(&mut self, array: &DeArray<'_>) -> Vec<Value> {
        let mut values = Vec::new();
        for (index, value) in array.iter().enumerate() {
            self.path.push(index.to_string());
            let spans = Spans { key: value.span(), value: value.span() };
            self.spans.insert(self.path.clone(), spans);
            // A placeholder keeps the indexes of those that follow right.
            let placeholder = Value::Empty(Tag::Default, Empty::Unit);
            values.push(self.value(value.get_ref()).unwrap_or(placeholder));
            self.path.pop();
        }
        values
    }

    fn value(&mut self, value: &DeValue<'_>) -> Option<Value> {
        let tag = Tag::Default;
        match value {
            DeValue::String(text) => Some(Value::String(tag, text.clone().into_owned())),
            DeValue::Boolean(truth) => Some(Value::Bool(tag, *truth)),
            DeValue::Array(array) => Some(Value::Array(tag, self.array(array))),
            DeValue::Table(table) => Some(Value::Dict(tag, self.table(table))),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                if parsed.is_err() {
                    self.refuse(format!("the number {number} is too large"));
                }
                parsed.ok().map(|number| Value::Num(tag, Num::I64(number)))
            }
            DeValue::Float(number) => {
                let parsed = number.as_str().parse::<f64>().ok().filter(|n| n.is_finite());
                if parsed.is_none() {
                    self.refuse(format!("expected a finite number, found {number}"));
                }
                parsed.map(|number| Value::Num(tag, Num::F64(number)))
            }
            DeValue::Datetime(_) => {
                self.refuse("no key takes a date or a time; text goes in quotes".to_owned());
                None
            }
        }
    }

    fn refuse(&mut self, message: String) {
        self.wrong.push((self.path.clone(), message));
    }
}

/// All layers, lowest first, and what is wrong with them one by one.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) layers: Vec<Layer>,
    pub(super) errors: Vec<ConfigError>,
    /// A file could not be read or parsed.
    pub(super) unread: bool,
}

impl Layers {
    /// Adds a file. If it cannot be read or parsed, only `errors` grows.
    pub(super) fn file(&mut self, path: &Path, optional: bool) {
        match text::read(path, MAX_FILE) {
            Ok(text) => self.toml(path, &text),
            Err(Unreadable::Missing) if optional => {}
            Err(error) => {
                self.unread = true;
                self.errors.push(unreadable(path, &error));
            }
        }
    }

    fn toml(&mut self, path: &Path, text: &str) {
        let (root, mistakes) = DeTable::parse_recoverable(text);
        if !mistakes.is_empty() {
            self.unread = true;
            self.syntax(path, text, &mistakes);
            return;
        }
        let mut converter = Converter::default();
        let values = converter.table(root.get_ref());
        let Converter { spans, wrong, .. } = converter;
        let origin = Origin::File { path: path.to_owned(), text: text.to_owned(), spans };
        self.push(Layer { origin, values, broken: Vec::new() }, wrong);
    }

    fn syntax(&mut self, path: &Path, text: &str, mistakes: &[toml::de::Error]) {
        let mut last_line = 0;
        for mistake in mistakes {
            let end = text.len()..text.len();
            let at = Position::new(text, &mistake.span().unwrap_or(end));
            // What follows on the same line is usually a consequence.
            if at.line != last_line {
                last_line = at.line;
                let place = Place::File { path: path.to_owned(), position: Some(at) };
                self.errors.push(ConfigError::new(
                    place,
                    "",
                    format!("invalid TOML: {}", mistake.message()),
                ));
            }
        }
    }

    fn push(&mut self, mut layer: Layer, wrong: Vec<(KeyPath, String)>) {
        for (path, message) in wrong {
            let place = layer.place(&path, false);
            self.errors.push(ConfigError::new(place, key::dotted(&path), message));
            layer.broken.push(path);
        }
        self.layers.push(layer);
    }

    /// Adds the variables whose name begins with `RALPH_`.
    pub(super) fn variables(&mut self, variables: &BTreeMap<String, String>) {
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            if RESERVED.contains(&rest) {
                continue;
            }
            let key = variable_key(rest);
            if key.iter().any(String::is_empty) {
                let place = Place::Variable { name: name.clone() };
                let mut error = ConfigError::new(place, "", "not the name of a key");
                error.help = Some(format!(
                    "names are {PREFIX}TABLE__KEY, such as {PREFIX}LIMITS__MAX_COST_USD"
                ));
                self.errors.push(error);
                continue;
            }
            let origin =
                Origin::Variable { name: name.clone(), text: text.clone(), key: key.clone() };
            self.single(origin, &key, text);
        }
    }

    /// Adds what the command line sets.
    pub(super) fn sets(&mut self, sets: &[(String, String)]) {
        for (index, (name, text)) in sets.iter().enumerate() {
            let Some(key) = key::parse(name) else {
                let place = Place::Set { key: name.clone() };
                let message = format!("{name:?} is not a key");
                let mut error = ConfigError::new(place, "", message);
                error.help = Some("it goes `--set limits.max_cost_usd=5`".to_owned());
                self.errors.push(error);
                continue;
            };
            let origin = Origin::Set { index, text: text.clone(), key: key.clone() };
            self.single(origin, &key, text);
        }
    }

    fn single(&mut self, origin: Origin, key: &KeyPath, text: &str) {
        let mut converter = Converter { path: key.clone(), ..Converter::default() };
        let bare = || Some(Value::String(Tag::Default, text.to_owned()));
        let value = match DeValue::parse(text) {
            // Dates are no values here, so what looks like one is text.
            Ok(value) if !value.get_ref().is_datetime() => converter.value(value.get_ref()),
            _ => bare(),
        };
        let mut values = Dict::new();
        if let (Some(value), Some((first, rest))) = (value, key.split_first()) {
            let nested = rest.iter().rev().fold(value, |value, part| {
                Value::Dict(Tag::Default, Dict::from([(part.clone(), value)]))
            });
            values.insert(first.clone(), nested);
        }
        self.push(Layer { origin, values, broken: Vec::new() }, converter.wrong);
    }
}

/// `LIMITS__MAX_COST_USD` is `limits.max_cost_usd`. The names in `[env.set]` keep their case and may
/// have two underscores themselves.
fn variable_key(name: &str) -> KeyPath {
    let lower = name.to_lowercase();
    if let (true, Some(variable)) = (lower.starts_with("env__set__"), name.get(10..)) {
        return vec!["env".into(), "set".into(), variable.to_owned()];
    }
    lower.split("__").map(str::to_owned).collect()
}

fn unreadable(path: &Path, error: &Unreadable) -> ConfigError {
    let mut place = Place::file(path);
    if let Unreadable::NotUtf8 { offset, text, .. } = error {
        let span = *offset..offset + char::REPLACEMENT_CHARACTER.len_utf8();
        place = Place::File { path: path.to_owned(), position: Some(Position::new(text, &span)) };
    }
    let message = format!("not a configuration file: {error}");
    let mut shown = ConfigError::new(place, "", message);
    if matches!(error, Unreadable::Missing) {
        shown.message = "there is no such file".to_owned();
        shown.help =
            Some("`ralph-orchestrator init` writes one; `-c FILE` names another".to_owned());
    }
    shown
}
