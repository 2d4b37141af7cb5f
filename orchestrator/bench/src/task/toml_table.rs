//! Reads TOML tables key by key: every wrong value and every unknown key is collected with its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, TextLocation};

/// A value with its place in the text.
pub(super) type SpannedValue<'t> = Spanned<DeValue<'t>>;

/// The text that tables are read from, and what was found wrong in it.
pub(super) struct TomlText<'t> {
    file: &'t Path,
    text: &'t str,
    /// What makes the task unusable.
    pub(super) errors: Vec<Problem>,
    /// What has no effect.
    pub(super) warnings: Vec<Problem>,
}

impl<'t> TomlText<'t> {
    pub(super) const fn new(file: &'t Path, text: &'t str) -> Self {
        Self { file, text, errors: Vec::new(), warnings: Vec::new() }
    }

    /// Returns the top table; none, with its errors recorded, if the text is not TOML.
    pub(super) fn parse(&mut self) -> Option<TableReader<'t>> {
        match DeTable::parse(self.text) {
            Ok(table) => {
                let span = table.span();
                Some(TableReader { path: String::new(), span, table: table.into_inner() })
            }
            Err(error) => {
                let span = error.span().unwrap_or_default();
                self.error(&span, error.message().to_owned());
                None
            }
        }
    }

    pub(super) fn error(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let problem = self.problem(span, message.into());
        self.errors.push(problem);
    }

    pub(super) fn warn(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let problem = self.problem(span, message.into());
        self.warnings.push(problem);
    }

    fn problem(&self, span: &Range<usize>, message: String) -> Problem {
        Problem { location: TextLocation::from_span(self.file, self.text, span), message }
    }

    /// Records that a value has the wrong type.
    fn wrong_type(&mut self, name: &str, value: &SpannedValue<'_>, expected: &str) {
        let found = value.get_ref().type_str();
        self.error(&value.span(), format!("`{name}` is {found}, expected {expected}"));
    }
}

/// A table whose keys are taken one after the other; what is left at the end is unknown.
pub(super) struct TableReader<'t> {
    path: String,
    span: Range<usize>,
    table: DeTable<'t>,
}

