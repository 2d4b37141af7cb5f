//! Encodes frames to bytes and decodes them.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::MAX_FRAME;

/// The longest name of an unknown frame that is kept, in bytes.
const LONGEST_NAME: usize = 64;

/// One of the two kinds of frames, [`HostFrame`](crate::HostFrame) or
/// [`PluginFrame`](crate::PluginFrame).
pub trait Frame: Serialize + Sized {
    /// Parses the frame named `name`; `None` if no frame has that name.
    ///
    /// # Errors
    /// The bytes are not such a frame.
    fn parse(name: &str, bytes: &[u8]) -> Option<Result<Self, serde_json::Error>>;
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<F> {
    /// A frame of this version.
    Known(F),
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
    #[error("invalid frame `{frame}`: {error}")]
    Invalid {
        /// Which frame.
        frame: String,
        /// The parse error.
        error: serde_json::Error,
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
    let head: Head<'_> = serde_json::from_slice(bytes)
        .map_err(|error| DecodeError::NotAFrame { beginning: beginning(bytes), error })?;
    match F::parse(&head.frame, bytes) {
        Some(Ok(frame)) => Ok(Decoded::Known(frame)),
        Some(Err(error)) => Err(DecodeError::Invalid { frame: head.frame.into_owned(), error }),
        None => Ok(Decoded::Unknown(truncate(&head.frame).to_owned())),
    }
}

/// Parses the keys of a frame, for implementations of [`Frame::parse`].
pub(crate) fn body<T: DeserializeOwned, F>(
    bytes: &[u8],
    wrap: impl FnOnce(T) -> F,
) -> Result<F, serde_json::Error> {
    serde_json::from_slice(bytes).map(wrap)
}

fn beginning(bytes: &[u8]) -> String {
    let some = bytes.get(..LONGEST_NAME).unwrap_or(bytes);
    let more = if some.len() < bytes.len() { "…" } else { "" };
    let text = String::from_utf8_lossy(some);
    text.trim_end_matches('\u{fffd}').escape_debug().chain(more.chars()).collect()
}

fn truncate(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or(name)
}
