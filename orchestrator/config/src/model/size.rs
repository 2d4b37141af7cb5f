//! Numbers of bytes: a whole number, or text such as "8 KiB".

use std::fmt;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

const UNITS: &[(&str, u64)] = &[
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];
const BINARY_UNITS: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Reads a size of at least one byte.
fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes > 0)
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = u64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a number of bytes, at least 1, or a string such as "8 KiB""#)
    }
    fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
        let size = Some(bytes).filter(|bytes| *bytes > 0);
        size.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(bytes), &self))
    }
    fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(bytes), &SizeVisitor);
        u64::try_from(bytes).map_err(wrong).and_then(|bytes| self.visit_u64(bytes))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    match BINARY_UNITS.iter().find(|(_, factor)| bytes.is_multiple_of(*factor)) {
        Some((name, factor)) => serializer.collect_str(&format_args!("{} {name}", bytes / factor)),
        None => serializer.serialize_u64(*bytes),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(SizeVisitor)
}

pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "integer"], "minimum": 1, "pattern": r"^\s*\d"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize)]
    struct Sample(#[serde(serialize_with = "serialize")] u64);

    #[test]
    fn sizes_people_write() {
        let table = [
            ("8 KiB", Some(8 << 10)),
            ("10MiB", Some(10 << 20)),
            (" 3 kb ", Some(3000)),
            ("7", Some(7)),
            ("0", None),
            ("-1", None),
            ("1.5 MiB", None),
            ("KiB", None),
            ("99999999999 GiB", None),
            ("", None),
        ];
        for (text, bytes) in table {
            assert_eq!(parse(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for (bytes, text) in [(8 << 10, "8 KiB"), (256 << 10, "256 KiB"), (2 << 30, "2 GiB")] {
            assert_eq!(serde_json::to_value(Sample(bytes)).unwrap(), text);
            assert_eq!(parse(text), Some(bytes));
        }
        assert_eq!(serde_json::to_value(Sample(1500)).unwrap(), 1500);
    }
}
