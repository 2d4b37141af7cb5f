//! The layers of a configuration: the values of each source, with their locations.

mod other_format;
pub(crate) mod text_file;

use figment::value::{Dict, Empty, Map, Num, Tag, Value};
use figment::{Metadata, Profile, Provider, Source};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeArray, DeTable, DeValue};

use crate::preset::{PRESET, Preset};

use crate::error::{ConfigError, Position, SourceLocation};
use crate::key::{self, KeyPath};
use crate::masked::find_secrets;
use crate::plan_file::PlanFile;
use crate::renamed::{RenamedKey, put, rename, take};
use crate::variables::{self, VariableMeaning};
use text_file::TextFileError;

/// The keys of what only the user's own file decides.
const USER_KEYS: [&str; 2] = ["trust", "budget"];
/// A larger file is no configuration.
const MAX_FILE: usize = 1 << 20;

/// A flag of the command line that stands for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The flag as it was written, such as `--check`.
    pub name: String,
    /// The key.
    pub key: &'static str,
    /// The value as of `--set`: TOML, or text.
    pub text: String,
}

/// Where the values of a layer come from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    File {
        path: PathBuf,
        text: String,
        spans: BTreeMap<KeyPath, Spans>,
    },
    Variable {
        name: String,
        text: String,
        key: KeyPath,
    },
    Set {
        index: usize,
        text: String,
        key: KeyPath,
    },
    Flag {
        name: String,
        text: String,
        key: KeyPath,
    },
    /// What follows from the command line, unless anything else is said.
    Implied {
        key: KeyPath,
    },
    Preset {
        name: String,
    },
}

impl Origin {
    fn rename(&mut self, old: &[String], new: &[String]) {
        match self {
            Self::File { spans, .. } => {
                let renamed = std::mem::take(spans).into_iter().map(|(mut path, at)| {
                    rename(&mut path, old, new);
                    (path, at)
                });
                *spans = renamed.collect();
            }
            Self::Variable { key, .. }
            | Self::Set { key, .. }
            | Self::Flag { key, .. }
            | Self::Implied { key } => rename(key, old, new),
            Self::Preset { .. } => {}
        }
    }
}

/// Where a key and its value are, in bytes of the file.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    key: Range<usize>,
    value: Range<usize>,
}

/// Values from one source.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) origin: Origin,
    values: Dict,
    /// Keys whose values were left out because no key can take them.
    pub(crate) broken: Vec<KeyPath>,
    /// It was written by an earlier start of this program, with every value that held.
    pub(crate) is_stored: bool,
}

impl Layer {
    /// Identifies the layer among its like.
    pub(crate) fn source(&self) -> Source {
        match &self.origin {
            Origin::File { path, .. } => Source::File(path.clone()),
            Origin::Variable { name, .. } => Source::Custom(name.clone()),
            Origin::Set { index, .. } => Source::Custom(format!("--set {index}")),
            Origin::Flag { key, .. } => Source::Custom(format!("flag {}", key::dotted(key))),
            Origin::Implied { key } => Source::Custom(format!("implied {}", key::dotted(key))),
            Origin::Preset { name } => Source::Custom(format!("preset {name}")),
        }
    }

    /// Forgets where in its file values are.
    pub(crate) fn forget_places(&mut self) {
        if let Origin::File { spans, .. } = &mut self.origin {
            spans.clear();
        }
    }

    /// Whether the layer is a file and has a value at `path`.
    pub(crate) fn has_span(&self, path: &[String]) -> bool {
        matches!(&self.origin, Origin::File { spans, .. } if spans.contains_key(path))
    }

