//! A configuration turned into things that work: agent, detectors, validators.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_safe_fs::real_path;
use serde_json::json;

use super::environment;
use super::error::EngineError;
use super::prices::{self, Pricing};
use crate::machine::{
    self, AfterRejection, BaselineMode, CompletionTrigger, FrozenPolicy, ValidatorInfo,
};
use crate::registry::{Kinds, Registry};
use crate::store::{self, StateError};
use crate::workspace::ProtectedPaths;
use ralph_orchestrator_config::{
    self as config, AgentConfig, Config, ConfigErrors, Limits, LoadedConfig,
};
use ralph_orchestrator_contract::{
    Agent, BuildContext, BuildError, CompletionDetector, Description, EvidenceValidator, Usage, Usd,
};

/// Share of the cost limit that a first iteration is charged at least if its end is never known, and what
/// it is charged where there is no such limit.
const FIRST_RESERVATION_SHARE: u64 = 100;
const UNLIMITED_RESERVATION: Usd = Usd::from_nanos(100_000_000);

/// A validator with what the engine has to know of it.
pub(super) struct Check {
    pub(super) info: ValidatorInfo,
    /// The key of its table.
    pub(super) at: Vec<String>,
    /// Where its table stands, such as `ralph.toml:13:1`.
    pub(super) place: String,
    pub(super) timeout: Duration,
    pub(super) validator: Box<dyn EvidenceValidator>,
}

impl Check {
    /// Whether any change that it makes is its error.
    pub(super) fn is_read_only(&self) -> bool {
        self.validator.is_read_only()
    }
}

/// Who decides about completion: frozen when a run starts.
pub struct Judges {
    pub(super) detectors: Arc<Vec<Box<dyn CompletionDetector>>>,
    pub(super) checks: Vec<Check>,
    /// What validators write, by configuration: no part of the work.
    pub(super) artefacts: Arc<ProtectedPaths>,
    pub(super) trust_agent: bool,
    pub(super) after_rejection: AfterRejection,
    pub(super) when: CompletionTrigger,
    /// The part of the configuration that all this comes from, for its digest.
    source: serde_json::Value,
    /// Digests of the code that is not this program's own, by the names in the configuration.
    code: BTreeMap<String, String>,
}