impl<'t> TableReader<'t> {
    /// Returns the place of the table.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the full name of a key of this table.
    pub(super) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<SpannedValue<'t>> {
        self.table.remove(key)
    }

    pub(super) fn take_string(
        &mut self,
        text: &mut TomlText<'_>,
        key: &str,
    ) -> Option<Spanned<String>> {
        let value = self.take(key)?;
        let string = as_string(&value);
        if string.is_none() {
            text.wrong_type(&self.name(key), &value, "a string");
        }
        string
    }

    pub(super) fn take_plain_string(
        &mut self,
        text: &mut TomlText<'_>,
        key: &str,
    ) -> Option<String> {
        self.take_string(text, key).map(Spanned::into_inner)
    }

    pub(super) fn take_boolean(&mut self, text: &mut TomlText<'_>, key: &str) -> Option<bool> {
        let value = self.take(key)?;
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            text.wrong_type(&self.name(key), &value, "true or false");
        }
        boolean
    }

    /// Takes a finite number, written as integer or float.
    pub(super) fn take_number(
        &mut self,
        text: &mut TomlText<'_>,
        key: &str,
    ) -> Option<Spanned<f64>> {
        let value = self.take(key)?;
        let number = as_number(&value);
        if number.is_none() {
            text.wrong_type(&self.name(key), &value, "a finite number");
        }
        number.map(|number| Spanned::new(value.span(), number))
    }

    /// Takes a whole number from 0.
    pub(super) fn take_count(&mut self, text: &mut TomlText<'_>, key: &str) -> Option<u64> {
        let value = self.take(key)?;
        let count = as_number(&value).filter(|n| *n >= 0.0 && n.fract() == 0.0 && *n < 9e15);
        if count.is_none() {
            text.wrong_type(&self.name(key), &value, "a whole number from 0");
        }
        count.map(to_whole)
    }

    /// Takes a time in seconds, greater than 0 or, where `may_be_zero`, from 0.
    pub(super) fn take_seconds(
        &mut self,
        text: &mut TomlText<'_>,
        key: &str,
        may_be_zero: bool,
    ) -> Option<Duration> {
        let value = self.take_number(text, key)?;
        let seconds = *value.get_ref();
        let is_usable = seconds > 0.0 || (may_be_zero && seconds == 0.0);
        let duration = Duration::try_from_secs_f64(seconds).ok().filter(|_| is_usable);
        if duration.is_none() {
            let bound = if may_be_zero { "from 0" } else { "greater than 0" };
            let name = self.name(key);
            text.error(&value.span(), format!("`{name}` is {seconds}, expected seconds {bound}"));
        }
        duration
    }

    pub(super) fn take_strings(
        &mut self,
        text: &mut TomlText<'_>,
        key: &str,
    ) -> Option<Vec<Spanned<String>>> {
        let value = self.take(key)?;
        let DeValue::Array(array) = value.get_ref() else {
            text.wrong_type(&self.name(key), &value, "a list of strings");
            return None;
        };
        let mut strings = Vec::new();
        for element in array {
            match as_string(element) {
                Some(string) => strings.push(string),
                None => text.wrong_type(&self.name(key), element, "a string"),
            }
        }
        Some(strings)
    }

    pub(super) fn take_plain_strings(&mut self, text: &mut TomlText<'_>, key: &str) -> Vec<String> {
        let strings = self.take_strings(text, key).unwrap_or_default();
        strings.into_iter().map(Spanned::into_inner).collect()
    }

    /// Takes a table of strings.
    pub(super) fn take_string_map(
        &mut self,
        text: &mut TomlText<'_>,
        key: &str,
    ) -> BTreeMap<String, String> {
        let mut map = BTreeMap::new();
        let Some(table) = self.take_table(text, key) else { return map };
        for (name, value) in &table.table {
            match as_string(value) {
                Some(string) => {
                    map.insert(name.get_ref().to_string(), string.into_inner());
                }
                None => text.wrong_type(&table.name(name.get_ref()), value, "a string"),
            }
        }
        map
    }

    /// Takes a table of finite numbers.
    pub(super) fn into_number_map(self, text: &mut TomlText<'_>) -> BTreeMap<String, f64> {
        let mut map = BTreeMap::new();
        for (name, value) in &self.table {
            match as_number(value) {
                Some(number) => {
                    map.insert(name.get_ref().to_string(), number);
                }
                None => text.wrong_type(&self.name(name.get_ref()), value, "a finite number"),
            }
        }
        map
    }

    /// Takes a string that is one of these words, and returns what stands for it.
    pub(super) fn take_word<T: Copy>(
        &mut self,
        text: &mut TomlText<'_>,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let value = self.take_string(text, key)?;
        let found = words.iter().find(|(word, _)| *word == value.get_ref());
        if found.is_none() {
            let names: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let message = format!(
                "`{}` is \"{}\", expected one of {}",
                self.name(key),
                value.get_ref(),
                names.join(", ")
            );
            text.error(&value.span(), message);
        }
        found.map(|(_, stands_for)| *stands_for)
    }

    pub(super) fn take_table(&mut self, text: &mut TomlText<'_>, key: &str) -> Option<Self> {
        let value = self.take(key)?;
        let name = self.name(key);
        Self::from_value(text, name, value, "a table")
    }

    /// Takes a list of tables.
    pub(super) fn take_tables(&mut self, text: &mut TomlText<'_>, key: &str) -> Vec<Self> {
        let name = self.name(key);
        let values = self.take_list(text, key);
        values
            .into_iter()
            .enumerate()
            .filter_map(|(at, value)| {
                Self::from_value(text, format!("{name}[{at}]"), value, "a table")
            })
            .collect()
    }

    /// Takes a list of anything.
    pub(super) fn take_list(
        &mut self,
        text: &mut TomlText<'_>,
        key: &str,
    ) -> Vec<SpannedValue<'t>> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let span = value.span();
        match value.into_inner() {
            DeValue::Array(array) => array.into_iter().collect(),
            other => {
                text.wrong_type(&self.name(key), &Spanned::new(span, other), "a list");
                Vec::new()
            }
        }
    }

    /// Returns the reader of a value that has to be a table.
    pub(super) fn from_value(
        text: &mut TomlText<'_>,
        path: String,
        value: SpannedValue<'t>,
        expected: &str,
    ) -> Option<Self> {
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(table) => Some(Self { path, span, table }),
            other => {
                text.wrong_type(&path, &Spanned::new(span, other), expected);
                None
            }
        }
    }

    /// Warns of every key that was not taken.
    pub(super) fn finish(self, text: &mut TomlText<'_>) {
        for (key, _) in &self.table {
            let name = self.name(key.get_ref());
            text.warn(
                &key.span(),
                format!(
                    "`{name}` is not a known key and has no effect; remove it or correct its name"
                ),
            );
        }
    }
}

/// Returns the text of a string value.
pub(super) fn as_string(value: &SpannedValue<'_>) -> Option<Spanned<String>> {
    let string = value.get_ref().as_str()?;
    Some(Spanned::new(value.span(), string.to_owned()))
}

/// Returns a finite number, written as integer or float.
pub(super) fn as_number(value: &SpannedValue<'_>) -> Option<f64> {
    let number: f64 = match value.get_ref() {
        DeValue::Integer(integer) => {
            let whole = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            whole.to_string().parse().ok()?
        }
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// Returns a whole number that is known to be from 0 and below 2^53.
fn to_whole(number: f64) -> u64 {
    format!("{number:.0}").parse().unwrap_or(0)
}
