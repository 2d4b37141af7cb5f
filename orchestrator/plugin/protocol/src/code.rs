//! Frames as bytes.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::MAX_FRAME;

/// The longest name of an unknown frame that is kept, in bytes.
const LONGEST_NAME: usize = 64;

/// One of the two kinds of frames, [`HostFrame`](crate::HostFrame) or
/// [`PluginFrame`](crate::PluginFrame).
pub trait Frame: Serialize + Sized {
    /// Reads the frame that is called `name`; `None` if there is none of that name.
    ///
    /// # Errors
    /// The bytes are not such a frame.
    fn read(name: &str, bytes: &[u8]) -> Option<Result<Self, serde_json::Error>>;
}

/// A frame that came.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<F> {
    /// One that is known.
    Known(F),
    /// One of a newer version, to be ignored; its name, cut if it is long.
    Unknown(String),
}

/// Bytes that are no frame.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is longer than [`MAX_FRAME`].
    #[error("a frame of {bytes} bytes; the longest one has {MAX_FRAME}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// It is no JSON object with the key `frame`.
    #[error("`{beginning}` is no frame, which is a JSON object with the key `frame`: {error}")]
    NoFrame {
        /// How it begins.
        beginning: String,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// Its keys are not those of such a frame.
    #[error("the frame `{frame}` is not as it should be: {error}")]
    Wrong {
        /// Which frame.
        frame: String,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

/// A frame that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It would be longer than [`MAX_FRAME`].
    #[error("a frame of {bytes} bytes would be needed; the longest one has {MAX_FRAME}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// It holds something that JSON cannot, such as a path that is no text.
    #[error("it cannot be said in JSON: {0}")]
    NotJson(#[from] serde_json::Error),
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    frame: Cow<'a, str>,
}

/// The frame as bytes: one line without its end.
///
/// # Errors
/// It is too long, or holds something that JSON cannot.
pub fn encode<F: Frame>(frame: &F) -> Result<Vec<u8>, EncodeError> {
    let bytes = serde_json::to_vec(frame)?;
    if bytes.len() > MAX_FRAME {
        return Err(EncodeError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes)
}

/// The frame behind these bytes, a line without its end.
///
/// # Errors
/// It is too long, no frame, or one with wrong keys. A frame that is not known is no error.
pub fn decode<F: Frame>(bytes: &[u8]) -> Result<Decoded<F>, DecodeError> {
    if bytes.len() > MAX_FRAME {
        return Err(DecodeError::TooLarge { bytes: bytes.len() });
    }
    let head: Head<'_> = serde_json::from_slice(bytes)
        .map_err(|error| DecodeError::NoFrame { beginning: beginning(bytes), error })?;
    match F::read(&head.frame, bytes) {
        Some(Ok(frame)) => Ok(Decoded::Known(frame)),
        Some(Err(error)) => Err(DecodeError::Wrong { frame: head.frame.into_owned(), error }),
        None => Ok(Decoded::Unknown(cut(&head.frame).to_owned())),
    }
}

/// For the implementations of [`Frame::read`].
pub(crate) fn body<T: DeserializeOwned, F>(
    bytes: &[u8],
    of: impl FnOnce(T) -> F,
) -> Result<F, serde_json::Error> {
    serde_json::from_slice(bytes).map(of)
}

fn beginning(bytes: &[u8]) -> String {
    let some = bytes.get(..LONGEST_NAME).unwrap_or(bytes);
    let more = if some.len() < bytes.len() { "…" } else { "" };
    let text = String::from_utf8_lossy(some);
    text.trim_end_matches('\u{fffd}').escape_debug().chain(more.chars()).collect()
}

fn cut(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or(name)
}
