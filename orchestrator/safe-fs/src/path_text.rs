//! Converts paths, which are bytes, to text and back.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Returns the path as text: UTF-8 as it is, any other byte as `\xNN`, a backslash doubled.
#[must_use]
pub fn escape(path: &Path) -> String {
    if let Some(text) = path.to_str().filter(|text| !text.contains('\\')) {
        return text.to_owned();
    }
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Returns the path that [`escape`] made the text from; `None` if it cannot have.
#[must_use]
pub fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        if let Some(after) = escaped.strip_prefix('\\') {
            bytes.push(b'\\');
            rest = after;
        } else {
            let (digits, after) = escaped.strip_prefix('x')?.split_at_checked(2)?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\\'), Just(b'x')], 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            prop_assert_eq!(unescape(&escape(&path)), Some(path));
        }

        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = unescape(&text);
        }
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["\\", "a\\x", "\\x1", "\\xzz", "\\x+1", "\\n", "\\xé"] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }
}
