//! Paths to values in a line: `$.delta.text`, `$.content[0].text`, `@.type`, `$.models[*]["cost.usd"]`.
//!
//! A small part of JSONPath, so that a path means the same in every line and takes a bounded time: no filters,
//! no slices, no descent to any depth.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// How many values a path visits at most in one line: a line of megabytes must not hold up the run.
const MAX_VISITS: usize = 2_000;

/// A path that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path `{path}` is wrong at character {at}: expected {expected}")]
pub(crate) struct PathError {
    path: String,
    /// The character, from 1.
    at: usize,
    expected: &'static str,
}

/// What a path starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Root {
    /// `$`, or nothing: the whole line.
    Line,
    /// `@`: the value that `each` has found.
    Element,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Index(usize),
    /// Every element of a list, or every value of an object.
    All,
}

/// Where values are found in a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ValuePath {
    text: String,
    root: Root,
    steps: Vec<Step>,
}

/// What paths of a rule start from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) line: &'a Value,
    /// One of the values that `each` has found; without it the line.
    pub(crate) element: &'a Value,
}

/// The values at a path.
#[derive(Debug, Default)]
pub(crate) struct Selection<'a> {
    /// In the order of the line, without nulls.
    pub(crate) values: Vec<&'a Value>,
    /// There are more than are visited in one line.
    pub(crate) is_cut: bool,
}

impl ValuePath {
    /// Returns whether it starts from the value that `each` has found.
    pub(crate) fn is_of_element(&self) -> bool {
        self.root == Root::Element
    }

    /// Returns the values that are there and are not null.
    pub(crate) fn select<'a>(&self, scope: Scope<'a>) -> Selection<'a> {
        let start = match self.root {
            Root::Line => scope.line,
            Root::Element => scope.element,
        };
        let mut visits = MAX_VISITS;
        let mut values = Vec::new();
        let is_whole = collect(start, &self.steps, &mut visits, &mut values);
        Selection { values, is_cut: !is_whole }
    }
}

/// Returns whether all values were visited.
fn collect<'a>(
    value: &'a Value,
    steps: &[Step],
    visits: &mut usize,
    values: &mut Vec<&'a Value>,
) -> bool {
    let Some(left) = visits.checked_sub(1) else { return false };
    *visits = left;
    let Some((step, rest)) = steps.split_first() else {
        if !value.is_null() {
            values.push(value);
        }
        return true;
    };
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => {
            fields.get(name).is_none_or(|value| collect(value, rest, visits, values))
        }
        (Step::Index(index), Value::Array(elements)) => {
            elements.get(*index).is_none_or(|value| collect(value, rest, visits, values))
        }
        (Step::All, Value::Array(elements)) => {
            elements.iter().all(|value| collect(value, rest, visits, values))
        }
        (Step::All, Value::Object(fields)) => {
            fields.values().all(|value| collect(value, rest, visits, values))
        }
        _ => true,
    }
}

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ValuePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut reader = PathReader { text, rest: text };
        let (root, begins) = match text.chars().next() {
            Some('$') => (Root::Line, reader.take("$")),
            Some('@') => (Root::Element, reader.take("@")),
            _ => (Root::Line, false),
        };
        let mut steps = Vec::new();
        if !begins {
            steps.push(reader.name("the name of a field, `$` or `@`")?);
        }
        while !reader.rest.is_empty() {
            let step = if reader.take(".") {
                reader.name("the name of a field")?
            } else if reader.take("[") {
                reader.bracket()?
            } else {
                return Err(reader.error("`.` or `[`; quote other names as `[\"a name\"]`"));
            };
            steps.push(step);
        }
        Ok(Self { text: text.to_owned(), root, steps })
    }
}

