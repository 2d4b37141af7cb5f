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
use ralph_orchestrator_engine::registry::{BuildResult, FactoryMap, Registry};
use ralph_orchestrator_supervisor::Supervisor;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::backlog_keys::backlog_file;
use crate::compiled_agent::CompiledAgent;
use crate::compiled_detector::CompiledDetector;
use crate::compiled_format::CompiledFormat;
use crate::compiled_validator::CompiledValidator;
use crate::key_schema;
use crate::served_agent::ServedAgent;

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
pub struct CompiledIn {
    agents: Entries<SupervisedFactory<dyn Agent>>,
    detectors: Entries<Factory<dyn CompletionDetector>>,
    validators: Entries<SupervisedFactory<dyn EvidenceValidator>>,
    backlogs: BTreeMap<String, FormatFactory>,
    /// Names that were given twice, with their kind.
    doubled: Vec<(CompiledInKind, String)>,
}

/// An agent that is compiled in, as it is known without a configuration.
pub struct CompiledInAgent {
    /// None if it cannot be built without one.
    pub description: Option<Description>,
    /// The keys of its table that cannot be missing.
    pub required: Vec<String>,
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
    pub fn add_agent<K, A, F>(&mut self, name: &str, build: F)
    where
        K: DeserializeOwned + JsonSchema,
        A: Agent + 'static,
        F: Fn(K, &BuildContext, &Supervisor) -> Result<A, BuildError> + Send + Sync + 'static,
    {
        let factory: SupervisedFactory<dyn Agent> = Arc::new(move |table, context, supervisor| {
            Ok(Box::new(build(parse_config(table)?, context, supervisor)?))
        });
        let previous = self.agents.insert(name.to_owned(), (key_schema::closed::<K>, factory));
        self.note(previous.is_some(), CompiledInKind::Agent, name);
    }

    /// Adds a detector.
    pub fn add_detector<K, D, F>(&mut self, name: &str, build: F)
    where
        K: DeserializeOwned + JsonSchema,
        D: CompletionDetector + 'static,
        F: Fn(K, &BuildContext) -> Result<D, BuildError> + Send + Sync + 'static,
    {
        let factory: Factory<dyn CompletionDetector> =
            Arc::new(move |table, context| Ok(Box::new(build(parse_config(table)?, context)?)));
        let previous = self.detectors.insert(name.to_owned(), (key_schema::open::<K>, factory));
        self.note(previous.is_some(), CompiledInKind::Detector, name);
    }

    /// Adds a validator.
    pub fn add_validator<K, V, F>(&mut self, name: &str, build: F)
    where
        K: DeserializeOwned + JsonSchema,
        V: EvidenceValidator + 'static,
        F: Fn(K, &BuildContext, &Supervisor) -> Result<V, BuildError> + Send + Sync + 'static,
    {
        let factory: SupervisedFactory<dyn EvidenceValidator> =
            Arc::new(move |table, context, supervisor| {
                Ok(Box::new(build(parse_config(table)?, context, supervisor)?))
            });
        let previous = self.validators.insert(name.to_owned(), (key_schema::open::<K>, factory));
        self.note(previous.is_some(), CompiledInKind::Validator, name);
    }

    /// Adds a format of backlogs.
    pub fn add_backlog<B, F>(&mut self, name: &str, build: F)
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

    /// Returns the first name that was given twice, with its kind.
    pub fn doubled(&self) -> Option<&(CompiledInKind, String)> {
        self.doubled.first()
    }

    /// Returns all names, by their kinds.
    pub fn names(&self) -> [(CompiledInKind, Vec<&String>); 4] {
        [
            (CompiledInKind::Agent, self.agents.keys().collect()),
            (CompiledInKind::Detector, self.detectors.keys().collect()),
            (CompiledInKind::Validator, self.validators.keys().collect()),
            (CompiledInKind::Backlog, self.backlogs.keys().collect()),
        ]
    }

    /// Makes all but the formats of backlogs known: agents are started by `confined`, all else by `supervisor`.
    pub fn register(
        &self,
        registry: &mut Registry,
        confined: &Supervisor,
        supervisor: &Supervisor,
    ) {
        for (name, (_, factory)) in &self.agents {
            let (factory, by, of) = (Arc::clone(factory), confined.clone(), name.clone());
            registry.agents.add(name, move |table, context| {
                let agent = CompiledAgent::build(&of, || factory(table, context, &by))?;
                // Its panics and its end are its own, and the tools are served beside it, as beside a plugin's.
                Ok(Box::new(ServedAgent(Box::new(agent))) as Box<dyn Agent>)
            });
        }
        for (name, (_, factory)) in &self.detectors {
            let (factory, of) = (Arc::clone(factory), name.clone());
            registry.detectors.add(name, move |table, context| {
                let detector = CompiledDetector::build(&of, || factory(table, context))?;
                Ok(Box::new(detector) as Box<dyn CompletionDetector>)
            });
        }
        for (name, (_, factory)) in &self.validators {
            let (factory, by, of) = (Arc::clone(factory), supervisor.clone(), name.clone());
            registry.validators.add(name, move |table, context| {
                let validator = CompiledValidator::build(&of, || factory(table, context, &by))?;
                Ok(Box::new(validator) as Box<dyn EvidenceValidator>)
            });
        }
    }

    /// Makes the formats of backlogs known.
    pub fn register_backlogs(&self, formats: &mut FactoryMap<dyn Backlog>) {
        for (name, factory) in &self.backlogs {
            let (factory, of) = (Arc::clone(factory), name.clone());
            formats.add(name, move |table, context| {
                let (file, order) = backlog_file(table, context)?;
                let format = CompiledFormat::build(&of, || factory())?;
                Ok(open_backlog_of(Box::new(format), &of, file, order))
            });
        }
    }

    /// Returns the names of agents, each with the schema of its keys.
    pub fn agents(&self) -> impl Iterator<Item = (&str, Value)> {
        schemas(&self.agents)
    }

    /// Returns the names of detectors, each with the schema of its keys.
    pub fn detectors(&self) -> impl Iterator<Item = (&str, Value)> {
        schemas(&self.detectors)
    }

    /// Returns the names of validators, each with the schema of its keys.
    pub fn validators(&self) -> impl Iterator<Item = (&str, Value)> {
        schemas(&self.validators)
    }

    /// Returns the agent of this name as it is with the least configuration; `None` if none is compiled in.
    pub fn agent(&self, name: &str, context: &BuildContext) -> Option<CompiledInAgent> {
        let (keys, factory) = self.agents.get(name)?;
        let built =
            CompiledAgent::build(name, || factory(json!({}), context, &Supervisor::this_binary()));
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

/// What the program of this process has compiled in. A command line is a whole process, and shells ask it for
/// candidates before there is a configuration.
static OF_PROGRAM: OnceLock<Arc<CompiledIn>> = OnceLock::new();

/// Sets what the command line of this process has compiled in; only the first call has an effect.
pub fn set_of_program(compiled_in: CompiledIn) {
    drop(OF_PROGRAM.set(Arc::new(compiled_in)));
}

/// Returns what the command line of this process has compiled in.
pub fn of_program() -> Arc<CompiledIn> {
    OF_PROGRAM.get().cloned().unwrap_or_default()
}
