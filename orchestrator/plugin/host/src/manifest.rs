//! The manifest in a library's file.

use std::collections::BTreeSet;

use ralph_orchestrator_plugin_protocol::{Item, ItemKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::library_defect::LibraryDefect;
use crate::remarks::nearest;

/// The longest name of an item, in bytes.
const MAX_NAME: usize = 64;

/// The manifest of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// The plugin's name.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// The items that it provides, in its order.
    pub provides: Vec<Item>,
    /// Name and version of the SDK that it was built with, if any.
    pub sdk: Option<String>,
    /// The compiler that built it, if named.
    pub rustc: Option<String>,
}

/// The manifest as written. Keys of newer versions are ignored.
#[derive(Deserialize)]
struct RawManifest {
    name: String,
    version: String,
    provides: Vec<RawItem>,
    #[serde(default)]
    sdk: Option<String>,
    #[serde(default)]
    rustc: Option<String>,
    #[serde(default)]
    panic: Option<String>,
}

#[derive(Deserialize)]
struct RawItem {
    kind: String,
    name: String,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    schema: Option<Value>,
}

/// Parses a manifest. `newer` says that the library was built for a newer minor version of the interface,
/// which may have more kinds of items.
pub(crate) fn parse(
    text: &[u8],
    newer: bool,
    defects: &mut Vec<LibraryDefect>,
) -> Option<Manifest> {
    let value = serde_json::from_slice::<Value>(text);
    let value = match value {
        Ok(value) => value,
        Err(error) => {
            defects.push(LibraryDefect::ManifestNotJson { error: error.to_string() });
            return None;
        }
    };
    let raw = match RawManifest::deserialize(value) {
        Ok(raw) => raw,
        Err(error) => {
            defects.push(LibraryDefect::InvalidManifest { error: error.to_string() });
            return None;
        }
    };
    if let Some(found) = raw.panic.filter(|strategy| strategy != "unwind") {
        defects.push(LibraryDefect::PanicStrategy { found: escaped(&found) });
    }
    let mut provides = Vec::new();
    let mut seen = BTreeSet::new();
    for item in raw.provides {
        if let Some(item) = parse_item(item, newer, defects)
            && let Some(item) = reject_duplicate(item, &mut seen, defects)
        {
            provides.push(item);
        }
    }
    if provides.is_empty() && defects.is_empty() {
        defects.push(LibraryDefect::ProvidesNothing);
    }
    if !is_display_name(&raw.name) {
        defects.push(LibraryDefect::InvalidName { name: escaped(&raw.name) });
    }
    let RawManifest { name, version, sdk, rustc, .. } = raw;
    Some(Manifest { name, version, provides, sdk, rustc })
}

fn parse_item(item: RawItem, newer: bool, defects: &mut Vec<LibraryDefect>) -> Option<Item> {
    let RawItem { kind, name, summary, schema } = item;
    let kind = match kind.as_str() {
        "agent" => ItemKind::Agent,
        "detector" => ItemKind::Detector,
        "validator" => ItemKind::Validator,
        "backlog" => ItemKind::Backlog,
        _ if newer => return None,
        _ => {
            let near = nearest(&kind, &["agent", "detector", "validator", "backlog"]);
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            defects.push(LibraryDefect::UnknownKind { kind: escaped(&kind), hint });
            return None;
        }
    };
    if !is_item_name(&name) {
        defects.push(LibraryDefect::InvalidItemName { kind: kind.word(), name: escaped(&name) });
        return None;
    }
    Some(Item { kind, name, summary, schema })
}

fn reject_duplicate(
    item: Item,
    seen: &mut BTreeSet<(ItemKind, String)>,
    defects: &mut Vec<LibraryDefect>,
) -> Option<Item> {
    if seen.insert((item.kind, item.name.clone())) {
        return Some(item);
    }
    defects.push(LibraryDefect::DuplicateItem { kind: item.kind.word(), name: item.name });
    None
}

/// Whether an item can be named so in a configuration.
pub(crate) fn is_item_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain)
}

/// Whether a plugin can be shown by this name.
pub(crate) fn is_display_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

/// Escapes and truncates a text for a message.
pub(crate) fn escaped(text: &str) -> String {
    let mut some: String = text.chars().take(MAX_NAME).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_NAME).is_some() {
        some.push('…');
    }
    some
}
