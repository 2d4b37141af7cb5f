//! Deserializes merged values, and collects all mistakes.

use figment::error::{Actual, Kind};
use figment::value::Value;
use serde::Deserialize as _;

use crate::diagnostics::Diagnostics;
use crate::document::ConfigDocument;
use crate::serde_messages;

/// A file with more mistakes is something else altogether.
const MAX_MISTAKES: usize = 50;

/// Deserialises the values of `diagnostics`. Deserialisation ends at its first mistake; so each one is
/// recorded, taken out, and the rest tried again. `None` if that does not lead to an end. In one layer
/// alone, a key may be missing that another layer has.
pub(crate) fn document(diagnostics: &mut Diagnostics<'_>, alone: bool) -> Option<ConfigDocument> {
    let mut value = diagnostics.provenance.merged().clone();
    for _ in 0..MAX_MISTAKES {
        let error = match ConfigDocument::deserialize(&value) {
            Ok(file) => return Some(file),
            Err(error) => error,
        };
        let mut path = error.path;
        if let Some(text) = text_if_expected(&error.kind, diagnostics.provenance.written(&path)) {
            replace(&mut value, &path, text)?;
            continue;
        }
        let issue = serde_messages::from_figment(&error.kind);
        // figment's path of an unknown key ends with the key itself.
        if issue.unknown_key.is_some() && issue.unknown_key.as_ref() == path.last() {
            path.pop();
        }
        if !alone || issue.missing_key.is_none() {
            diagnostics.report(&path, &issue);
        }
        path.extend(issue.unknown_key);
        remove(&mut value, &path)?;
    }
    None
}

/// Returns the text that a scalar stands for. A variable or `--set` has no quotes that tell `5` from `"5"`:
/// where text is expected, it is text.
fn text_if_expected(kind: &Kind, written: Option<&str>) -> Option<String> {
    let Kind::InvalidType(actual, expected) = kind else { return None };
    let textual = expected.contains("string")
        || expected.starts_with("a duration")
        || expected.starts_with('"');
    let scalar = matches!(
        actual,
        Actual::Bool(_) | Actual::Signed(_) | Actual::Unsigned(_) | Actual::Float(_)
    );
    (scalar && textual).then(|| written.map(str::to_owned)).flatten()
}

fn find_mut<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, part| match value {
        Value::Dict(_, dict) => dict.get_mut(part),
        Value::Array(_, array) => array.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    })
}

fn replace(value: &mut Value, path: &[String], text: String) -> Option<()> {
    let tag = find_mut(value, path)?.tag();
    *find_mut(value, path)? = Value::String(tag, text);
    Some(())
}

/// Takes the value at `path` out; if it is an element of an array, the whole array, because the
/// indexes of the other elements must not change.
fn remove(value: &mut Value, path: &[String]) -> Option<()> {
    let (last, parent) = path.split_last()?;
    match find_mut(value, parent)? {
        Value::Dict(_, dict) => dict.remove(last).map(|_| ()),
        Value::Array(..) => remove(value, parent),
        _ => None,
    }
}
