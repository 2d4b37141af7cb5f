//! How a plugin can break the protocol.

use plugin_protocol::{DecodeError, ItemKind, MAX_FRAME, MethodName, PROTOCOL};

/// A plugin did what the protocol does not allow.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    /// What it sent is no frame, or none as it should be.
    #[error("sent what is no frame: {0}; only frames belong on its standard output, one a line")]
    NoFrame(#[from] DecodeError),
    /// A frame that was too long to be kept.
    #[error("sent a frame of {bytes} bytes; the longest one has {MAX_FRAME}")]
    TooLong {
        /// Its length.
        bytes: u64,
    },
    /// Its first frame was another one.
    #[error("sent the frame `{frame}` before `hello`")]
    BeforeHello {
        /// Which frame.
        frame: &'static str,
    },
    /// It said hello again.
    #[error("sent a second `hello`")]
    SecondHello,
    /// It speaks another version.
    #[error("speaks version {theirs} of the protocol, this host speaks {PROTOCOL}")]
    OtherProtocol {
        /// Its version.
        theirs: u32,
    },
    /// It answers an `open` that was never sent, or that was answered.
    #[error("sent `{frame}` for the instance {instance}, which is not being opened")]
    UnknownInstance {
        /// Which frame.
        frame: &'static str,
        /// The number that it named.
        instance: u64,
    },
    /// It opened something else than it was asked to.
    #[error("opened the instance {instance} as {got}, asked was for {asked}")]
    OtherKind {
        /// Which instance.
        instance: u64,
        /// What was asked for.
        asked: &'static str,
        /// What came.
        got: &'static str,
    },
    /// There is no call of that number.
    #[error("sent `{frame}` for the call {call}, which there is not")]
    UnknownCall {
        /// Which frame.
        frame: &'static str,
        /// The number that it named.
        call: u64,
    },
    /// The call was answered before.
    #[error("sent `{frame}` for the call {call}, which had come to its end")]
    AfterEnd {
        /// Which frame.
        frame: &'static str,
        /// Which call.
        call: u64,
    },
    /// Only `run` has events and questions.
    #[error("sent `{frame}` in a call of `{}`; only `run` has that", .method.word())]
    NotInThisCall {
        /// Which frame.
        frame: &'static str,
        /// What was called.
        method: MethodName,
    },
    /// It did not wait for credit.
    #[error("sent more events in the call {call} than it had credit for")]
    NoCredit {
        /// Which call.
        call: u64,
    },
    /// It asked again before it had an answer.
    #[error("sent `judge` in the call {call} before the last one was answered")]
    AskedTwice {
        /// Which call.
        call: u64,
    },
    /// The answer belongs to another method.
    #[error(
        "answered the call {call} of `{}` without the key `{}`",
        .method.word(), .method.answer()
    )]
    OtherAnswer {
        /// Which call.
        call: u64,
        /// What was called.
        method: MethodName,
    },
}

impl Violation {
    /// Whether it is only a frame that comes too late: nobody waits for it.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        matches!(self, Self::AfterEnd { .. })
    }
}

/// For messages, with its article.
pub(crate) const fn a(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Agent => "an agent",
        ItemKind::Detector => "a detector",
        ItemKind::Validator => "a validator",
        ItemKind::Unknown => "something unknown",
    }
}
