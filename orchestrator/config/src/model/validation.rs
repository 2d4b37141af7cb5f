//! In which tree checks run, and how long is looked for what made them green.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::units;
use crate::strict::strict_enum;

/// In which tree the checks run, and how long is looked for what made them green.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Validation {
    /// "workspace": in the tree that the agent works in. "checkout": at the same path, in the work as a clean checkout would
    /// have it: nothing that git ignores and that is new since the run began, git's own files as they were then, and what
    /// the checks write is thrown away. It needs Linux with user namespaces, or root.
    #[serde(rename = "where")]
    pub place: CheckPlace,
    /// How long is looked, once checks in a checkout have accepted the work, for what made them green: they run without a
    /// part of the work at a time. "auto": as long as the checks of the run took so far, at most 10 minutes. "0s" is not
    /// at all.
    #[serde(with = "units::duration_or_auto")]
    #[schemars(schema_with = "units::duration_or_auto_schema")]
    pub explain: Option<Duration>,
}

strict_enum! {
    /// In which tree the checks run.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum CheckPlace {
        /// In the tree that the agent works in.
        #[default]
        Workspace = "workspace",
        /// In the work as a clean checkout would have it.
        Checkout = "checkout",
    }
}