    /// Returns the place of the value at `path`, or of its key.
    pub(crate) fn location(&self, path: &[String], of_key: bool) -> SourceLocation {
        match &self.origin {
            Origin::File { path: file, text, spans } => {
                let span = spans.get(path).map(|s| if of_key { &s.key } else { &s.value });
                let position = span.map(|span| Position::new(text, span));
                SourceLocation::File { path: file.clone(), position }
            }
            Origin::Variable { name, .. } => SourceLocation::Variable { name: name.clone() },
            Origin::Set { key, .. } => SourceLocation::Set { key: key::dotted(key) },
            Origin::Flag { name, .. } => SourceLocation::CommandLine { flag: Some(name.clone()) },
            Origin::Implied { .. } => SourceLocation::CommandLine { flag: None },
            Origin::Preset { name } => SourceLocation::Preset { name: name.clone() },
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
                    self.reject(format!("the number {number} is too large"));
                }
                parsed.ok().map(|number| Value::Num(tag, Num::I64(number)))
            }
            DeValue::Float(number) => {
                let parsed = number.as_str().parse::<f64>().ok().filter(|n| n.is_finite());
                if parsed.is_none() {
                    self.reject(format!("expected a finite number, found {number}"));
                }
                parsed.map(|number| Value::Num(tag, Num::F64(number)))
            }
            DeValue::Datetime(_) => {
                self.reject("no key takes a date or a time; text goes in quotes".to_owned());
                None
            }
        }
    }

    fn reject(&mut self, message: String) {
        self.wrong.push((self.path.clone(), message));
    }
}

/// All layers, lowest first, and what is wrong with them one by one.
#[derive(Default)]
pub(crate) struct Layers {
    pub(crate) layers: Vec<Layer>,
    pub(crate) errors: Vec<ConfigError>,
    /// What the files have as values of variables.
    pub(crate) secrets: Vec<String>,
    /// A file could not be read or parsed.
    pub(crate) unread: bool,
    /// The keys that were called otherwise.
    pub(crate) renamed: &'static [RenamedKey],
    /// Where the old names stand.
    pub(crate) warnings: Vec<ConfigError>,
}

impl Layers {
    /// Adds a file. If it cannot be read or parsed, only `errors` grows.
    pub(crate) fn add_file(&mut self, path: &Path, optional: bool) {
        let text = match text_file::read(path, MAX_FILE) {
            Ok(text) => text,
            Err(TextFileError::Missing) if optional => return,
            Err(error) => {
                self.unread = true;
                return self.errors.push(unreadable(path, &error));
            }
        };
        self.add_text(path, &text);
    }

    /// Adds what would be the text of a file.
    pub(crate) fn add_text(&mut self, path: &Path, text: &str) {
        self.secrets.extend(find_secrets(text));
        let (root, mistakes) = DeTable::parse_recoverable(text);
        if !mistakes.is_empty() {
            self.unread = true;
            match other_format::explain(path, text) {
                Some(error) => self.errors.push(error),
                None => self.add_syntax_errors(path, text, &mistakes),
            }
            return;
        }
        let mut converter = Converter::default();
        let values = converter.table(root.get_ref());
        let Converter { spans, wrong, .. } = converter;
        let origin = Origin::File { path: path.to_owned(), text: text.to_owned(), spans };
        self.push(Layer { origin, values, broken: Vec::new(), is_stored: false }, wrong);
    }

    /// Refuses, in the file that was added last, what only the user's own file decides.
    pub(crate) fn refuse_user_keys(&mut self) {
        let Some(layer) = self.layers.last() else { return };
        for key in USER_KEYS.into_iter().filter(|key| layer.values.contains_key(*key)) {
            let location = layer.location(&[key.to_owned()], true);
            let message = "belongs into the user's own configuration: agents can write this file";
            let mut error = ConfigError::new(location, key, message);
            error.help = Some("that is ~/.config/ralph-orchestrator/config.toml".to_owned());
            self.errors.push(error);
        }
    }

