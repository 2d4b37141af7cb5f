//! Encodes frames to bytes and decodes them.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::unknown_words::UnknownWord;
use crate::{MAX_FRAME, mistyped};

/// The longest name of an unknown frame that is kept, in bytes.
const LONGEST_NAME: usize = 64;
/// The longest part of an invalid frame that a message includes, in bytes.
const LONGEST_LINE: usize = 256;

/// One of the two kinds of frames, [`HostFrame`](crate::HostFrame) or
/// [`PluginFrame`](crate::PluginFrame).
pub trait Frame: Serialize + Sized {
    /// Parses the frame named `name`; `None` if no frame has that name.
    ///
    /// # Errors
    /// The bytes are not such a frame.
    fn parse(name: &str, bytes: &[u8]) -> Option<Result<Self, serde_json::Error>>;

    /// Parses it without the words in it that this version does not know, and returns these; `None` if that is not possible.
    fn parse_known_part(_name: &str, _bytes: &[u8]) -> Option<(Self, Vec<UnknownWord>)> {
        None
    }
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<F> {
    /// A frame of this version.
    Known(F),
    /// A frame of this version with words of a newer one, which were replaced or left out.
    KnownInPart(F, Vec<UnknownWord>),
    /// A frame of a newer version, to be ignored: its name, truncated if it is long.
    Unknown(String),
}

/// Why bytes are not a valid frame.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is longer than [`MAX_FRAME`].
    #[error("a frame of {bytes} bytes; at most {MAX_FRAME} are allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// It is not a JSON object with the key `frame`.
    #[error("`{beginning}` is not a frame (a JSON object with the key `frame`): {error}")]
    NotAFrame {
        /// How it begins.
        beginning: String,
        /// The parse error.
        error: serde_json::Error,
    },
    /// Its keys are not those of such a frame.
    #[error("invalid frame `{frame}`: {problem}: {line}")]
    Invalid {
        /// Which frame.
        frame: String,
        /// What is wrong with it.
        problem: String,
        /// The frame, truncated if it is long.
        line: String,
    },
}

/// Why a frame cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It would be longer than [`MAX_FRAME`].
    #[error("the frame would have {bytes} bytes; at most {MAX_FRAME} are allowed")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// It contains something that JSON cannot represent, such as a path that is not UTF-8.
    #[error("it cannot be encoded as JSON: {0}")]
    NotJson(#[from] serde_json::Error),
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    frame: Cow<'a, str>,
}

/// Encodes a frame as one line without its end.
///
/// # Errors
/// It is too long, or contains something that JSON cannot represent.
pub fn encode<F: Frame>(frame: &F) -> Result<Vec<u8>, EncodeError> {
    let bytes = serde_json::to_vec(frame)?;
    if bytes.len() > MAX_FRAME {
        return Err(EncodeError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes)
}

/// Decodes a frame from a line without its end.
///
/// # Errors
/// It is too long, not a frame, or has invalid keys. An unknown frame is not an error.
pub fn decode<F: Frame>(bytes: &[u8]) -> Result<Decoded<F>, DecodeError> {
    if bytes.len() > MAX_FRAME {
        return Err(DecodeError::TooLarge { bytes: bytes.len() });
    }
    let replaced = replace_lone_surrogates(bytes);
    let bytes = replaced.as_deref().unwrap_or(bytes);
    let head: Head<'_> = serde_json::from_slice(bytes).map_err(|error| DecodeError::NotAFrame {
        beginning: beginning(bytes, LONGEST_NAME),
        error,
    })?;
    match F::parse(&head.frame, bytes) {
        Some(Ok(frame)) => Ok(Decoded::Known(frame)),
        Some(Err(error)) => match F::parse_known_part(&head.frame, bytes) {
            Some((frame, unknown)) => Ok(Decoded::KnownInPart(frame, unknown)),
            None => Err(DecodeError::Invalid {
                problem: describe(&head.frame, bytes, &error),
                line: beginning(bytes, LONGEST_LINE),
                frame: head.frame.into_owned(),
            }),
        },
        None => Ok(Decoded::Unknown(truncate(&head.frame).to_owned())),
    }
}

/// Replaces each escape of half a surrogate pair by U+FFFD, as a decoder of UTF-8 does with bytes: JavaScript and
/// Python write a text that was cut within a pair so. `None` if there is none.
fn replace_lone_surrogates(bytes: &[u8]) -> Option<Vec<u8>> {
    const REPLACEMENT: &[u8] = b"\\ufffd";
    let mut replaced: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at += found;
        let Some(unit) = escaped_unit(bytes, at) else {
            // The escaped character may be a backslash itself.
            at += 2;
            continue;
        };
        let is_pair = || {
            let low = escaped_unit(bytes, at + REPLACEMENT.len());
            low.is_some_and(|low| (0xDC00..0xE000).contains(&low))
        };
        match unit {
            0xD800..0xDC00 if is_pair() => at += 2 * REPLACEMENT.len(),
            0xD800..0xE000 => {
                let text = replaced.get_or_insert_with(|| bytes.to_vec());
                if let Some(escape) = text.get_mut(at..at + REPLACEMENT.len()) {
                    escape.copy_from_slice(REPLACEMENT);
                }
                at += REPLACEMENT.len();
            }
            _ => at += REPLACEMENT.len(),
        }
    }
    replaced
}

/// Returns the code unit of the escape `\uXXXX` at this place.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

/// Parses the keys of a frame, for implementations of [`Frame::parse`].
pub(crate) fn body<T: DeserializeOwned, F>(
    bytes: &[u8],
    wrap: impl FnOnce(T) -> F,
) -> Result<F, serde_json::Error> {
    serde_json::from_slice(bytes).map(wrap)
}

/// Says what is wrong with the keys of a frame, in the words of the protocol instead of its Rust types.
fn describe(frame: &str, bytes: &[u8], error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.split_once(" at line ").map_or(message.as_str(), |(what, _)| what);
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let event = value.get("event").filter(|_| frame == "event");
    let subject = match event.and_then(|event| event.get("type")?.as_str()) {
        Some(kind) => format!("the event `{}` ", truncate(kind)),
        None => "it ".to_owned(),
    };
    let keys = match frame {
        "done" => {
            &["found", "report", "claims", "findings", "text", "verdict", "backlog", "edited"][..]
        }
        "opened" => &["agent", "detector", "validator", "backlog"],
        _ => &[],
    };
    if message.starts_with("no variant of enum") {
        return format!("it has none of the keys `{}`", keys.join("`, `"));
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("{subject}lacks {field}");
    }
    let mistyped = mistyped::describe(event.unwrap_or(&value), message);
    format!("{subject}is not valid: {}", mistyped.as_deref().unwrap_or(message))
}

fn beginning(bytes: &[u8], longest: usize) -> String {
    let some = bytes.get(..longest).unwrap_or(bytes);
    let more = if some.len() < bytes.len() { "…" } else { "" };
    let text = String::from_utf8_lossy(some);
    let escaped = text.trim_end_matches('\u{fffd}').chars().flat_map(|c| {
        let escaped = c.escape_debug();
        // A frame is full of these.
        let is_plain = matches!(c, '"' | '\'' | '\\');
        std::iter::once(c).filter(move |_| is_plain).chain(escaped.filter(move |_| !is_plain))
    });
    escaped.chain(more.chars()).collect()
}

fn truncate(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or(name)
}
