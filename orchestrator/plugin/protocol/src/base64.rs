//! Bytes that are no text.

use data_encoding::BASE64;

/// The bytes as text that every language can read.
pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The bytes behind such a text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.as_bytes()).ok()
}