    /// Adds what follows from the front matter of a plan.
    pub(crate) fn add_plan(&mut self, plan: &PlanFile) {
        self.errors.extend_from_slice(plan.errors());
        let toml = plan.toml();
        let (root, _) = DeTable::parse_recoverable(&toml);
        let mut converter = Converter::default();
        let values = converter.table(root.get_ref());
        let mut spans = BTreeMap::new();
        for path in converter.spans.into_keys() {
            if let Some(span) = plan.span(&path) {
                spans.insert(path, Spans { key: span.clone(), value: span.clone() });
            }
        }
        let (path, text) = (plan.path().to_owned(), plan.text().to_owned());
        let origin = Origin::File { path, text, spans };
        self.push(Layer { origin, values, broken: Vec::new(), is_stored: false }, converter.wrong);
    }

    fn add_syntax_errors(&mut self, path: &Path, text: &str, mistakes: &[toml::de::Error]) {
        let mut last_line = 0;
        for mistake in mistakes {
            let end = text.len()..text.len();
            let at = Position::new(text, &mistake.span().unwrap_or(end));
            // What follows on the same line is usually a consequence.
            if at.line != last_line {
                last_line = at.line;
                let location = SourceLocation::File { path: path.to_owned(), position: Some(at) };
                self.errors.push(ConfigError::new(
                    location,
                    "",
                    format!("invalid TOML: {}", mistake.message()),
                ));
            }
        }
    }

    fn push(&mut self, mut layer: Layer, mut wrong: Vec<(KeyPath, String)>) {
        for renamed in self.renamed {
            self.apply(*renamed, &mut layer, &mut wrong);
        }
        for (path, message) in wrong {
            let location = layer.location(&path, false);
            self.errors.push(ConfigError::new(location, key::dotted(&path), message));
            layer.broken.push(path);
        }
        self.layers.push(layer);
    }

    /// Gives what stands under the old name of a key to the key.
    fn apply(&mut self, renamed: RenamedKey, layer: &mut Layer, wrong: &mut [(KeyPath, String)]) {
        let Some((old, new)) = renamed.paths() else { return };
        let value = take(&mut layer.values, &old);
        let is_wrong = wrong.iter().any(|(path, _)| path.starts_with(&old));
        if value.is_none() && !is_wrong {
            return;
        }
        let message = format!("it is called `{}` now", renamed.new);
        let mut warning = ConfigError::new(layer.location(&old, true), renamed.old, message);
        if !value.is_none_or(|value| put(&mut layer.values, &new, value)) {
            warning.message.push_str(", which is given, too: remove one of them");
            return self.errors.push(warning);
        }
        warning.message.push_str(": the old name will not be read for ever");
        wrong.iter_mut().for_each(|(path, _)| rename(path, &old, &new));
        layer.origin.rename(&old, &new);
        self.warnings.push(warning);
    }

    /// Adds the variables that are configuration.
    pub(crate) fn add_variables(&mut self, variables: &BTreeMap<String, String>) {
        for (name, text) in variables {
            let key = match variables::classify(name) {
                VariableMeaning::Key(key) => key,
                VariableMeaning::Misnamed(meant) => {
                    let location = SourceLocation::Variable { name: name.clone() };
                    let mut error = ConfigError::new(location, "", "not the name of a key");
                    error.help = meant.is_none().then(variables::how_to_name);
                    error.suggestion = meant;
                    self.errors.push(error);
                    continue;
                }
                VariableMeaning::Foreign(_) | VariableMeaning::Other => continue,
            };
            let origin =
                Origin::Variable { name: name.clone(), text: text.clone(), key: key.clone() };
            self.add_value(origin, &key, text);
        }
    }

