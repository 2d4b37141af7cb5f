//! What iterations leave in words, and what of it an agent is given.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::size;
use crate::strict::strict_enum;

/// What is written down about each iteration, and what of it the next agent is given. Nothing by default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// What the agent is given before the prompt about earlier iterations: "none", nothing; "structured",
    /// a summary made of the run's records; "breadcrumbs", nothing, and the progress file is kept where
    /// the agent does not find it; "full", the last entries of the progress file.
    pub mode: MemoryMode,
    /// The progress file, relative to the workspace: an entry is appended for each iteration, and none is
    /// ever changed. With mode = "breadcrumbs" it is in the state directory instead. Not written with
    /// mode = "none". It is bookkeeping: no part of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", extend("minLength" = 1))]
    pub progress: Option<PathBuf>,
    /// The form of its entries: "sessions", a rule of 60 `=` and fields; "markdown", headings such as
    /// `## Iteration 3`.
    pub format: ProgressFormat,
    /// A file, relative to the workspace, to which failures, time-outs and rejected claims are appended,
    /// whatever the mode. It is bookkeeping: no part of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", extend("minLength" = 1))]
    pub errors: Option<PathBuf>,
    /// The most entries that the agent is given, the newest last. For mode = "structured" and "full".
    #[schemars(range(min = 1, max = 1000))]
    pub max_entries: u32,
    /// The most bytes of entries that the agent is given; entries are given whole or not at all.
    #[serde(with = "size")]
    #[schemars(schema_with = "size::schema")]
    pub max_bytes: u64,
    /// How many subjects of `git log` the agent is given, and with them the end of `errors`. For
    /// mode = "structured" and "full".
    #[schemars(range(max = 100))]
    pub recent_commits: u32,
    /// The size of the progress file above which its oldest entries are moved to an archive in the state
    /// directory. At most "64 MiB".
    #[serde(with = "size")]
    #[schemars(schema_with = "size::schema")]
    pub rotate_above: u64,
}

impl Memory {
    /// The largest `rotate_above`, in bytes: the file is read whole.
    pub const MAX_ROTATE_ABOVE: u64 = 64 << 20;
    /// The largest `max_entries`.
    pub const MAX_ENTRIES: u32 = 1000;
    /// The largest `recent_commits`.
    pub const MAX_COMMITS: u32 = 100;
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            mode: MemoryMode::None,
            progress: None,
            format: ProgressFormat::Sessions,
            errors: None,
            max_entries: 5,
            max_bytes: 8 << 10,
            recent_commits: 0,
            rotate_above: 256 << 10,
        }
    }
}

strict_enum! {
    /// What the agent is given about earlier iterations.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum MemoryMode {
        /// Nothing, and no progress file is written.
        #[default]
        None = "none",
        /// A summary made of the run's records.
        Structured = "structured",
        /// Nothing; the progress file is kept for people.
        Breadcrumbs = "breadcrumbs",
        /// The last entries of the progress file.
        Full = "full",
    }
}

impl MemoryMode {
    /// Whether the agent is given anything.
    #[must_use]
    pub const fn is_given(self) -> bool {
        matches!(self, Self::Structured | Self::Full)
    }
}

strict_enum! {
    /// The form of a progress file.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum ProgressFormat {
        /// A rule, the session's fields, a blank line, and text.
        #[default]
        Sessions = "sessions",
        /// Headings of Markdown.
        Markdown = "markdown",
    }
}
