//! The merged layers, and the source of each value.

use figment::value::{Tag, Value};
use figment::{Figment, Profile, Provider as _};

use crate::error::SourceLocation;
use crate::key::KeyPath;
use crate::layers::{Layer, Origin};

/// The merged values with their sources.
#[derive(Clone, Debug)]
pub(crate) struct Provenance {
    figment: Figment,
    layers: Vec<Layer>,
    merged: Value,
    file: SourceLocation,
}

impl Provenance {
    pub(crate) fn new(layers: Vec<Layer>, file: SourceLocation) -> Self {
        let figment = layers.iter().fold(Figment::new(), Figment::merge);
        // Our layers never fail to give their values, so there always are some.
        let mut profiles = figment.data().unwrap_or_default();
        let merged = profiles.remove(&Profile::Default).unwrap_or_default();
        Self { figment, layers, merged: Value::Dict(Tag::Default, merged), file }
    }

    pub(crate) fn merged(&self) -> &Value {
        &self.merged
    }

    /// Returns the value at `path`, unless only a default is there.
    pub(crate) fn value(&self, path: &[String]) -> Option<&Value> {
        path.iter().try_fold(&self.merged, |value, part| match value {
            Value::Dict(_, dict) => dict.get(part),
            Value::Array(_, array) => array.get(part.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Returns the file to point to for what is nowhere.
    pub(crate) fn file(&self) -> SourceLocation {
        self.file.clone()
    }

    /// Returns the elements of the array at `path`; none if there is no array.
    pub(crate) fn elements(&self, path: &[String]) -> impl Iterator<Item = &Value> {
        self.value(path).and_then(Value::as_array).into_iter().flatten()
    }

    /// Returns the layer that decided the value at `path`.
    fn layer(&self, path: &[String]) -> Option<&Layer> {
        let source = self.figment.get_metadata(self.value(path)?.tag())?.source.as_ref()?;
        self.layers.iter().find(|layer| layer.source() == *source)
    }

    /// Whether somebody gave the value at `path`: it neither is a default nor only follows from something
    /// else.
    pub(crate) fn is_given(&self, path: &[String]) -> bool {
        let layer = self.layer(path);
        let follows = |layer: &Layer| {
            layer.is_stored
                || matches!(layer.origin, Origin::Implied { .. } | Origin::Preset { .. })
        };
        self.value(path).is_some() && !layer.is_some_and(follows)
    }

    /// Whether the value at `path` was stored by an earlier start.
    pub(crate) fn is_stored(&self, path: &[String]) -> bool {
        self.layer(path).is_some_and(|layer| layer.is_stored)
    }

    /// Returns how late the value at `path` comes: each file, then all variables, then all of `--set`.
    pub(crate) fn rank(&self, path: &[String]) -> Option<usize> {
        let layer = self.layer(path)?;
        Some(match &layer.origin {
            Origin::File { .. } | Origin::Implied { .. } | Origin::Preset { .. } => {
                self.layers.iter().position(|other| other.source() == layer.source())?
            }
            Origin::Variable { .. } => usize::MAX - 2,
            Origin::Set { .. } => usize::MAX - 1,
            Origin::Flag { .. } => usize::MAX,
        })
    }

    /// Returns what was written for the value at `path` if a variable or `--set` gave it, and nothing else.
    pub(crate) fn written(&self, path: &[String]) -> Option<&str> {
        match &self.layer(path)?.origin {
            Origin::Variable { text, key, .. }
            | Origin::Set { text, key, .. }
            | Origin::Flag { text, key, .. }
                if key == path =>
            {
                Some(text)
            }
            _ => None,
        }
    }

    /// Returns where the value at `path` is, or the innermost table around it. With `of_key`, where the key
    /// is, if it exists.
    pub(crate) fn location(&self, path: &[String], of_key: bool) -> SourceLocation {
        let mut known: KeyPath = path.to_vec();
        while !known.is_empty() {
            if let Some(layer) = self.layer(&known) {
                let itself = known.len() == path.len();
                // Many layers may have the table around; what is missing belongs into a file.
                let file = self.layers.iter().rev().find(|layer| layer.has_span(&known));
                let layer = if itself { layer } else { file.unwrap_or(layer) };
                return layer.location(&known, of_key && itself);
            }
            known.pop();
        }
        self.file.clone()
    }
}
