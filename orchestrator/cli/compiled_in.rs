//! Agents, detectors, validators and formats of backlogs that another program has compiled in, beside those that
//! are built in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use ralph_orchestrator_backlog::{Backlog, open_backlog_of};
use ralph_orchestrator_contract::{
    Agent, BacklogFormat, BuildContext, BuildError, CompletionDetector, Description,
    EvidenceValidator, parse_config,
};
use ralph_orchestrator_core::registry::{BuildResult, FactoryMap, Registry};
use ralph_orchestrator_supervisor::Supervisor;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::bench::agent_names::{MAIN_AGENT, is_reserved};
use crate::plugins::Plugins;
use crate::{registry, schema};

/// Builds something that starts processes.
type SupervisedFactory<T> =
    Arc<dyn Fn(Value, &BuildContext, &Supervisor) -> BuildResult<T> + Send + Sync>;
/// Builds something that starts none.
type Factory<T> = Arc<dyn Fn(Value, &BuildContext) -> BuildResult<T> + Send + Sync>;
type FormatFactory = Arc<dyn Fn() -> Box<dyn BacklogFormat> + Send + Sync>;

/// Factories by name, with the schema of the keys of their tables.
type Entries<F> = BTreeMap<String, (fn() -> Value, F)>;

/// What a program has compiled in.
#[derive(Clone, Default)]
pub(crate) struct CompiledIn {
    agents: Entries<SupervisedFactory<dyn Agent>>,
    detectors: Entries<Factory<dyn CompletionDetector>>,
    validators: Entries<SupervisedFactory<dyn EvidenceValidator>>,
    backlogs: BTreeMap<String, FormatFactory>,
    /// Names that were given twice, with their kind.
    doubled: Vec<(CompiledInKind, String)>,
}

/// An agent that is compiled in, as it is known without a configuration.
pub(crate) struct CompiledInAgent {
    /// None if it cannot be built without one.
    pub(crate) description: Option<Description>,
    /// The keys of its table that cannot be missing.
    pub(crate) required: Vec<String>,
}

/// What a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompiledInKind {
    /// `[agent] adapter`.
    Agent,
    /// `[completion] detectors`.
    Detector,
    /// `[[validator]] kind`.
    Validator,
    /// `[backlog] kind`.
    Backlog,
}

impl fmt::Display for CompiledInKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Agent => "agent",
            Self::Detector => "detector",
            Self::Validator => "validator",
            Self::Backlog => "format of backlogs",
        })
    }
}

/// A name that something compiled in cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// A configuration could not name it.
    #[error(
        "the {kind} `{name}` cannot be compiled in by this name: expected a letter, then letters, digits, `-` \
         and `_`"
    )]
    Invalid {
        /// What it was given for.
        kind: CompiledInKind,
        /// The name.
        name: String,
    },
    /// It belongs to something that is built in.
    #[error(
        "the {kind} `{name}` cannot be compiled in: one of that name is built in; choose another name"
    )]
    BuiltIn {
        /// What it was given for.
        kind: CompiledInKind,
        /// The name.
        name: String,
    },
    /// It was given twice.
    #[error("the {kind} `{name}` is compiled in twice; choose another name for one of them")]
    Doubled {
        /// What it was given for.
        kind: CompiledInKind,
        /// The name.
        name: String,
    },
}

impl CompiledIn {
    /// Adds an agent.
    pub(crate) fn add_agent<K, A, F>(&mut self, name: &str, build: F)
    where
        K: DeserializeOwned + JsonSchema,
        A: Agent + 'static,
        F: Fn(K, &BuildContext, &Supervisor) -> Result<A, BuildError> + Send + Sync + 'static,
    {
        let factory: SupervisedFactory<dyn Agent> = Arc::new(move |table, context, supervisor| {
            Ok(Box::new(build(parse_config(table)?, context, supervisor)?))
        });
        let previous = self.agents.insert(name.to_owned(), (schema::closed::<K>, factory));
        self.note(previous.is_some(), CompiledInKind::Agent, name);
    }

    /// Adds a detector.
    pub(crate) fn add_detector<K, D, F>(&mut self, name: &str, build: F)
    where
        K: DeserializeOwned + JsonSchema,
        D: CompletionDetector + 'static,
        F: Fn(K, &BuildContext) -> Result<D, BuildError> + Send + Sync + 'static,
    {
        let factory: Factory<dyn CompletionDetector> =
            Arc::new(move |table, context| Ok(Box::new(build(parse_config(table)?, context)?)));
        let previous = self.detectors.insert(name.to_owned(), (schema::open::<K>, factory));
        self.note(previous.is_some(), CompiledInKind::Detector, name);
    }

