//! Reads tables strictly.
//!
//! A type that derives `Deserialize` also takes an array, as its fields in their order, and an enum
//! takes a number. In a configuration both are mistakes, so what holds tables or words is read
//! through these functions.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Reads a `T` from a table only.
struct Table<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Table<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Table<T> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A table of tables.
struct Tables<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Tables<T> {
    type Value = BTreeMap<String, T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of tables")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tables = BTreeMap::new();
        while let Some(name) = map.next_key()? {
            tables.insert(name, map.next_value_seed(Table(PhantomData))?);
        }
        Ok(tables)
    }
}

pub(crate) fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Table(PhantomData).deserialize(deserializer)
}

pub(crate) fn optional_table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    table(deserializer).map(Some)
}

pub(crate) fn tables<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    deserializer.deserialize_any(Tables(PhantomData))
}

/// Reads a table whose keys belong to an adapter, detector or validator.
pub(crate) fn open_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    table::<D, Map<String, Value>>(deserializer).map(Value::Object)
}

/// Defines an enum that is one word of a fixed set, each variant with its word: read, written and shown as that.
macro_rules! strict_enum {
    (
        $(#[$of_enum:meta])*
        pub enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$of_enum])*
        pub enum $name {
            $($(#[$of_variant])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; Self::WORDS.len()] = [$(Self::$variant),+];

            /// Their words, in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns its word in the configuration.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::strict::word(deserializer, Self::WORDS, &Self::ALL)
            }
        }
    };
}
pub(crate) use strict_enum;

/// Reads one of these words, each of which stands for the value at the same place.
struct Words<T: 'static>(&'static [&'static str], &'static [T]);

impl<T: Copy> Visitor<'_> for Words<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>();
        f.write_str(&words.join(" or "))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let found = self.0.iter().zip(self.1).find(|(word, _)| **word == text);
        found.map(|(_, value)| *value).ok_or_else(|| E::unknown_variant(text, self.0))
    }
}

pub(crate) fn word<'de, D: Deserializer<'de>, T: Copy>(
    deserializer: D,
    words: &'static [&'static str],
    values: &'static [T],
) -> Result<T, D::Error> {
    deserializer.deserialize_str(Words(words, values))
}

pub(crate) fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Serialises fixed keys and somebody else's keys into one table.
pub(crate) fn join<T: Serialize>(fixed: &T, open: &Map<String, Value>) -> Option<Value> {
    let Ok(Value::Object(mut table)) = serde_json::to_value(fixed) else { return None };
    table.extend(open.clone());
    Some(Value::Object(table))
}
