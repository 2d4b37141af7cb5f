//! In which tree checks run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::strict::strict_enum;

/// In which tree the checks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Validation {
    /// "workspace": in the tree that the agent works in. "checkout": at the same path, in the work as a clean checkout would
    /// have it: nothing that git ignores and that is new since the run began, git's own files as they were then, and what
    /// the checks write is thrown away. It needs Linux with user namespaces, or root.
    #[serde(rename = "where")]
    pub place: CheckPlace,
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
