//! `[hooks]`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units;
use crate::strict::strict_enum;

/// Commands at points of a run, each a program and its arguments. A path is relative to the folder of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hooks {
    /// Run when a start begins, before anything is done. One that fails keeps the run from going on, as for each `before_…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before_run: Vec<Vec<String>>,
    /// Run when a start has ended, however it did. One that fails is tried again, as for each `after_…`, and undoes nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_run: Vec<Vec<String>>,
    /// Run before each attempt at an iteration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before_iteration: Vec<Vec<String>>,
    /// Run after each attempt at an iteration, however it ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_iteration: Vec<Vec<String>>,
    /// Run before the work on an item of the backlog begins or goes on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before_item: Vec<Vec<String>>,
    /// Run when the work on an item of the backlog has ended, for good or for now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_item: Vec<Vec<String>>,
    /// Run before a claim is validated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before_validation: Vec<Vec<String>>,
    /// Run after a claim was validated, whatever was decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_validation: Vec<Vec<String>>,
    /// Run when all is complete: the run, or the whole backlog.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_completion: Vec<Vec<String>>,
    /// Run when the run, or the work on the backlog, has stopped without being complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_stop: Vec<Vec<String>>,
    /// The longest that one command may take.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema")]
    pub timeout: Duration,
    /// Names of variables that the commands are given beside those that agents are given by `[env]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<String>,
    /// Which commands run in the sandbox of agents, without the right to write in the workspace: "auto", where `[sandbox]` is
    /// on, those that run something that agents can change; "always" all of them, which needs `[sandbox]`.
    pub sandbox: HookSandbox,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            before_run: Vec::new(),
            after_run: Vec::new(),
            before_iteration: Vec::new(),
            after_iteration: Vec::new(),
            before_item: Vec::new(),
            after_item: Vec::new(),
            before_validation: Vec::new(),
            after_validation: Vec::new(),
            after_completion: Vec::new(),
            after_stop: Vec::new(),
            timeout: Duration::from_secs(60),
            pass: Vec::new(),
            sandbox: HookSandbox::Auto,
        }
    }
}

impl Hooks {
    /// Returns the commands of each event, by its key.
    #[must_use]
    pub const fn events(&self) -> [(&'static str, &Vec<Vec<String>>); 10] {
        [
            ("before_run", &self.before_run),
            ("after_run", &self.after_run),
            ("before_iteration", &self.before_iteration),
            ("after_iteration", &self.after_iteration),
            ("before_item", &self.before_item),
            ("after_item", &self.after_item),
            ("before_validation", &self.before_validation),
            ("after_validation", &self.after_validation),
            ("after_completion", &self.after_completion),
            ("after_stop", &self.after_stop),
        ]
    }
}

strict_enum! {
    /// Which commands of hooks run in the sandbox.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum HookSandbox {
        /// Those that run something that agents can change.
        Auto = "auto",
        /// All.
        Always = "always",
    }
}
