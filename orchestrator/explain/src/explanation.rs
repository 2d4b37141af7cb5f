//! The result: what is known about each part.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::content::FileRole;
use crate::patch::PartRegion;

/// What runs without a part showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartVerdict {
    /// A check fails without it.
    Needed {
        /// The tests that fail without it; empty where the check names none.
        tests: Vec<String>,
    },
    /// Without it the work does not build, or a test cannot be loaded.
    HoldsBuild,
    /// Without it the checks did not end within the time limit.
    DoesNotEnd,
    /// The checks are green with it or another part, and not without both.
    OneIsEnough {
        /// The groups of [`Explanation::alternatives`] that it belongs to.
        groups: Vec<usize>,
    },
    /// Only tests that the work itself added or changed notice it.
    OnlyOwnTests,
    /// The checks write its file anew, so leaving it out shows nothing.
    RewrittenByChecks,
    /// Without it the checks failed, and when repeated had another result.
    Unstable,
    /// The checks are green without it.
    NoCheckNotices,
    /// No run was made without it.
    NotTried,
}

/// A part of the work and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedPart {
    /// The file, relative to the workspace.
    pub path: String,
    /// What the caller knows about the file.
    pub role: FileRole,
    /// Which part of the file it is.
    pub region: PartRegion,
    /// What runs without it showed.
    pub verdict: PartVerdict,
}

/// Why not everything was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StopCause {
    /// The budget was used up.
    Budget,
    /// Somebody stopped it.
    Cancelled,
    /// The checks could not be run twice in a row.
    Error {
        /// The caller's message.
        message: String,
    },
}

/// What made the checks green.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// All parts, by path and place.
    pub parts: Vec<ExplainedPart>,
    /// Groups of which one alternative is enough. An alternative is one part, or several that are needed together; a
    /// part is its index in `parts`.
    pub alternatives: Vec<Vec<Vec<usize>>>,
    /// Whether one run was green without all parts that no check notices; otherwise each was only left out by itself.
    pub is_unnoticed_together: bool,
    /// How many times the checks ran.
    pub runs: u64,
    /// How long one run was allowed to take.
    #[serde(rename = "time_limit_ms", with = "milliseconds")]
    pub time_limit: Duration,
    /// How long the search took.
    #[serde(default, rename = "elapsed_ms", with = "milliseconds")]
    pub elapsed: Duration,
    /// How long the search was allowed to take.
    #[serde(rename = "budget_ms", with = "milliseconds")]
    pub budget: Duration,
    /// Why not everything was tried.
    pub stopped: Option<StopCause>,
}

/// `#[serde(with = …)]` for a duration as a number of milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
