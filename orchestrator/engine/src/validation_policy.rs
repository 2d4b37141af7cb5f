//! What decides about completion: the detectors and validators of a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_config::{
    self as config, CheckPlace, Config, ConfigErrors, LoadedConfig, Notify, NotifyKind, Validation,
    ValidatorConfig,
};
use ralph_orchestrator_contract::{BuildContext, CompletionDetector, EvidenceValidator};
use ralph_orchestrator_machine::{
    AfterRejection, BaselineMode, CompletionTrigger, FrozenPolicy, ValidatorInfo,
};
use ralph_orchestrator_workspace::{ProtectedError, ProtectedPaths};
use serde_json::json;

use super::checkout_policy::CheckoutPolicy;
use super::construction::{PartKind, make};
use crate::registry::Registry;

/// A validator, with its table in the configuration.
pub(super) struct ConfiguredValidator {
    pub(super) info: ValidatorInfo,
    /// The key of its table.
    pub(super) key: Vec<String>,
    /// Where its table stands, such as `ralph.toml:13:1`.
    pub(super) place: String,
    pub(super) timeout: Duration,
    pub(super) validator: Box<dyn EvidenceValidator>,
}

impl ConfiguredValidator {
    /// Returns whether any change that it makes is its error.
    pub(super) fn is_read_only(&self) -> bool {
        self.validator.is_read_only()
    }

    /// Returns whether its verdict is that of an agent which reviews the work.
    pub(super) fn is_review(&self) -> bool {
        self.validator.reviewer().is_some()
    }
}

/// What decides about completion: frozen when a run starts.
pub struct CompletionPolicy {
    pub(super) detectors: Arc<Vec<Box<dyn CompletionDetector>>>,
    pub(super) validators: Vec<ConfiguredValidator>,
    /// What validators write, by configuration: no part of the work.
    pub(super) artefacts: Arc<ProtectedPaths>,
    /// What validators protect.
    pub(super) protected: ProtectedPaths,
    pub(super) trust_agent: bool,
    pub(super) after_rejection: AfterRejection,
    pub(super) when: CompletionTrigger,
    pub(super) checkout: CheckoutPolicy,
    /// The part of the configuration that all this comes from, for its digest.
    config_part: serde_json::Value,
    /// Returns the digests of the code that is not this program's own, by the names in the configuration.
    code: BTreeMap<String, String>,
}

impl CompletionPolicy {
    /// Makes advice name the locations in the user's configuration, of which `self` was built from a stored
    /// copy.
    pub(super) fn adopt_locations(&mut self, current: &Self, config_file: &Path) {
        for validator in &mut self.validators {
            let same =
                current.validators.iter().find(|other| other.info.name == validator.info.name);
            validator.place =
                same.map_or_else(|| config_file.display().to_string(), |other| other.place.clone());
        }
    }

