//! The scenarios, by name.

use std::fmt;

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// `check()` says the same twice, spends nothing, changes nothing and leaves nothing.
    Check,
    /// A message becomes the final text; nothing is left.
    Start,
    /// The session comes before what happens in it; each result follows its call, once.
    Order,
    /// A prompt of [`Options::prompt_max`](crate::Options::prompt_max) bytes arrives as it is.
    LongPrompt,
    /// A prompt that is no UTF-8 is worked on or refused.
    BadPrompt,
    /// A tool prints what is no UTF-8.
    BadOutput,
    /// A tool prints 64 MiB: no event is large, and memory does not grow with it.
    Flood,
    /// The end is wanted before it began.
    CancelBefore,
    /// The end is wanted at the first event.
    CancelAtFirstEvent,
    /// The end is wanted while nothing comes.
    Deadline,
    /// The end is wanted in the middle of a message.
    CancelInMessage,
    /// The end is wanted while a tool runs that has started processes of its own.
    CancelInTool,
    /// The future is dropped while a tool runs.
    Drop,
    /// A tool leaves a process in a session of its own.
    TreeEnd,
    /// The end is wanted because the context is handed off to the next iteration.
    HandOff,
    /// Figures only grow, and are the model's in the end.
    Usage,
    /// How full the context is, is reported.
    Context,
    /// The model calls the tool that claims completion: the claim is reported.
    ClaimByTool,
    /// The same, and the claim would be rejected: a preview is requested, and the work goes on.
    Preview,
    /// The model calls the tool that leaves a note: the note is reported.
    Note,
    /// The provider refuses for now (429).
    RateLimited,
    /// The provider does not know the key (401).
    Unauthenticated,
    /// The provider refuses the request (400).
    InvalidRequest,
    /// The provider fails (500): overloaded, or a crash.
    ProviderFails,
}

impl Scenario {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 24] = [
        Self::Check,
        Self::Start,
        Self::Order,
        Self::LongPrompt,
        Self::BadPrompt,
        Self::BadOutput,
        Self::Flood,
        Self::CancelBefore,
        Self::CancelAtFirstEvent,
        Self::Deadline,
        Self::CancelInMessage,
        Self::CancelInTool,
        Self::Drop,
        Self::TreeEnd,
        Self::HandOff,
        Self::Usage,
        Self::Context,
        Self::ClaimByTool,
        Self::Preview,
        Self::Note,
        Self::RateLimited,
        Self::Unauthenticated,
        Self::InvalidRequest,
        Self::ProviderFails,
    ];
    /// Those that need an agent that runs commands.
    pub const WITH_TOOLS: [Self; 6] =
        [Self::Order, Self::BadOutput, Self::Flood, Self::CancelInTool, Self::Drop, Self::TreeEnd];
    /// Those that need an agent that asks the model of the fixture.
    pub const WITH_MODEL: [Self; 6] = [
        Self::Usage,
        Self::Context,
        Self::RateLimited,
        Self::Unauthenticated,
        Self::InvalidRequest,
        Self::ProviderFails,
    ];
    /// Those that need an agent that can be slow.
    pub const WHEN_SLOW: [Self; 4] =
        [Self::CancelAtFirstEvent, Self::Deadline, Self::CancelInMessage, Self::HandOff];
    /// Those that need an agent with the orchestrator's own tools.
    pub const WITH_OWN_TOOLS: [Self; 3] = [Self::ClaimByTool, Self::Preview, Self::Note];
}

impl Scenario {
    /// Returns its stable word, for configurations.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Start => "start",
            Self::Order => "order",
            Self::LongPrompt => "long-prompt",
            Self::BadPrompt => "bad-prompt",
            Self::BadOutput => "bad-output",
            Self::Flood => "flood",
            Self::CancelBefore => "cancel-before",
            Self::CancelAtFirstEvent => "cancel-at-first-event",
            Self::Deadline => "deadline",
            Self::CancelInMessage => "cancel-in-message",
            Self::CancelInTool => "cancel-in-tool",
            Self::Drop => "drop",
            Self::TreeEnd => "tree-end",
            Self::HandOff => "hand-off",
            Self::Usage => "usage",
            Self::Context => "context",
            Self::ClaimByTool => "claim-by-tool",
            Self::Preview => "preview",
            Self::Note => "note",
            Self::RateLimited => "rate-limited",
            Self::Unauthenticated => "unauthenticated",
            Self::InvalidRequest => "invalid-request",
            Self::ProviderFails => "provider-fails",
        }
    }

    /// Returns the scenario with that word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.word() == word)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Check => "check",
            Self::Start => "start",
            Self::Order => "order of events",
            Self::LongPrompt => "long prompt",
            Self::BadPrompt => "prompt no UTF-8",
            Self::BadOutput => "output no UTF-8",
            Self::Flood => "64 MiB of output",
            Self::CancelBefore => "cancel before start",
            Self::CancelAtFirstEvent => "cancel at first event",
            Self::Deadline => "deadline",
            Self::CancelInMessage => "cancel in a message",
            Self::CancelInTool => "cancel in a tool",
            Self::Drop => "future dropped",
            Self::TreeEnd => "tree ended",
            Self::HandOff => "hand-off",
            Self::Usage => "usage",
            Self::Context => "context",
            Self::ClaimByTool => "claim by tool",
            Self::Preview => "preview",
            Self::Note => "note",
            Self::RateLimited => "429 rate limited",
            Self::Unauthenticated => "401 unauthenticated",
            Self::InvalidRequest => "400 invalid request",
            Self::ProviderFails => "500 provider fails",
        })
    }
}