    /// Adds a validator.
    pub(crate) fn add_validator<K, V, F>(&mut self, name: &str, build: F)
    where
        K: DeserializeOwned + JsonSchema,
        V: EvidenceValidator + 'static,
        F: Fn(K, &BuildContext, &Supervisor) -> Result<V, BuildError> + Send + Sync + 'static,
    {
        let factory: SupervisedFactory<dyn EvidenceValidator> =
            Arc::new(move |table, context, supervisor| {
                Ok(Box::new(build(parse_config(table)?, context, supervisor)?))
            });
        let previous = self.validators.insert(name.to_owned(), (schema::open::<K>, factory));
        self.note(previous.is_some(), CompiledInKind::Validator, name);
    }

    /// Adds a format of backlogs.
    pub(crate) fn add_backlog<B, F>(&mut self, name: &str, build: F)
    where
        B: BacklogFormat + 'static,
        F: Fn() -> B + Send + Sync + 'static,
    {
        let previous = self.backlogs.insert(name.to_owned(), Arc::new(move || Box::new(build())));
        self.note(previous.is_some(), CompiledInKind::Backlog, name);
    }

    fn note(&mut self, is_doubled: bool, kind: CompiledInKind, name: &str) {
        if is_doubled {
            self.doubled.push((kind, name.to_owned()));
        }
    }

    /// Checks all names.
    ///
    /// # Errors
    /// The first that a configuration could not name, or that is taken.
    pub(crate) fn check(&self) -> Result<(), NameError> {
        if let Some((kind, name)) = self.doubled.first() {
            return Err(NameError::Doubled { kind: *kind, name: name.clone() });
        }
        let names = [
            (CompiledInKind::Agent, self.agents.keys().collect::<Vec<_>>()),
            (CompiledInKind::Detector, self.detectors.keys().collect()),
            (CompiledInKind::Validator, self.validators.keys().collect()),
            (CompiledInKind::Backlog, self.backlogs.keys().collect()),
        ];
        if names.iter().all(|(_, names)| names.is_empty()) {
            return Ok(());
        }
        let none = Arc::default();
        let built_in = registry::unsupervised(&Plugins::none(&none));
        let formats = registry::backlogs(&none);
        for (kind, names) in names {
            for name in names {
                let is_taken = match kind {
                    CompiledInKind::Agent => {
                        built_in.agents.contains(name) || is_reserved(name) || name == MAIN_AGENT
                    }
                    CompiledInKind::Detector => built_in.detectors.contains(name),
                    CompiledInKind::Validator => built_in.validators.contains(name),
                    CompiledInKind::Backlog => formats.contains(name),
                };
                let name = name.clone();
                if is_taken {
                    return Err(NameError::BuiltIn { kind, name });
                }
                if !is_valid(&name) {
                    return Err(NameError::Invalid { kind, name });
                }
            }
        }
        Ok(())
    }

    /// Makes all but the formats of backlogs known: agents are started by `confined`, all else by `supervisor`.
    pub(crate) fn register(
        &self,
        registry: &mut Registry,
        confined: &Supervisor,
        supervisor: &Supervisor,
    ) {
        for (name, (_, factory)) in &self.agents {
            let (factory, by) = (Arc::clone(factory), confined.clone());
            registry.agents.add(name, move |table, context| factory(table, context, &by));
        }
        for (name, (_, factory)) in &self.detectors {
            let factory = Arc::clone(factory);
            registry.detectors.add(name, move |table, context| factory(table, context));
        }
        for (name, (_, factory)) in &self.validators {
            let (factory, by) = (Arc::clone(factory), supervisor.clone());
            registry.validators.add(name, move |table, context| factory(table, context, &by));
        }
    }

    /// Makes the formats of backlogs known.
    pub(crate) fn register_backlogs(&self, formats: &mut FactoryMap<dyn Backlog>) {
        for (name, factory) in &self.backlogs {
            let (factory, of) = (Arc::clone(factory), name.clone());
            formats.add(name, move |table, context| {
                let (file, order) = registry::backlog_file(table, context)?;
                Ok(open_backlog_of(factory(), &of, file, order))
            });
        }
    }

    /// Returns the names of agents, each with the schema of its keys.
    pub(crate) fn agents(&self) -> impl Iterator<Item = (&str, Value)> {
        schemas(&self.agents)
    }

