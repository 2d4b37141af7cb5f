//! Sizes in a configuration: a whole number of bytes, at least 1, or text such as `10 MiB`.
//!
//! The units are `B`, `kB`, `MB`, `GB`, `KiB`, `MiB` and `GiB`, in any case.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

const UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Reads a text as a number of bytes; `None` if it is no size, is 0 or is above 2^64 - 1.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.trim_start() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes > 0)
}

struct SizeVisitor {
    example: &'static str,
}

impl Visitor<'_> for SizeVisitor {
    type Value = u64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number of bytes, at least 1, or a string such as \"{}\"", self.example)
    }
    fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
        let size = Some(bytes).filter(|bytes| *bytes > 0);
        size.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(bytes), &self))
    }
    fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
        match u64::try_from(bytes) {
            Ok(bytes) => self.visit_u64(bytes),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(bytes), &self)),
        }
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Reads a number of bytes from a number or a text. The error about any other value names `example`.
///
/// # Errors
/// The value is no size.
pub fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
    example: &'static str,
) -> Result<u64, D::Error> {
    deserializer.deserialize_any(SizeVisitor { example })
}

/// Writes a number of bytes as [`deserialize`] reads it: a text with the largest binary unit that keeps it whole,
/// or a number.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(bytes: u64, serializer: S) -> Result<S::Ok, S::Error> {
    let mut binary = UNITS.iter().rev().filter(|(name, _)| name.ends_with("iB"));
    match binary.find(|(_, factor)| bytes.is_multiple_of(*factor)) {
        Some((name, factor)) => serializer.collect_str(&format_args!("{} {name}", bytes / factor)),
        None => serializer.serialize_u64(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sample(u64);

    impl serde::Serialize for Sample {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serialize(self.0, serializer)
        }
    }

    #[test]
    fn sizes_people_write() {
        let table = [
            ("8 KiB", Some(8 << 10)),
            ("10 MiB", Some(10 << 20)),
            ("10MiB", Some(10 << 20)),
            ("2 gib", Some(2 << 30)),
            (" 3 kb ", Some(3000)),
            ("5 B", Some(5)),
            ("7", Some(7)),
            ("0", None),
            ("-1", None),
            ("1.5 MiB", None),
            ("KiB", None),
            ("1 parsec", None),
            ("99999999999 GiB", None),
            ("", None),
        ];
        for (text, bytes) in table {
            assert_eq!(parse(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        let table = [
            (3 << 10, "3 KiB"),
            (8 << 10, "8 KiB"),
            (256 << 10, "256 KiB"),
            (10 << 20, "10 MiB"),
            (1 << 30, "1 GiB"),
            (2 << 30, "2 GiB"),
        ];
        for (bytes, text) in table {
            assert_eq!(serde_json::to_value(Sample(bytes)).unwrap(), text);
            assert_eq!(parse(text), Some(bytes));
        }
        assert_eq!(serde_json::to_value(Sample(1500)).unwrap(), 1500);
    }
}