    /// Builds detectors and validators.
    ///
    /// # Errors
    /// An unknown name or a mistake in their tables.
    pub async fn build(
        loaded: &LoadedConfig,
        registry: &Registry,
        context: &BuildContext,
    ) -> Result<Self, ConfigErrors> {
        let Config { completion, validators: configured, .. } = &loaded.config;
        let mut detectors = Vec::new();
        for detector in &completion.detectors {
            let at = loaded.detector_key(&detector.name);
            let what = (PartKind::Detector, detector.name.as_str());
            let kinds = &registry.detectors;
            detectors.push(make(loaded, kinds, what, &at, &detector.config, context).await?);
        }
        let (mut validators, mut artefacts) = (Vec::new(), Vec::new());
        for validator in configured {
            let at = vec!["validator".to_owned(), validator.index.to_string()];
            let kinds = &registry.validators;
            let kind = (PartKind::Validator, validator.kind.as_str());
            let built = make(loaded, kinds, kind, &at, &validator.config, context).await?;
            check_protected_globs(loaded, &at, validator, &*built)?;
            check_reviewer(loaded, &at, &*built)?;
            check_globs(loaded, &at, "artefacts", &validator.artefacts)?;
            artefacts.extend(validator.artefacts.iter().cloned());
            validators.push(ConfiguredValidator {
                info: ValidatorInfo {
                    name: validator.name.clone(),
                    kind: validator.kind.clone(),
                    required: validator.required,
                    runs_check: built.runs_check(),
                },
                place: loaded.error_at(&at, None, "").location.to_string(),
                key: at,
                timeout: validator.timeout,
                validator: built,
            });
        }
        check_globs(loaded, &["run".to_owned()], "bookkeeping", &loaded.config.run.bookkeeping)?;
        artefacts.extend(bookkeeping(&loaded.config));
        let artefacts = ProtectedPaths::new(&artefacts).map_err(|error| {
            loaded.error_at(&["validator".to_owned()], None, &error.to_string())
        })?;
        let protected = ProtectedPaths::new(&protects(&validators)).map_err(|error| {
            loaded.error_at(&["validator".to_owned()], None, &error.to_string())
        })?;
        Ok(Self {
            detectors: Arc::new(detectors),
            validators,
            artefacts: Arc::new(artefacts),
            protected,
            trust_agent: completion.trust_agent,
            after_rejection: match completion.after_rejection {
                config::AfterRejection::Keep => AfterRejection::Keep,
                config::AfterRejection::RequireNewClaim => AfterRejection::RequireNewClaim,
            },
            when: match completion.when {
                config::CompletionTrigger::Claimed => CompletionTrigger::Claimed,
                config::CompletionTrigger::Proved => CompletionTrigger::Proved,
            },
            checkout: CheckoutPolicy::build(loaded, registry, context)?,
            config_part: config_part(&loaded.config),
            code: plugin_digests(&loaded.config, registry),
        })
    }

    /// Returns what is recorded of it, with `baseline` as the state of the protected paths.
    pub(super) fn freeze(&self, baseline: &[u8]) -> FrozenPolicy {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.config_part.to_string().as_bytes());
        hasher.update(baseline);
        FrozenPolicy {
            validators: self.validators.iter().map(|check| check.info.clone()).collect(),
            digest: hasher.finalize().to_hex().to_string(),
            trust_agent: self.trust_agent,
            after_rejection: self.after_rejection,
            when: self.when,
            code: self.code.clone(),
        }
    }

    /// Returns a name in the configuration whose code is not what was frozen.
    pub(super) fn changed_code(&self, frozen: &FrozenPolicy) -> Option<&str> {
        let other = |name: &&String| self.code.get(*name) != frozen.code.get(*name);
        self.code.keys().find(other).map(String::as_str)
    }

    /// Returns each validator's name and demands.
    pub(super) fn demands(&self) -> Vec<String> {
        let line = |check: &ConfiguredValidator| {
            let optional = if check.info.required { "" } else { " (not required)" };
            format!("{}{optional}: {}", check.info.name, check.validator.describe().demands)
        };
        self.validators.iter().map(line).collect()
    }

    /// Returns what a completion would be based on.
    #[must_use]
    pub fn current_policy(&self) -> FrozenPolicy {
        self.freeze(&[])
    }

    /// Returns whether a validator looks at more than what the agent of the run wrote.
    pub(super) fn needs_checkout(&self) -> bool {
        self.validators.iter().any(|check| check.info.runs_check || check.is_review())
    }

    /// Returns the validators whose verdicts are those of agents which review the work.
    pub(super) fn reviews(&self) -> impl Iterator<Item = &ConfiguredValidator> {
        self.validators.iter().filter(|check| check.is_review())
    }

    /// Returns the names of the agents that review the work.
    #[must_use]
    pub fn reviewing_agents(&self) -> BTreeSet<&str> {
        self.reviews().filter_map(|check| Some(check.validator.reviewer()?.agent())).collect()
    }

    /// Returns the recorded policy without what is asked only about work that is finished.
    pub(super) fn without_reviews(&self, mut recorded: FrozenPolicy) -> FrozenPolicy {
        let is_review = |name: &str| self.reviews().any(|check| check.info.name == name);
        recorded.validators.retain(|validator| !is_review(&validator.name));
        // Where only a review decides, there is nothing to preview.
        recorded.trust_agent |= !recorded.validates();
        recorded
    }

    /// Returns whether both come from the same configuration.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.config_part == other.config_part && self.code == other.code
    }

    pub(super) fn evidence_dirs(&self) -> Vec<PathBuf> {
        self.validators.iter().flat_map(|check| check.validator.evidence_dirs()).collect()
    }

    /// Returns the globs of what must be as it was when the run began.
    #[must_use]
    pub fn protects(&self) -> Vec<String> {
        protects(&self.validators)
    }

    /// Returns the prompt without the claims that the detectors would find in it.
    pub(super) async fn strip_claims(&self, prompt: &str) -> String {
        let mut stripped = prompt.to_owned();
        for detector in self.detectors.iter() {
            stripped = detector.strip_claims(&stripped).await.into_owned();
        }
        stripped
    }

    /// Returns the digest of what the prompt asks for, without claims in it.
    pub(super) async fn task_digest(&self, prompt: &str) -> String {
        let stripped = self.strip_claims(prompt).await;
        let mut hasher = blake3::Hasher::new();
        // Blank lines and white space at the ends of lines come and go with markers.
        for line in stripped.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            hasher.update(line.as_bytes());
            hasher.update(b"\n");
        }
        hasher.finalize().to_hex().to_string()
    }
}

