//! JSON with the bytes that each value has in its text.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A key and the bytes of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) value: Range<usize>,
}

/// An object's members in the order of the text; keys may repeat.
struct RawMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = RawMembers<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

/// Reads the members of the object that has these bytes of the text.
pub(super) fn read_members(
    text: &str,
    object: &Range<usize>,
) -> Result<Vec<Member>, serde_json::Error> {
    let source = text.get(object.clone()).unwrap_or_default();
    let RawMembers(members) = serde_json::from_str(source)?;
    let member = |(key, value): (String, &RawValue)| Member { key, value: span_in(text, value) };
    Ok(members.into_iter().map(member).collect())
}

/// Reads the elements of the array that has these bytes of the text.
pub(super) fn read_elements(
    text: &str,
    array: &Range<usize>,
) -> Result<Vec<Range<usize>>, serde_json::Error> {
    let source = text.get(array.clone()).unwrap_or_default();
    let elements: Vec<&RawValue> = serde_json::from_str(source)?;
    Ok(elements.into_iter().map(|value| span_in(text, value)).collect())
}

/// Returns the bytes of a value that borrows from the text.
fn span_in(text: &str, value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start + value.get().len()
}

/// Returns the offset of an error in a text that was parsed from `base` on, and its message
/// without the position.
pub(super) fn locate_error(text: &str, base: usize, error: &serde_json::Error) -> (usize, String) {
    let source = text.get(base..).unwrap_or_default();
    let before = error.line().saturating_sub(1);
    let start: usize = source.split_inclusive('\n').take(before).map(str::len).sum();
    let mut offset = (base + start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(text, _)| text);
    (offset, message.to_owned())
}
