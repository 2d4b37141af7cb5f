//! In which tree checks run, what has to be done before they can, and how long is looked for what made them green.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units;
use crate::strict::{self, strict_enum};

/// In which tree the checks run, and how long is looked for what made them green.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Validation {
    /// "checkout": at the workspace's path, in the work as a clean checkout would have it: nothing that git ignores and that
    /// is new since the run began, git's own files as they were then, and what the checks write is thrown away. It needs
    /// Linux with user namespaces, or root: where it cannot be had, nothing starts. "workspace": in the tree that the agent
    /// works in. By default in a checkout, and in the workspace, with a warning, where there can be none.
    #[serde(
        rename = "where",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "strict::optional"
    )]
    #[schemars(with = "CheckPlace")]
    pub place: Option<CheckPlace>,
    /// The command that a checkout is prepared with, such as ["npm", "ci"]: a program and its arguments, run in the checkout
    /// before the checks of the baseline, and before later ones whenever one of `setup_inputs` is not as it was then.
    /// Where it fails there is no verdict; once the agent has changed an input, the work is rejected instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// The files, relative to the workspace, that tell whether the setup has to be run again, such as
    /// ["package-lock.json", "package.json"]. Without any, it is run before all checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub setup_inputs: Vec<PathBuf>,
    /// What the setup makes, relative to the workspace, such as ["node_modules"]. If all of it is there when the run begins,
    /// the setup is run only once one of `setup_inputs`, or of what it made, is not as it was then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub setup_outputs: Vec<PathBuf>,
    /// The longest that the setup may take. "none" is no limit.
    #[serde(with = "units::duration_or_longest")]
    #[schemars(schema_with = "units::duration_or_none_schema")]
    pub setup_timeout: Duration,
    /// Files and folders, relative to the workspace, that checks see as they are though git ignores them: whatever the agent
    /// has put there. ".git" is all of git's own files, wherever they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub link: Vec<PathBuf>,
    /// How long is looked, once checks in a checkout have accepted the work, for what made them green: they run without a
    /// part of the work at a time. "auto": as long as the checks of the run took so far, at least 30 seconds and at most 10
    /// minutes. "0s" is not at all.
    #[serde(with = "units::duration_or_auto")]
    #[schemars(schema_with = "units::duration_or_auto_schema")]
    pub explain: Option<Duration>,
}

impl Default for Validation {
    fn default() -> Self {
        Self {
            place: None,
            setup: Vec::new(),
            setup_inputs: Vec::new(),
            setup_outputs: Vec::new(),
            setup_timeout: Duration::from_secs(10 * 60),
            link: Vec::new(),
            explain: None,
        }
    }
}

strict_enum! {
    /// In which tree the checks run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum CheckPlace {
        /// In the tree that the agent works in.
        Workspace = "workspace",
        /// In the work as a clean checkout would have it.
        Checkout = "checkout",
    }
}