fn protects(validators: &[ConfiguredValidator]) -> Vec<String> {
    let mut globs: Vec<String> =
        validators.iter().flat_map(|check| check.validator.protects()).collect();
    globs.sort();
    globs.dedup();
    globs
}

/// Refuses globs that cannot be used, which are the value of the key `name` of a table.
fn check_globs(
    loaded: &LoadedConfig,
    at: &[String],
    name: &str,
    globs: &[String],
) -> Result<(), ConfigErrors> {
    for (index, glob) in globs.iter().enumerate() {
        if let Err(error) = ProtectedPaths::new(std::slice::from_ref(glob)) {
            let key = [name.to_owned(), index.to_string()];
            let key: Vec<String> = at.iter().cloned().chain(key).collect();
            return Err(loaded.error_at(&key, None, &error.to_string()).into());
        }
    }
    Ok(())
}

/// Returns the files of a configuration in which work is only recorded: no part of it.
///
/// # Errors
/// A glob of `run.bookkeeping` is wrong.
pub fn bookkeeping_paths(config: &Config) -> Result<ProtectedPaths, ProtectedError> {
    ProtectedPaths::new(&bookkeeping(config))
}

/// Returns globs of the files in which work is only recorded: no part of it.
fn bookkeeping(config: &Config) -> Vec<String> {
    let mut globs = config.run.bookkeeping.clone();
    if let Some(path) = config.backlog.as_ref().and_then(|backlog| backlog.path.as_ref()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Those of databases, and the one that replaces the file.
        let beside = [format!("{name}-wal"), format!("{name}-shm"), format!("{name}-journal")];
        let temporary = format!(".{name}.ralph-tmp");
        let names = beside.into_iter().chain([name.to_string(), temporary]);
        globs.extend(names.map(|name| escape_glob(&path.with_file_name(name).to_string_lossy())));
    }
    if config.notify.iter().any(|notify| notify.kind == Some(NotifyKind::Autocoder)) {
        globs.push(Notify::PROGRESS_CACHE.to_owned());
    }
    let memory = [&config.memory.progress, &config.memory.errors];
    for path in memory.into_iter().flatten() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // What replaces the file, left by a crash.
        let temporary = path.with_file_name(format!(".{name}."));
        globs.push(format!("{}*.tmp", escape_glob(&temporary.to_string_lossy())));
        globs.push(escape_glob(&path.to_string_lossy()));
    }
    globs
}

/// Returns the glob that matches this path only.
fn escape_glob(path: &str) -> String {
    let escape = |letter: char| match letter {
        '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!' => format!("\\{letter}"),
        letter => letter.to_string(),
    };
    path.chars().map(escape).collect()
}

