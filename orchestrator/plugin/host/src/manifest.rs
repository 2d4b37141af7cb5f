//! What a library says of itself, in its file.

use std::collections::BTreeSet;

use plugin_protocol::{Item, ItemKind};
use serde::{Deserialize, Serialize};

use crate::flaw::Flaw;

/// The longest name of an item, in bytes.
const LONGEST_NAME: usize = 64;

/// The manifest of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// The plugin's name.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// What it provides, in its order.
    pub provides: Vec<Item>,
    /// Name and version of the SDK that it was made with, if any.
    pub sdk: Option<String>,
    /// The compiler that built it, if that is said.
    pub rustc: Option<String>,
}

/// As it is written: what a newer version adds is not looked at.
#[derive(Deserialize)]
struct Written {
    name: String,
    version: String,
    provides: Vec<WrittenItem>,
    #[serde(default)]
    sdk: Option<String>,
    #[serde(default)]
    rustc: Option<String>,
    #[serde(default)]
    panic: Option<String>,
}

#[derive(Deserialize)]
struct WrittenItem {
    kind: String,
    name: String,
    #[serde(default)]
    summary: String,
}

/// Reads a manifest. `newer` is whether the library was built for a newer minor version of the
/// interface, which may have more kinds.
pub(crate) fn read(text: &[u8], newer: bool, flaws: &mut Vec<Flaw>) -> Option<Manifest> {
    let value = serde_json::from_slice::<serde_json::Value>(text);
    let value = match value {
        Ok(value) => value,
        Err(error) => {
            flaws.push(Flaw::ManifestNotJson { error: error.to_string() });
            return None;
        }
    };
    let written = match Written::deserialize(value) {
        Ok(written) => written,
        Err(error) => {
            flaws.push(Flaw::ManifestWrong { error: error.to_string() });
            return None;
        }
    };
    if let Some(found) = written.panic.filter(|strategy| strategy != "unwind") {
        flaws.push(Flaw::Panic { found: escaped(&found) });
    }
    let mut provides = Vec::new();
    let mut seen = BTreeSet::new();
    for item in written.provides {
        if let Some(item) = read_item(item, newer, flaws)
            && let Some(item) = unless_seen(item, &mut seen, flaws)
        {
            provides.push(item);
        }
    }
    if provides.is_empty() && flaws.is_empty() {
        flaws.push(Flaw::ProvidesNothing);
    }
    let Written { name, version, sdk, rustc, .. } = written;
    Some(Manifest { name, version, provides, sdk, rustc })
}

fn read_item(item: WrittenItem, newer: bool, flaws: &mut Vec<Flaw>) -> Option<Item> {
    let WrittenItem { kind, name, summary } = item;
    let kind = match kind.as_str() {
        "agent" => ItemKind::Agent,
        "detector" => ItemKind::Detector,
        "validator" => ItemKind::Validator,
        _ if newer => return None,
        _ => {
            flaws.push(Flaw::UnknownKind { kind: escaped(&kind) });
            return None;
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) {
        flaws.push(Flaw::ItemName { kind: kind.word(), name: escaped(&name) });
        return None;
    }
    Some(Item { kind, name, summary })
}

fn unless_seen(
    item: Item,
    seen: &mut BTreeSet<(ItemKind, String)>,
    flaws: &mut Vec<Flaw>,
) -> Option<Item> {
    if seen.insert((item.kind, item.name.clone())) {
        return Some(item);
    }
    flaws.push(Flaw::Twice { kind: item.kind.word(), name: item.name });
    None
}

/// For a message: without control characters, and not too long.
pub(crate) fn escaped(text: &str) -> String {
    let mut some: String = text.chars().take(LONGEST_NAME).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST_NAME).is_some() {
        some.push('…');
    }
    some
}
