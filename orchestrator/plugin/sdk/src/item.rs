//! What a plugin provides.

use plugin_protocol::{DetectorDescription, Item, ItemKind, MethodName, Provided, ValidatorOpened};
use ralph_orchestrator_contract::{
    Agent, BuildContext, BuildError, CompletionDetector, EvidenceValidator,
};
use serde_json::Value;

/// A plugin, as the macro knows it.
#[derive(Debug)]
pub struct Plugin {
    /// The crate's name.
    pub name: &'static str,
    /// The crate's version.
    pub version: &'static str,
    /// What it provides.
    pub items: &'static [ItemOf],
}

/// One item.
#[derive(Clone, Copy, Debug)]
pub struct ItemOf {
    /// What it is.
    pub kind: ItemKind,
    /// Its name.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Builds one from its table.
    pub build: fn(Value, &BuildContext) -> Result<Built, BuildError>,
}

impl Plugin {
    /// As the first frame says it.
    pub(crate) fn provides(&self) -> Vec<Item> {
        let item = |item: &ItemOf| Item {
            kind: item.kind,
            name: item.name.to_owned(),
            summary: item.summary.to_owned(),
        };
        self.items.iter().map(item).collect()
    }

    /// The item of that kind and name, or the only one of that kind.
    pub(crate) fn find(&self, kind: ItemKind, name: Option<&str>) -> Result<ItemOf, BuildError> {
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

/// What was built.
pub enum Built {
    /// An agent.
    Agent(Box<dyn Agent>),
    /// A detector.
    Detector(Box<dyn CompletionDetector>),
    /// A validator.
    Validator(Box<dyn EvidenceValidator>),
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind().word())
    }
}

impl Built {
    pub(crate) const fn kind(&self) -> ItemKind {
        match self {
            Self::Agent(_) => ItemKind::Agent,
            Self::Detector(_) => ItemKind::Detector,
            Self::Validator(_) => ItemKind::Validator,
        }
    }

    /// What it says of itself.
    pub(crate) fn describe(&self) -> Provided {
        match self {
            Self::Agent(agent) => Provided::Agent(agent.describe()),
            Self::Detector(detector) => Provided::Detector(DetectorDescription {
                instructions: detector.instructions(),
                forms: detector.forms(),
                observes: detector.observes(),
                // The trait does not say: it is asked, and may give the text back as it is.
                strips: true,
            }),
            Self::Validator(validator) => Provided::Validator(ValidatorOpened {
                description: validator.describe(),
                evidence_dirs: validator.evidence_dirs(),
                protects: validator.protects(),
                read_only: validator.is_read_only(),
                runs_check: validator.runs_check(),
                passes_required: validator.passes_required(),
            }),
        }
    }

    /// What is said to a call that it does not know.
    pub(crate) fn has_no(&self, method: MethodName) -> String {
        format!("a plugin's {} has no method `{}`", self.kind().word(), method.word())
    }
}
