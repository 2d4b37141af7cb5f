//! Lines that carry a message authentication code of themselves.
//!
//! A signed line is a JSON object whose last member is `"mac"`: the code of everything before it.

use super::key::Key;

const MEMBER: &str = ",\"mac\":\"";
pub(super) const HEX: usize = 64;
const END: &str = "\"}";

/// The code that the first line of a chain names as its predecessor's.
pub(super) const START: &str = "";

/// Returns the line for a JSON object given as text, and its code.
pub(super) fn sign(key: &Key, object: &str) -> (String, String) {
    let open = object.strip_suffix('}').unwrap_or(object);
    let code = key.code(open.as_bytes()).to_hex().to_string();
    (format!("{open}{MEMBER}{code}{END}"), code)
}

/// Returns the code of a signed line, if it is right.
pub(super) fn verify<'a>(key: &Key, line: &'a str) -> Option<&'a str> {
    let rest = line.strip_suffix(END)?;
    let (open, code) = rest.split_at_checked(rest.len().checked_sub(HEX)?)?;
    let open = open.strip_suffix(MEMBER)?;
    let expected = blake3::Hash::from_hex(code).ok()?;
    // Upper case would be the same number in other bytes.
    let canonical = !code.bytes().any(|byte| byte.is_ascii_uppercase());
    (canonical && key.code(open.as_bytes()) == expected).then_some(code)
}