    /// Adds what follows from the command line unless anything else is said.
    pub(crate) fn add_implied(&mut self, values: &[(&'static str, String)]) {
        for (name, text) in values {
            if let Some(key) = key::parse(name) {
                self.add_value(Origin::Implied { key: key.clone() }, &key, text);
            }
        }
    }

    /// Adds the values of the preset that the last layer with a `preset` names, directly after what is
    /// implied. Whether there is one of that name is checked later.
    pub(crate) fn insert_preset(&mut self, presets: &[Preset]) {
        let named = |layer: &Layer| Some(layer.values.get(PRESET)?.as_str()?.to_owned());
        let name = self.layers.iter().rev().find_map(named);
        let Some(preset) = presets.iter().find(|preset| Some(&preset.name) == name.as_ref()) else {
            return;
        };
        let origin = Origin::Preset { name: preset.name.clone() };
        let mut converter = Converter::default();
        let (root, mistakes) = DeTable::parse_recoverable(&preset.toml);
        let mut wrong: Vec<(KeyPath, String)> =
            mistakes.iter().map(|mistake| (Vec::new(), mistake.message().to_owned())).collect();
        let values = converter.table(root.get_ref());
        wrong.append(&mut converter.wrong);
        self.push(Layer { origin, values, broken: Vec::new(), is_stored: false }, wrong);
        let is_implied = |layer: &Layer| matches!(layer.origin, Origin::Implied { .. });
        let position = self.layers.iter().take_while(|layer| is_implied(layer)).count();
        if let Some(tail) = self.layers.get_mut(position..) {
            tail.rotate_right(1);
        }
    }

    /// Adds the values of flags of their own.
    pub(crate) fn add_flags(&mut self, flags: &[Flag]) {
        for flag in flags {
            if let Some(key) = key::parse(flag.key) {
                let (name, text) = (flag.name.clone(), flag.text.clone());
                let origin = Origin::Flag { name, text, key: key.clone() };
                self.add_value(origin, &key, &flag.text);
            }
        }
    }

    /// Removes a table from all files and variables: the command line replaces it.
    pub(crate) fn remove_table(&mut self, table: &str) {
        for layer in &mut self.layers {
            match &mut layer.origin {
                Origin::File { spans, .. } => {
                    spans.retain(|path, _| path.first().is_none_or(|first| first != table));
                }
                Origin::Variable { .. } | Origin::Preset { .. } => {}
                Origin::Set { .. } | Origin::Flag { .. } | Origin::Implied { .. } => continue,
            }
            layer.values.remove(table);
        }
    }

    /// Adds what the command line sets.
    pub(crate) fn add_sets(&mut self, sets: &[(String, String)]) {
        for (index, (name, text)) in sets.iter().enumerate() {
            let Some(key) = key::parse(name) else {
                let location = SourceLocation::Set { key: name.clone() };
                let message = format!("{name:?} is not a key");
                let mut error = ConfigError::new(location, "", message);
                error.help = Some("the form is `--set limits.max_cost_usd=5`".to_owned());
                self.errors.push(error);
                continue;
            };
            let origin = Origin::Set { index, text: text.clone(), key: key.clone() };
            self.add_value(origin, &key, text);
        }
    }

    fn add_value(&mut self, origin: Origin, key: &KeyPath, text: &str) {
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
        self.push(Layer { origin, values, broken: Vec::new(), is_stored: false }, converter.wrong);
    }
}

fn unreadable(path: &Path, error: &TextFileError) -> ConfigError {
    let mut location = SourceLocation::file(path);
    if let TextFileError::NotUtf8 { offset, text, .. } = error {
        let span = *offset..offset + char::REPLACEMENT_CHARACTER.len_utf8();
        location = SourceLocation::File {
            path: path.to_owned(),
            position: Some(Position::new(text, &span)),
        };
    }
    let (message, help) = match error {
        TextFileError::Missing => (
            "there is no such file".to_owned(),
            Some(
                "`ralph-orchestrator -c FILE init` writes one; without `-c` it is the ralph.toml of this folder",
            ),
        ),
        TextFileError::Io(error) if error.kind() == ErrorKind::PermissionDenied => (
            "permission denied".to_owned(),
            Some("make the file, and the folders that it is in, readable for this user"),
        ),
        _ => (format!("not a configuration file: {error}"), None),
    };
    let mut shown = ConfigError::new(location, "", message);
    shown.help = help.map(str::to_owned);
    shown
}
