//! `[prompts]` and `[initializer]`: the prompts of roles, and what the first role has to produce.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::strict::{self, strict_enum};

strict_enum! {
    /// What an iteration is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
    pub enum Role {
        /// Prepares the workspace, before any other.
        Initializer = "initializer",
        /// Does the work.
        Coding = "coding",
        /// Does the work without verification in a browser.
        Yolo = "yolo",
        /// Ends a session whose context gets full.
        Handoff = "handoff",
    }
}

strict_enum! {
    /// The role of the iterations that do the work.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum WorkingRole {
        /// The prompt `coding`.
        Coding = "coding",
        /// The prompt `yolo`.
        Yolo = "yolo",
    }
}

impl From<WorkingRole> for Role {
    fn from(role: WorkingRole) -> Self {
        match role {
            WorkingRole::Coding => Self::Coding,
            WorkingRole::Yolo => Self::Yolo,
        }
    }
}

/// The prompts of roles, instead of one prompt file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prompts {
    /// Where the prompt of a role is looked for, in this order. `{name}` is the name of the role in
    /// `names`, `{project}` the workspace; "built-in", at the end, is the text that comes with the program.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub paths: Vec<String>,
    /// The prompts are templates: `{{ variable }}` stands for what is known of the iteration. Otherwise
    /// they are given byte for byte.
    pub template: bool,
    /// What the prompts of the roles are called; by default as the roles.
    #[serde(deserialize_with = "strict::table")]
    pub names: RoleNames,
    /// The agents of roles, by their names in `[agents]`; by default `[agent]`.
    #[serde(deserialize_with = "strict::table")]
    pub agents: RoleAgents,
}

impl Default for Prompts {
    fn default() -> Self {
        Self {
            paths: vec![
                "{project}/prompts/{name}.md".to_owned(),
                ".claude/templates/{name}.template.md".to_owned(),
                Self::BUILT_IN.to_owned(),
            ],
            template: false,
            names: RoleNames::default(),
            agents: RoleAgents::default(),
        }
    }
}

impl Prompts {
    /// What stands for the built-in text in `paths`.
    pub const BUILT_IN: &'static str = "built-in";
    /// What stands for the name of a prompt.
    pub(crate) const NAME: &'static str = "{name}";
    /// What stands for the workspace.
    pub(crate) const PROJECT: &'static str = "{project}";

    /// Returns the paths at which the prompt of a role is looked for, in this order.
    #[must_use]
    pub fn candidates(&self, role: Role) -> Vec<PathBuf> {
        let patterns = self.paths.iter().filter(|pattern| *pattern != Self::BUILT_IN);
        patterns.map(|pattern| pattern.replace(Self::NAME, self.names.of(role)).into()).collect()
    }

    /// Returns whether the built-in text is used where no file is found.
    #[must_use]
    pub fn has_built_in(&self) -> bool {
        self.paths.iter().any(|pattern| pattern == Self::BUILT_IN)
    }
}

/// Names of the prompts of roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoleNames {
    /// Of the role that prepares the workspace.
    #[schemars(extend("minLength" = 1))]
    pub initializer: String,
    /// Of the role that does the work.
    #[schemars(extend("minLength" = 1))]
    pub coding: String,
    /// Of the role that does it without verification in a browser.
    #[schemars(extend("minLength" = 1))]
    pub yolo: String,
    /// Of the role that ends a session whose context gets full.
    #[schemars(extend("minLength" = 1))]
    pub handoff: String,
}

impl Default for RoleNames {
    fn default() -> Self {
        let name = |role: Role| role.word().to_owned();
        Self {
            initializer: name(Role::Initializer),
            coding: name(Role::Coding),
            yolo: name(Role::Yolo),
            handoff: name(Role::Handoff),
        }
    }
}

impl RoleNames {
    /// Returns the name of the prompt of a role.
    #[must_use]
    pub fn of(&self, role: Role) -> &str {
        match role {
            Role::Initializer => &self.initializer,
            Role::Coding => &self.coding,
            Role::Yolo => &self.yolo,
            Role::Handoff => &self.handoff,
        }
    }
}

/// Agents of roles, by their names in `[agents]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoleAgents {
    /// Of the role that prepares the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub initializer: Option<String>,
    /// Of the role that does the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub coding: Option<String>,
    /// Of the role that does it without verification in a browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub yolo: Option<String>,
}

impl RoleAgents {
    /// Returns the name of the agent of a role, if it has one of its own.
    #[must_use]
    pub fn of(&self, role: Role) -> Option<&str> {
        match role {
            Role::Initializer => self.initializer.as_deref(),
            Role::Coding => self.coding.as_deref(),
            Role::Yolo => self.yolo.as_deref(),
            Role::Handoff => None,
        }
    }
}

/// What iterations of the role `initializer` have to produce before any other role works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Initializer {
    /// Files and folders that have to exist, relative to the workspace.
    #[schemars(inner(length(min = 1)))]
    pub products: Vec<PathBuf>,
    /// Files that have to exist and be executable, relative to the workspace.
    #[schemars(inner(length(min = 1)))]
    pub executables: Vec<PathBuf>,
    /// The workspace has to be in a git repository with at least one commit.
    pub commit: bool,
    /// The most iterations of the initializer. With a product still missing after them, the run stops.
    #[schemars(range(min = 1))]
    pub max_attempts: u32,
}

impl Default for Initializer {
    fn default() -> Self {
        Self { products: Vec::new(), executables: Vec::new(), commit: false, max_attempts: 3 }
    }
}

impl Initializer {
    /// Returns the products with their key and whether they have to be executable.
    #[must_use]
    pub fn files(&self) -> Vec<(&Path, bool)> {
        let products = self.products.iter().map(|path| (path.as_path(), false));
        products.chain(self.executables.iter().map(|path| (path.as_path(), true))).collect()
    }
}