    /// Returns the names of detectors, each with the schema of its keys.
    pub(crate) fn detectors(&self) -> impl Iterator<Item = (&str, Value)> {
        schemas(&self.detectors)
    }

    /// Returns the names of validators, each with the schema of its keys.
    pub(crate) fn validators(&self) -> impl Iterator<Item = (&str, Value)> {
        schemas(&self.validators)
    }

    /// Returns the agent of this name as it is with the least configuration; `None` if none is compiled in.
    pub(crate) fn agent(&self, name: &str, context: &BuildContext) -> Option<CompiledInAgent> {
        let (keys, factory) = self.agents.get(name)?;
        let built = factory(json!({}), context, &Supervisor::this_binary());
        let keys = keys();
        let required = keys.get("required").and_then(Value::as_array).into_iter().flatten();
        Some(CompiledInAgent {
            description: built.ok().map(|agent| agent.describe()),
            required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }
}

fn schemas<F>(entries: &Entries<F>) -> impl Iterator<Item = (&str, Value)> {
    entries.iter().map(|(name, (keys, _))| (name.as_str(), keys()))
}

/// Whether a configuration can name it: `/` separates a plugin from what it provides.
fn is_valid(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// What the program of this process has compiled in. A command line is a whole process, and shells ask it for
/// candidates before there is a configuration.
static OF_PROGRAM: OnceLock<Arc<CompiledIn>> = OnceLock::new();

/// Sets what the command line of this process has compiled in; only the first call has an effect.
pub(crate) fn set_of_program(compiled_in: CompiledIn) {
    drop(OF_PROGRAM.set(Arc::new(compiled_in)));
}

/// Returns what the command line of this process has compiled in.
pub(crate) fn of_program() -> Arc<CompiledIn> {
    OF_PROGRAM.get().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_contract::{
        CancelSignal, DetectorInput, EvidenceValidator, Findings, ValidationContext,
        ValidatorDescription, Verdict, async_trait,
    };

    #[derive(serde::Deserialize, JsonSchema)]
    struct Keys {}

    struct Nothing;

    #[async_trait]
    impl CompletionDetector for Nothing {
        fn name(&self) -> &str {
            "nothing"
        }

        async fn inspect(&self, _: DetectorInput<'_>) -> Findings {
            Findings::default()
        }

        fn instructions(&self) -> String {
            String::new()
        }
    }

    #[async_trait]
    impl EvidenceValidator for Nothing {
        fn describe(&self) -> ValidatorDescription {
            ValidatorDescription { kind: String::new(), demands: String::new() }
        }

        async fn validate(&self, _: ValidationContext<'_>, _: &dyn CancelSignal) -> Verdict {
            Verdict::Rejected { reasons: Vec::new() }
        }
    }

    fn with_validators(names: &[&str]) -> Result<(), NameError> {
        let mut compiled_in = CompiledIn::default();
        for name in names {
            compiled_in.add_validator(name, |_: Keys, _, _| Ok(Nothing));
        }
        compiled_in.check()
    }

    #[test]
    fn refuses_names_that_are_taken_doubled_or_impossible() {
        let kind = CompiledInKind::Validator;
        let of = |name: &str| name.to_owned();
        assert_eq!(with_validators(&["mine", "codex", "a-1_b"]), Ok(()));
        for name in ["command", "evidence-files", "protected-paths"] {
            let expected = NameError::BuiltIn { kind, name: of(name) };
            assert_eq!(with_validators(&["mine", name]), Err(expected));
        }
        for name in ["", "1st", "a/b", "a b", "ä", "-a"] {
            let expected = NameError::Invalid { kind, name: of(name) };
            assert_eq!(with_validators(&[name]), Err(expected), "{name:?}");
        }
        let expected = NameError::Doubled { kind, name: of("mine") };
        assert_eq!(with_validators(&["mine", "mine"]), Err(expected));
    }

    #[test]
    fn a_name_is_taken_by_its_own_kind_only() {
        let mut compiled_in = CompiledIn::default();
        compiled_in.add_detector("command", |_: Keys, _| Ok(Nothing));
        assert_eq!(compiled_in.check(), Ok(()));
        compiled_in.add_detector("promise", |_: Keys, _| Ok(Nothing));
        let kind = CompiledInKind::Detector;
        let expected = NameError::BuiltIn { kind, name: "promise".to_owned() };
        assert_eq!(compiled_in.check(), Err(expected));
    }
}