impl Judges {
    /// Builds detectors and validators.
    ///
    /// # Errors
    /// An unknown name or a mistake in their tables.
    pub async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
    ) -> Result<Self, ConfigErrors> {
        let Config { completion, validators, .. } = &loaded.config;
        let mut detectors = Vec::new();
        for detector in &completion.detectors {
            let at = loaded.detector_key(&detector.name);
            let what = (detector.name.as_str(), "detector");
            let kinds = &registry.detectors;
            detectors.push(make(loaded, kinds, what, &at, &detector.config, context).await?);
        }
        let (mut checks, mut artefacts) = (Vec::new(), Vec::new());
        for validator in validators {
            let at = vec!["validator".to_owned(), validator.index.to_string()];
            let (kinds, kind) = (&registry.validators, (validator.kind.as_str(), "validator"));
            let built = make(loaded, kinds, kind, &at, &validator.config, context).await?;
            super::globs::check_syntax(loaded, &at, validator, &*built)?;
            check_artefacts(loaded, &at, &validator.artefacts)?;
            artefacts.extend(validator.artefacts.iter().cloned());
            checks.push(Check {
                info: ValidatorInfo {
                    name: validator.name.clone(),
                    kind: validator.kind.clone(),
                    required: validator.required,
                    runs_check: built.runs_check(),
                },
                place: loaded.error_at(&at, None, "").location.to_string(),
                at,
                timeout: validator.timeout,
                validator: built,
            });
        }
        let artefacts = ProtectedPaths::new(&artefacts).map_err(|error| {
            loaded.error_at(&["validator".to_owned()], None, &error.to_string())
        })?;
        Ok(Self {
            detectors: Arc::new(detectors),
            checks,
            artefacts: Arc::new(artefacts),
            trust_agent: completion.trust_agent,
            after_rejection: match completion.after_rejection {
                config::AfterRejection::Keep => AfterRejection::Keep,
                config::AfterRejection::RequireNewClaim => AfterRejection::RequireNewClaim,
            },
            when: match completion.when {
                config::CompletionTrigger::Claimed => CompletionTrigger::Claimed,
                config::CompletionTrigger::Proved => CompletionTrigger::Proved,
            },
            source: source(&loaded.config),
            code: code(&loaded.config, registry),
        })
    }

    /// What is frozen, with `baseline` being what protected paths were like.
    pub(super) fn policy(&self, baseline: &[u8]) -> FrozenPolicy {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.source.to_string().as_bytes());
        hasher.update(baseline);
        FrozenPolicy {
            validators: self.checks.iter().map(|check| check.info.clone()).collect(),
            digest: hasher.finalize().to_hex().to_string(),
            trust_agent: self.trust_agent,
            after_rejection: self.after_rejection,
            when: self.when,
            code: self.code.clone(),
        }
    }

    /// A name in the configuration whose code is not what was frozen.
    pub(super) fn other_code(&self, frozen: &FrozenPolicy) -> Option<&str> {
        let other = |name: &&String| self.code.get(*name) != frozen.code.get(*name);
        self.code.keys().find(other).map(String::as_str)
    }

    /// Each validator's name and demands.
    pub(super) fn demands(&self) -> Vec<String> {
        let line = |check: &Check| {
            let optional = if check.info.required { "" } else { " (not required)" };
            format!("{}{optional}: {}", check.info.name, check.validator.describe().demands)
        };
        self.checks.iter().map(line).collect()
    }

    /// What a completion would rest on.
    #[must_use]
    pub fn current_policy(&self) -> FrozenPolicy {
        self.policy(&[])
    }

    /// Whether both come from the same configuration.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.source == other.source && self.code == other.code
    }

    pub(super) fn evidence_dirs(&self) -> Vec<PathBuf> {
        self.checks.iter().flat_map(|check| check.validator.evidence_dirs()).collect()
    }

    /// Globs of what must be as it was when the run began.
    #[must_use]
    pub fn protects(&self) -> Vec<String> {
        let mut globs: Vec<String> =
            self.checks.iter().flat_map(|check| check.validator.protects()).collect();
        globs.sort();
        globs.dedup();
        globs
    }

    /// Digest of what the prompt asks for, whatever is claimed in it.
    pub(super) async fn task(&self, prompt: &str) -> String {
        let mut stripped = prompt.to_owned();
        for detector in self.detectors.iter() {
            stripped = detector.strip_claims(&stripped).await.into_owned();
        }
        let mut hasher = blake3::Hasher::new();
        // Blank lines and white space at the ends of lines come and go with markers.
        for line in stripped.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            hasher.update(line.as_bytes());
            hasher.update(b"\n");
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Refuses globs that cannot be used.
fn check_artefacts(
    loaded: &LoadedConfig,
    at: &[String],
    globs: &[String],
) -> Result<(), ConfigErrors> {
    for (index, glob) in globs.iter().enumerate() {
        if let Err(error) = ProtectedPaths::new(std::slice::from_ref(glob)) {
            let key = ["artefacts".to_owned(), index.to_string()];
            let key: Vec<String> = at.iter().cloned().chain(key).collect();
            return Err(loaded.error_at(&key, None, &error.to_string()).into());
        }
    }
    Ok(())
}

/// What follows from checks that accept before any work is done.
pub(super) const fn baseline_mode(mode: config::BaselineMode) -> BaselineMode {
    match mode {
        config::BaselineMode::Off => BaselineMode::Off,
        config::BaselineMode::Warn => BaselineMode::Warn,
        config::BaselineMode::MustFail => BaselineMode::MustFail,
    }
}

/// Everything in the configuration that decides about completion, in one canonical form.
fn source(config: &Config) -> serde_json::Value {
    let detectors: Vec<_> = config
        .completion
        .detectors
        .iter()
        .map(|detector| json!([detector.name, detector.config]))
        .collect();
    let validators: Vec<_> = config
        .validators
        .iter()
        .map(|v| {
            let timeout = v.timeout.as_millis().to_string();
            json!([v.kind, v.name, v.required, timeout, v.artefacts, v.config])
        })
        .collect();
    let env = &config.env;
    json!({
        // Of what they run in.
        "env": [format!("{:?}", env.mode), json!(env.pass), json!(env.set)],
        "detectors": detectors,
        "trust_agent": config.completion.trust_agent,
        "after_rejection": format!("{:?}", config.completion.after_rejection),
        "when": format!("{:?}", config.completion.when),
        "validators": validators,
    })
}

/// Digests of the code of detectors and validators that is not this program's own.
fn code(config: &Config, registry: &Registry) -> BTreeMap<String, String> {
    let detectors = config.completion.detectors.iter().map(|detector| detector.name.as_str());
    let validators = config.validators.iter().map(|validator| validator.kind.as_str());
    let detectors = detectors.map(|name| (name, registry.detectors.digest(name)));
    let validators = validators.map(|kind| (kind, registry.validators.digest(kind)));
    detectors
        .chain(validators)
        .filter_map(|(name, digest)| Some((name.to_owned(), digest?.to_owned())))
        .collect()
}

/// The agent of a run.
#[derive(Clone)]
pub struct Driver {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) description: Description,
    pub(super) config: AgentConfig,
    pricing: Pricing,
}