/// Converts the mode of the baseline.
pub(super) const fn baseline_mode(mode: config::BaselineMode) -> BaselineMode {
    match mode {
        config::BaselineMode::Off => BaselineMode::Off,
        config::BaselineMode::Warn => BaselineMode::Warn,
        config::BaselineMode::MustFail => BaselineMode::MustFail,
    }
}

/// Returns everything in the configuration that decides about completion, in one canonical form.
fn config_part(config: &Config) -> serde_json::Value {
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
    let mut part = json!({
        // Of what they run in.
        "env": [format!("{:?}", env.mode), json!(env.pass), json!(env.set)],
        "detectors": detectors,
        "trust_agent": config.completion.trust_agent,
        "after_rejection": format!("{:?}", config.completion.after_rejection),
        "when": format!("{:?}", config.completion.when),
        "validators": validators,
    });
    // What no earlier version knew must not change what runs of such a version are compared with.
    let bookkeeping = bookkeeping(config);
    if let Some(part) = part.as_object_mut().filter(|_| !bookkeeping.is_empty()) {
        part.insert("bookkeeping".to_owned(), json!(bookkeeping));
    }
    let validation = Validation { explain: None, ..config.validation.clone() };
    if let Some(part) = part.as_object_mut().filter(|_| validation != Validation::default()) {
        part.insert("validation".to_owned(), json!(validation));
    }
    part
}

/// Returns the digests of the code of detectors and validators that is not this program's own.
fn plugin_digests(config: &Config, registry: &Registry) -> BTreeMap<String, String> {
    let detectors = config.completion.detectors.iter().map(|detector| detector.name.as_str());
    let validators = config.validators.iter().map(|validator| validator.kind.as_str());
    let detectors = detectors.map(|name| (name, registry.detectors.digest(name)));
    let validators = validators.map(|kind| (kind, registry.validators.digest(kind)));
    detectors
        .chain(validators)
        .filter_map(|(name, digest)| Some((name.to_owned(), digest?.to_owned())))
        .collect()
}

/// Refuses a review by an agent that there is not, or without a checkout, in which it reads the work.
fn check_reviewer(
    loaded: &LoadedConfig,
    at: &[String],
    validator: &dyn EvidenceValidator,
) -> Result<(), ConfigErrors> {
    let Some(reviewer) = validator.reviewer() else { return Ok(()) };
    let (name, agents) = (reviewer.agent(), &loaded.config.agents);
    if !agents.contains_key(name) {
        let known: Vec<&str> = agents.keys().map(String::as_str).collect();
        let key: Vec<String> = at.iter().cloned().chain(["agent".to_owned()]).collect();
        return Err(loaded.unknown_name_error(&key, name, "agent", &known).into());
    }
    if loaded.config.validation.place == Some(CheckPlace::Workspace) {
        let message =
            "a review reads the work in a checkout; take `validation.where = \"workspace\"` out";
        return Err(loaded.error_at(at, None, message).into());
    }
    Ok(())
}

/// Refuses malformed globs of one validator.
///
/// # Errors
/// All of them, each with its place.
fn check_protected_globs(
    loaded: &LoadedConfig,
    at: &[String],
    config: &ValidatorConfig,
    validator: &dyn EvidenceValidator,
) -> Result<(), ConfigErrors> {
    let wrong = validator.protects().into_iter().filter_map(|glob| {
        let error = ProtectedPaths::new(std::slice::from_ref(&glob)).err()?;
        Some(loaded.error_at(&find_glob_key(at, &config.config, &glob), None, &error.to_string()))
    });
    ConfigErrors::ensure_none(wrong.collect())
}

/// Returns the key of a glob in the table of its validator: that of the first list element with this text,
/// since only the validator knows the names of its lists.
pub(super) fn find_glob_key(at: &[String], table: &serde_json::Value, glob: &str) -> Vec<String> {
    let lists = table.as_object().into_iter().flatten();
    let found = lists.into_iter().find_map(|(key, list)| {
        let index = list.as_array()?.iter().position(|word| word.as_str() == Some(glob))?;
        // A word of the program may be the same.
        (key != "program").then(|| [key.clone(), index.to_string()])
    });
    at.iter().cloned().chain(found.into_iter().flatten()).collect()
}