/// Reads a path from left to right.
struct PathReader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl PathReader<'_> {
    fn take(&mut self, what: &str) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes the characters that fit, and returns them.
    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn name(&mut self, expected: &'static str) -> Result<Step, PathError> {
        let name = self.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-')).to_owned();
        if name.is_empty() { Err(self.error(expected)) } else { Ok(Step::Field(name)) }
    }

    /// Reads what follows a bracket.
    fn bracket(&mut self) -> Result<Step, PathError> {
        let expected = "a number, `*` or a name in double quotes";
        let step = if self.take("*") {
            Step::All
        } else if self.take("\"") {
            let name = self.take_while(|c| c != '"').to_owned();
            if !self.take("\"") {
                return Err(self.error("`\"` after the name"));
            }
            Step::Field(name)
        } else {
            let before = self.rest;
            match self.take_while(|c| c.is_ascii_digit()).parse() {
                Ok(index) => Step::Index(index),
                Err(_) => {
                    self.rest = before;
                    return Err(self.error(expected));
                }
            }
        };
        if self.take("]") { Ok(step) } else { Err(self.error("`]`")) }
    }

    fn error(&self, expected: &'static str) -> PathError {
        let read = self.text.strip_suffix(self.rest).unwrap_or(self.text);
        PathError { path: self.text.to_owned(), at: read.chars().count() + 1, expected }
    }
}

impl<'de> Deserialize<'de> for ValuePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for ValuePath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ValuePath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_finds_its_values_in_order() {
        let line = json!({
            "type": "a", "n": null, "a b": {"c.d": 7}, "naïve-key_1": true,
            "list": [{"x": 1}, {"x": null}, {"y": 2}, {"x": 3}],
            "map": {"p": {"x": 4}, "q": {"x": 5}},
        });
        for (path, expected) in [
            ("$.type", json!(["a"])),
            ("type", json!(["a"])),
            ("$.n", json!([])),
            ("$.missing.deeper", json!([])),
            ("$.type.deeper", json!([])),
            (r#"$["a b"]["c.d"]"#, json!([7])),
            ("$.naïve-key_1", json!([true])),
            ("$.list[0].x", json!([1])),
            ("list[3].x", json!([3])),
            ("$.list[4]", json!([])),
            ("$.list[*].x", json!([1, 3])),
            ("$.map[*].x", json!([4, 5])),
            ("$.map[0]", json!([])),
            ("@.x", json!([3])),
        ] {
            let scope = Scope { line: &line, element: &line["list"][3] };
            let selected = path.parse::<ValuePath>().unwrap().select(scope);
            assert_eq!(json!(selected.values), expected, "{path}");
            assert!(!selected.is_cut);
        }
        let whole = "$".parse::<ValuePath>().unwrap();
        assert_eq!(whole.select(Scope { line: &line, element: &line }).values, [&line]);
    }

    #[test]
    fn a_path_that_cannot_be_read_is_named_with_the_place() {
        for (path, at, expected) in [
            ("", 1, "the name of a field, `$` or `@`"),
            (".a", 1, "the name of a field, `$` or `@`"),
            ("$a", 2, "`.` or `[`"),
            ("$.", 3, "the name of a field"),
            ("$.é..b", 5, "the name of a field"),
            ("$.a b", 4, "`.` or `[`"),
            ("$.a[", 5, "a number, `*` or a name"),
            ("$.a[-1]", 5, "a number, `*` or a name"),
            ("$.a[99999999999999999999]", 5, "a number, `*` or a name"),
            ("$.a[1", 6, "`]`"),
            ("$.a[\"b]", 8, "`\"` after the name"),
            ("$.a[?(@.b)]", 5, "a number, `*` or a name"),
            ("$..a", 3, "the name of a field"),
        ] {
            let error = path.parse::<ValuePath>().unwrap_err();
            assert_eq!(error.at, at, "{path}: {error}");
            assert!(error.expected.starts_with(expected), "{path}: {error}");
        }
    }

    #[test]
    fn a_path_visits_a_bounded_number_of_values() {
        let line = Value::Array(vec![json!([]); 2 * MAX_VISITS]);
        let scope = Scope { line: &line, element: &line };
        let all = "$[*][*]".parse::<ValuePath>().unwrap().select(scope);
        assert!(all.is_cut && all.values.is_empty());
        let some = "$[*]".parse::<ValuePath>().unwrap().select(scope);
        assert_eq!((some.is_cut, some.values.len()), (true, MAX_VISITS - 1));
    }
}