impl Driver {
    /// Builds an agent: the one named in `[agents.NAME]`, or the one of `[agent]`.
    ///
    /// # Errors
    /// An unknown name or a mistake in its table.
    pub async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
        name: Option<&str>,
    ) -> Result<Self, ConfigErrors> {
        let (config, at) = match name {
            None => (&loaded.config.agent, vec!["agent".to_owned()]),
            Some(name) => match loaded.config.agents.get(name) {
                Some(config) => (config, vec!["agents".to_owned(), name.to_owned()]),
                None => {
                    let known: Vec<&str> =
                        loaded.config.agents.keys().map(String::as_str).collect();
                    return Err(loaded
                        .unknown_name_error(&["agents".to_owned()], name, "agent", &known)
                        .into());
                }
            },
        };
        let what = (config.adapter.as_str(), "adapter");
        let agent = make(loaded, &registry.agents, what, &at, &config.config, context).await?;
        let agent: Arc<dyn Agent> = Arc::from(agent);
        let description = agent.describe();
        let pricing = Pricing::new(description.model.clone());
        Ok(Self { description, agent, config: config.clone(), pricing })
    }

    /// The agent itself.
    #[must_use]
    pub fn agent(&self) -> &dyn Agent {
        &*self.agent
    }

    /// The environment that the agent gets, out of the orchestrator's own.
    #[must_use]
    pub fn environment(
        &self,
        loaded: &LoadedConfig,
        vars: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        environment::build(&loaded.config.env, vars, &self.description)
    }

    /// What puts a price on what it uses.
    pub(super) fn pricing(&mut self) -> &mut Pricing {
        &mut self.pricing
    }

    /// The usage with its cost, estimated if the agent reports none and it can be.
    pub(super) fn with_cost(&mut self, usage: Usage) -> Usage {
        self.pricing.with_cost(usage, self.config.prices.as_ref())
    }

    /// Whether its cost can be told: by itself, or from its tokens and the prices that are given or
    /// known for its model.
    #[must_use]
    pub fn metered(&self) -> bool {
        let can = &self.description.capabilities;
        let known = || self.description.model.as_deref().is_some_and(prices::is_known);
        can.cost || can.free || (can.tokens && (self.config.prices.is_some() || known()))
    }

    /// Whether what it costs is known as it grows, so that a limit of cost ends the run some time.
    fn costs(&self) -> bool {
        self.metered() && !self.description.capabilities.free
    }

    /// Refuses a limit that the user set and that this agent cannot be held to. Says what else there
    /// is to warn of.
    ///
    /// # Errors
    /// The key of such a limit.
    pub fn check_limits(&self, loaded: &LoadedConfig) -> Result<Option<String>, ConfigErrors> {
        let limits = &loaded.config.limits;
        let name = &self.description.name;
        if limits.max_tokens.is_some() && !self.description.capabilities.tokens {
            let message =
                format!("the agent `{name}` reports no tokens, so this limit cannot be kept");
            return Err(error_at(loaded, &["limits", "max_tokens"], &message));
        }
        let ends = limits.max_runtime.is_some() || (limits.max_cost_usd.is_some() && self.costs());
        if limits.max_iterations.is_none() && !ends {
            let message = format!(
                "no limit would ever end this run: `max_iterations` is off, there is no \
                 `max_runtime`, and what the agent `{name}` costs cannot be told; set one of the first \
                 two"
            );
            return Err(error_at(loaded, &["limits", "max_iterations"], &message));
        }
        if limits.max_cost_usd.is_none() || self.metered() || self.config.unmetered {
            return Ok(None);
        }
        if loaded.set_by_user("limits.max_cost_usd") {
            let message = format!(
                "the agent `{name}` reports no cost, so this limit cannot be kept; say \
                 `unmetered = true` in [agent], or, if it reports tokens, name a `model` whose \
                 prices are known or give [agent.prices]"
            );
            return Err(error_at(loaded, &["limits", "max_cost_usd"], &message));
        }
        Ok(Some(format!("the agent `{name}` reports no cost: limits.max_cost_usd cannot be kept")))
    }

    /// The limits as the machine applies them.
    pub(super) fn limits(&self, limits: &Limits) -> machine::RunLimits {
        let first_reservation = match limits.max_cost_usd {
            _ if !self.costs() => Usd::ZERO,
            // The share of a very small limit is not nothing either.
            Some(max) => Usd::from_nanos(max.nanos().div_ceil(FIRST_RESERVATION_SHARE)),
            None => UNLIMITED_RESERVATION,
        };
        machine::RunLimits {
            max_iterations: limits.max_iterations,
            max_runtime_ms: limits.max_runtime.map(millis),
            max_cost_usd: limits.max_cost_usd,
            max_tokens: limits.max_tokens,
            max_failures: limits.max_failures.unwrap_or(u32::MAX),
            max_stagnant: limits.max_stagnant.unwrap_or(u32::MAX),
            max_rejections: limits.max_rejections.unwrap_or(u32::MAX),
            max_wait_ms: millis(limits.max_wait),
            first_reservation,
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn error_at(loaded: &LoadedConfig, key: &[&str], message: &str) -> ConfigErrors {
    let key: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
    loaded.error_at(&key, None, message).into()
}

/// Builds one thing, or says where the mistake is.
async fn make<T: ?Sized>(
    loaded: &LoadedConfig,
    kinds: &Kinds<T>,
    (name, word): (&str, &str),
    at: &[String],
    config: &serde_json::Value,
    context: &BuildContext,
) -> Result<Box<T>, ConfigErrors> {
    let below = |part: &str| at.iter().cloned().chain([part.to_owned()]).collect::<Vec<_>>();
    let Some(built) = kinds.build(name, config.clone(), context).await else {
        let key = match word {
            "adapter" => below("adapter"),
            "validator" => below("kind"),
            _ => at.to_vec(),
        };
        return Err(loaded.unknown_name_error(&key, name, word, &kinds.names()).into());
    };
    built.map_err(|BuildError { key, unknown_key, message }| {
        let mut path = if word == "adapter" { below("config") } else { at.to_vec() };
        path.extend(key);
        loaded.error_at(&path, unknown_key.as_deref(), &message).into()
    })
}

/// What factories may know.
#[must_use]
pub fn build_context(loaded: &LoadedConfig, vars: &BTreeMap<String, String>) -> BuildContext {
    // Programs are looked for where the processes themselves would find them.
    let path = loaded.config.env.set.get("PATH").or_else(|| vars.get("PATH"));
    BuildContext {
        config_dir: loaded.dir().to_owned(),
        workspace: real_path(&loaded.config.run.workspace),
        prompt_dir: loaded.prompt_dir().to_owned(),
        path: path.cloned().unwrap_or_default(),
    }
}

/// The environment of what belongs to no agent, out of the orchestrator's own.
#[must_use]
pub fn plain_environment(
    loaded: &LoadedConfig,
    vars: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    environment::build(&loaded.config.env, vars, &Description::default())
}

/// Whose the state of this configuration's run is.
pub(super) fn state_owner(loaded: &LoadedConfig) -> store::Owner {
    let workspace = real_path(&loaded.config.run.workspace);
    store::Owner::new(&workspace, loaded.configuration().as_deref())
}

/// Refuses a state directory that belongs to another workspace or configuration.
///
/// # Errors
/// It does: the configuration is wrong if it names the directory, and otherwise somebody put another one
/// in the place of its own.
pub fn verify_owner(loaded: &LoadedConfig, layout: &store::Layout) -> Result<(), EngineError> {
    match state_owner(loaded).verify(layout) {
        Err(StateError::Foreign { path, owner, asked }) => {
            let problem = format!("belongs to the run of {owner}, not to that of {asked}");
            if loaded.config.state.dir.is_none() {
                let problem = format!("{problem}; begin a new run with `run --restart`");
                return Err(StateError::Damaged { path, problem }.into());
            }
            let message = format!(
                "the state directory {} {problem}; name another folder, or, if the configuration or \
                 the workspace was moved, put it back",
                path.display()
            );
            Err(error_at(loaded, &["state", "dir"], &message).into())
        }
        verified => Ok(verified?),
    }
}

/// Where the state of this configuration's run lies.
///
/// # Errors
/// It would lie in the workspace, where the agent could reach it.
pub fn state_layout(
    loaded: &LoadedConfig,
    state_home: &Path,
) -> Result<store::Layout, ConfigErrors> {
    let workspace = real_path(&loaded.config.run.workspace);
    let root = match &loaded.config.state.dir {
        Some(dir) => dir.clone(),
        None => state_home
            .join("ralph-orchestrator")
            .join(crate::workspace::state_dir_name(&workspace, loaded.configuration().as_deref())),
    };
    if real_path(&root).starts_with(&workspace) {
        let message = format!(
            "the state directory {} lies in the workspace {}, within the agent's reach; \
             choose one outside",
            root.display(),
            workspace.display()
        );
        return Err(error_at(loaded, &["state", "dir"], &message));
    }
    Ok(store::Layout::new(root))
}
