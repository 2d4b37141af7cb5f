//! What the view is given, and what it asks for. Texts have to be free of control characters.

/// The phase of a run, as `status` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A process works on it.
    Running,
    /// The same, and its provider lets nothing through for a while.
    Waiting,
    /// A person has paused it.
    Paused,
    /// A person has to answer.
    NeedsHuman,
    /// Its work is accepted.
    Completed,
    /// It ended by a signal, or with its process.
    Interrupted,
    /// It ended for another reason.
    Stopped,
    /// It cannot be read.
    Damaged,
}

impl Phase {
    /// Returns the word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::NeedsHuman => "needs human",
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
            Self::Damaged => "damaged",
        }
    }

    /// Whether a process works on it.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Waiting | Self::Paused)
    }
}

/// A run in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListItem {
    /// What identifies it: its state directory.
    pub key: String,
    /// Its id.
    pub run: String,
    /// Its workspace and task, short.
    pub name: String,
    /// Its phase.
    pub phase: Phase,
    /// How many iterations it has begun.
    pub iterations: Option<u64>,
}

/// How a line is to be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// Of less interest.
    Dim,
    /// A heading.
    Heading,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// To be noticed.
    Warning,
}

/// A limit and what is used of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitFacts {
    /// What it limits, in a word.
    pub name: &'static str,
    /// What is used.
    pub used: String,
    /// The limit; `None` if there is none.
    pub max: Option<String>,
    /// What is used in thousandths of the limit, 1000 at most.
    pub share: Option<u16>,
    /// The limit as one types it.
    pub value: String,
}

/// What a verdict is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictWord {
    /// The claim holds.
    Accepted,
    /// It does not.
    Rejected,
    /// The validator came to no verdict.
    Error,
}

/// A verdict of the last validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictFacts {
    /// The validator's name.
    pub validator: String,
    /// The verdict.
    pub word: VerdictWord,
    /// The verdict in words, and each of its reasons.
    pub lines: Vec<String>,
}

/// An iteration in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterationFacts {
    /// Its number.
    pub number: u64,
    /// What is known of it, in columns.
    pub cells: Vec<String>,
    /// How it is to be seen.
    pub tone: Tone,
}

/// What is known of the chosen run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFacts {
    /// Its id.
    pub run: String,
    /// Its phase.
    pub phase: Phase,
    /// Its agent.
    pub agent: String,
    /// The limits on what the run may use.
    pub limits: Vec<LimitFacts>,
    /// Context and tokens in words.
    pub usage: String,
    /// What happens at the moment, or what has to happen.
    pub activity: String,
    /// How that is to be seen.
    pub activity_tone: Tone,
    /// The question that a person has to answer.
    pub question: Option<String>,
    /// A pause is requested or in effect.
    pub is_pause_requested: bool,
    /// The verdicts of the last validation.
    pub verdicts: Vec<VerdictFacts>,
    /// The newest iterations.
    pub iterations: Vec<IterationFacts>,
}

/// A record of the journal in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryLine {
    /// The text, which begins with its time.
    pub text: String,
    /// How it is to be seen.
    pub tone: Tone,
}

/// What is new. What names a run that is not chosen any more is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The runs, in their order.
    Runs(Vec<RunListItem>),
    /// The chosen run.
    Facts {
        /// Which it is.
        key: String,
        /// What is known of it; `None` if it has not begun.
        facts: Option<Box<RunFacts>>,
    },
    /// Records of the chosen run.
    Story {
        /// Which it is.
        key: String,
        /// They are the first ones: what was shown belongs to another run, or is read again.
        is_first: bool,
        /// Records before them that are not shown.
        skipped: u64,
        /// The records.
        lines: Vec<StoryLine>,
    },
    /// The text that was asked for last.
    Text {
        /// Its heading.
        title: String,
        /// Its lines.
        lines: Vec<StoryLine>,
    },
    /// What became of a control.
    Outcome(Result<String, String>),
}

/// What a person wants of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedControl {
    /// Guidance for the agent.
    Steer(String),
    /// An answer to its question.
    Answer(String),
    /// A pause after the iteration.
    Pause,
    /// The end of the pause.
    Resume,
    /// Other limits on what the run may use, in the order of its facts, as they were typed; `None` where it stays.
    Limits(Vec<Option<String>>),
    /// The end of the run.
    Stop,
}

/// What the view asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Show this run from now on.
    Choose {
        /// Which it is.
        key: String,
    },
    /// Read the story of the chosen run again.
    Reload,
    /// Show the changes of an iteration, or of the last one.
    Diff {
        /// The run.
        key: String,
        /// Its id.
        run: String,
        /// The iteration.
        iteration: Option<u64>,
    },
    /// Show what the agent of an iteration said and did.
    Transcript {
        /// The run.
        key: String,
        /// Its id.
        run: String,
        /// The iteration.
        iteration: u64,
    },
    /// Send a control.
    Control {
        /// The run.
        key: String,
        /// Its id.
        run: String,
        /// The control.
        control: RequestedControl,
    },
    /// End the view.
    Quit,
}
