//! The ways in which a plugin can violate the protocol.

use ralph_orchestrator_plugin_protocol::{DecodeError, ItemKind, MAX_FRAME, MethodName, PROTOCOL};

/// A violation of the protocol by a plugin.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    /// Something that is not a valid frame.
    #[error("sent an {}", describe_invalid(.0))]
    InvalidFrame(#[from] DecodeError),
    /// A frame that is too long.
    #[error("sent a frame of {bytes} bytes or more; at most {MAX_FRAME} are allowed")]
    TooLong {
        /// Its length so far.
        bytes: u64,
    },
    /// Another frame before `hello`.
    #[error("sent the frame `{frame}` before `hello`")]
    BeforeHello {
        /// The frame.
        frame: &'static str,
    },
    /// A second `hello`.
    #[error("sent a second `hello`")]
    SecondHello,
    /// Another version of the protocol.
    #[error("uses version {theirs} of the protocol, this host uses {PROTOCOL}")]
    OtherProtocol {
        /// Its version.
        theirs: u32,
    },
    /// A name that cannot be shown.
    #[error(
        "calls itself `{name}` in `hello`; a name has 1 to 64 characters, without control characters"
    )]
    InvalidName {
        /// The name, escaped.
        name: String,
    },
    /// An item whose name cannot be written in a configuration.
    #[error(
        "names the {kind} `{name}` in `hello`; a name has 1 to 64 letters, digits, `-` and `_`"
    )]
    InvalidItemName {
        /// Its kind.
        kind: &'static str,
        /// Its name, escaped.
        name: String,
    },
    /// Two items of one kind with the same name.
    #[error("provides the {kind} `{name}` twice in `hello`")]
    DuplicateItem {
        /// Their kind.
        kind: &'static str,
        /// Their name.
        name: String,
    },
    /// An answer to an `open` that was never sent, or that is already answered.
    #[error("sent `{frame}` for the instance {instance}, which is not being opened")]
    UnknownInstance {
        /// The frame.
        frame: &'static str,
        /// The number in the frame.
        instance: u64,
    },
    /// An instance of another kind than requested.
    #[error("opened the instance {instance} as {got} instead of {requested}")]
    OtherKind {
        /// The instance.
        instance: u64,
        /// The kind that was requested.
        requested: &'static str,
        /// The kind that was opened.
        got: &'static str,
    },
    /// A frame for an unknown call.
    #[error("sent `{frame}` for the unknown call {call}")]
    UnknownCall {
        /// The frame.
        frame: &'static str,
        /// The number in the frame.
        call: u64,
    },
    /// A frame for a call that has ended.
    #[error("sent `{frame}` for the call {call}, which had already ended")]
    AfterEnd {
        /// The frame.
        frame: &'static str,
        /// The call.
        call: u64,
    },
    /// An event or a preview request in another method than `run`.
    #[error("sent `{frame}` in a call of `{}`; it is only allowed in `run`", .method.word())]
    NotInThisCall {
        /// The frame.
        frame: &'static str,
        /// The method of the call.
        method: MethodName,
    },
    /// An event without credit.
    #[error("sent more events in the call {call} than it had credit for")]
    NoCredit {
        /// The call.
        call: u64,
    },
    /// A preview request while another one is open.
    #[error("sent `preview` in the call {call} before the last one was answered")]
    PreviewPending {
        /// The call.
        call: u64,
    },
    /// A request for guidance while another one is open.
    #[error("sent `take_guidance` in the call {call} before the last one was answered")]
    GuidancePending {
        /// The call.
        call: u64,
    },
    /// A question about a path while another one is open.
    #[error("sent `write_check` in the call {call} before the last one was answered")]
    WriteCheckPending {
        /// The call.
        call: u64,
    },
    /// An answer that belongs to another method.
    #[error(
        "answered call {call} of `{}` without `{}`",
        .method.word(), .method.answer_key()
    )]
    OtherAnswer {
        /// The call.
        call: u64,
        /// The method of the call.
        method: MethodName,
    },
}

impl Violation {
    /// Describes it after "it". The frames of a library come from `emit`, those of a program from its standard
    /// output.
    pub(crate) fn describe(&self, is_library: bool) -> String {
        let Self::InvalidFrame(error) = self else { return self.to_string() };
        match error {
            DecodeError::Invalid { .. } if is_library => format!("called `emit` with an {error}"),
            _ if is_library => {
                format!("called `emit` with an invalid frame: {error}{}", line_break_hint(error))
            }
            _ => self.to_string(),
        }
    }
}

/// Returns what to do about a frame that ends before its end.
fn line_break_hint(error: &DecodeError) -> &'static str {
    match error {
        DecodeError::NotAFrame { error, beginning }
            if error.is_eof() && beginning.starts_with('{') =>
        {
            "; the frame contains a line break: write each on one line"
        }
        _ => "",
    }
}

/// Describes what is no frame at all by what standard output is for; an invalid frame by its own defect.
fn describe_invalid(error: &DecodeError) -> String {
    match error {
        DecodeError::Invalid { .. } => error.to_string(),
        _ => {
            let hint = line_break_hint(error);
            format!(
                "invalid frame: {error}{hint}; its standard output is for frames only, one per line"
            )
        }
    }
}

/// Returns the kind with its article, for messages.
pub(crate) const fn with_article(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Agent => "an agent",
        ItemKind::Detector => "a detector",
        ItemKind::Validator => "a validator",
        ItemKind::Backlog => "a backlog",
        ItemKind::Unknown => "something unknown",
    }
}
