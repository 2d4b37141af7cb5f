//! The items of a plugin.

use ralph_orchestrator_contract::{
    Agent, BacklogFormat, BuildContext, BuildError, CompletionDetector, EvidenceValidator,
};
use ralph_orchestrator_plugin_protocol::{
    DetectorDescription, Item, ItemKind, MethodName, Provided, ValidatorDetails,
};
use serde_json::Value;

/// The definition of a plugin, built by the macro.
#[derive(Debug)]
pub struct PluginDefinition {
    /// The crate's name.
    pub name: &'static str,
    /// The crate's version.
    pub version: &'static str,
    /// Its items.
    pub items: &'static [ItemDefinition],
}

/// The definition of an item.
#[derive(Clone, Copy, Debug)]
pub struct ItemDefinition {
    /// Its kind.
    pub kind: ItemKind,
    /// Its name.
    pub name: &'static str,
    /// One line for display.
    pub summary: &'static str,
    /// The JSON Schema of its table, as text.
    pub schema: Option<&'static str>,
    /// Builds an instance from its table.
    pub build: fn(Value, &BuildContext) -> Result<BuiltItem, BuildError>,
}

impl PluginDefinition {
    /// Returns the items as in `hello`.
    pub(crate) fn provides(&self) -> Vec<Item> {
        let item = |item: &ItemDefinition| Item {
            kind: item.kind,
            name: item.name.to_owned(),
            summary: item.summary.to_owned(),
            // One that is not JSON has kept the library from being loaded.
            schema: item.schema.and_then(|schema| serde_json::from_str(schema).ok()),
        };
        self.items.iter().map(item).collect()
    }

    /// Finds the item of that kind and name, or the only one of that kind.
    pub(crate) fn find(
        &self,
        kind: ItemKind,
        name: Option<&str>,
    ) -> Result<ItemDefinition, BuildError> {
        let of_kind: Vec<_> = self.items.iter().filter(|item| item.kind == kind).collect();
        let found = match (name, of_kind.as_slice()) {
            (None, [only]) => Some(*only),
            (None, _) => None,
            (Some(name), all) => all.iter().copied().find(|item| item.name == name),
        };
        found.copied().ok_or_else(|| {
            let names: Vec<_> = of_kind.iter().map(|item| format!("`{}`", item.name)).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let (kind, wanted) = (kind.word(), name.unwrap_or("the only one"));
            let plugin = self.name;
            BuildError::at(
                "",
                format!("the plugin {plugin} has no {kind} `{wanted}`; those it has: {names}"),
            )
        })
    }
}

/// A built instance.
pub enum BuiltItem {
    /// An agent.
    Agent(Box<dyn Agent>),
    /// A detector.
    Detector(Box<dyn CompletionDetector>),
    /// A validator.
    Validator(Box<dyn EvidenceValidator>),
    /// A format of backlogs.
    Backlog(Box<dyn BacklogFormat>),
}

impl std::fmt::Debug for BuiltItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind().word())
    }
}

impl BuiltItem {
    pub(crate) const fn kind(&self) -> ItemKind {
        match self {
            Self::Agent(_) => ItemKind::Agent,
            Self::Detector(_) => ItemKind::Detector,
            Self::Validator(_) => ItemKind::Validator,
            Self::Backlog(_) => ItemKind::Backlog,
        }
    }

    /// Returns its description.
    pub(crate) fn describe(&self) -> Provided {
        match self {
            Self::Agent(agent) => Provided::Agent(agent.describe()),
            Self::Detector(detector) => Provided::Detector(DetectorDescription {
                instructions: detector.instructions(),
                forms: detector.forms(),
                observes: detector.observes(),
                // The trait cannot tell: the method may return the text unchanged.
                strips: true,
            }),
            Self::Validator(validator) => Provided::Validator(ValidatorDetails {
                description: validator.describe(),
                evidence_dirs: validator.evidence_dirs(),
                protects: validator.protects(),
                reserved_paths: validator.reserved_paths(),
                outside_files: validator.outside_files(),
                passed_paths: validator.passed_paths(),
                read_only: validator.is_read_only(),
                runs_check: validator.runs_check(),
                passes_required: validator.passes_required(),
            }),
            Self::Backlog(format) => Provided::Backlog(format.describe()),
        }
    }

    /// Returns the message for a method that its kind does not have.
    pub(crate) fn unknown_method(&self, method: MethodName) -> String {
        format!("a plugin's {} has no method `{}`", self.kind().word(), method.word())
    }
}
