//! A configuration together with where each value comes from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{normalize_lexically, real_path};

use crate::diagnostics;
use crate::document::ConfigDocument;
use crate::env_names::SHORTEST_SECRET;
use crate::error::{ConfigError, ConfigErrors, SourceLocation};
use crate::inline;
use crate::key::{self, KeyPath};
use crate::model::{Config, Prompts, ValidatorConfig};
use crate::provenance::Provenance;
use crate::schema;
use crate::serde_messages;
use crate::sources::Sources;
use crate::suggest::nearest;

/// What the origin of a value is called that nobody gave.
const DEFAULT: &str = "default";
/// The same of one that is stored with the run, which was begun without a file.
const STORED: &str = "as the run began";

/// A configuration that was read, with the source of every value.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The configured workspace, which identifies the run; `config.run.workspace` is where it works.
    configured_workspace: PathBuf,
    dir: PathBuf,
    /// The folder that paths of agents are relative to.
    agent_dir: PathBuf,
    provenance: Provenance,
    table: toml::Table,
    text: String,
    task: Option<String>,
    user_file: Option<PathBuf>,
    warnings: Vec<ConfigError>,
}

impl LoadedConfig {
    pub(crate) fn new(
        config: Config,
        dir: PathBuf,
        provenance: Provenance,
        sources: &Sources,
    ) -> Result<Self, ConfigErrors> {
        let failed = |error: String| ConfigError::new(provenance.file(), "", error);
        let value = serde_json::to_value(ConfigDocument::from(&config))
            .map_err(|e| failed(e.to_string()))?;
        let table = match inline::to_toml(value) {
            toml::Value::Table(table) => table,
            other => return Err(failed(format!("{} is no table", other.type_str())).into()),
        };
        let text = toml::to_string(&table).map_err(|e| failed(e.to_string()))?;
        let configured_workspace = config.run.workspace.clone();
        let task = sources.task.as_ref().map(|task| task.id.clone());
        let agent_dir = dir.clone();
        let user_file = sources.user_file.clone();
        Ok(Self {
            config,
            configured_workspace,
            dir,
            agent_dir,
            provenance,
            table,
            text,
            task,
            user_file,
            warnings: Vec::new(),
        })
    }

    /// Adds a validator that no file names. It is in [`resolved_toml`](Self::resolved_toml) as well: a run that goes on has what it began
    /// with.
    ///
    /// # Errors
    /// It cannot be written as TOML.
    pub fn add_validator(&mut self, validator: ValidatorConfig) -> Result<(), ConfigErrors> {
        let failed = |error: String| ConfigError::new(self.provenance.file(), "validator", error);
        let mut config = self.config.clone();
        config.validators.push(validator);
        let mut document = serde_json::to_value(ConfigDocument::from(&config))
            .map_err(|error| failed(error.to_string()))?;
        let mut table = self.table.clone();
        if let Some(validators) = document.get_mut("validator") {
            table.insert("validator".to_owned(), inline::to_toml(validators.take()));
        }
        let text = toml::to_string(&table).map_err(|error| failed(error.to_string()))?;
        (self.config, self.table, self.text) = (config, table, text);
        Ok(())
    }

    pub(crate) fn warned(self, warnings: Vec<ConfigError>) -> Self {
        Self { warnings, ..self }
    }

    /// Returns what holds although it should be written otherwise.
    #[must_use]
    pub fn warnings(&self) -> &[ConfigError] {
        &self.warnings
    }

    /// Returns the user's own file, whether it is there or not.
    #[must_use]
    pub fn user_file(&self) -> Option<&Path> {
        self.user_file.as_deref()
    }

    /// Returns the id of the task that is worked on, if it is one of several of this configuration.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Returns the workspace that the configuration names: it identifies the run, wherever that works.
    #[must_use]
    pub fn configured_workspace(&self) -> &Path {
        &self.configured_workspace
    }

    /// Returns the configuration of a run that works in another folder, a copy of the workspace. What lies in
    /// the workspace is looked for at the same place in that folder; plugins and everything outside of the
    /// workspace stay where they are. Origins and [`resolved_toml`](Self::resolved_toml) stay the same.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        let workspace = self.configured_workspace.clone();
        let real_workspace = real_path(&workspace);
        let inside = |path: &Path| -> Option<PathBuf> {
            let real = real_path(path);
            let real = real.strip_prefix(&real_workspace).ok()?;
            // A link within the workspace stays the link that it is.
            Some(path.strip_prefix(&workspace).unwrap_or(real).to_owned())
        };
        let moved = |path: &Path| match inside(path) {
            // Joining an empty path would add a slash.
            Some(rest) if rest.as_os_str().is_empty() => folder.to_owned(),
            Some(rest) => folder.join(rest),
            None => path.to_owned(),
        };
        let dir = self.dir.clone();
        let config = &mut self.config;
        config.run.workspace = folder.to_owned();
        config.run.prompt = config.run.prompt.as_deref().map(moved);
        for pattern in config.prompts.iter_mut().flat_map(|prompts| &mut prompts.paths) {
            if pattern != Prompts::BUILT_IN {
                *pattern = moved(Path::new(pattern.as_str())).display().to_string();
            }
        }
        let agents = std::iter::once(&mut config.agent).chain(config.agents.values_mut());
        for input in agents.flat_map(|agent| &mut agent.inputs) {
            *input = moved(&dir.join(&*input));
        }
        // In the workspace everything can be read and written anyway.
        for list in [&mut config.sandbox.read, &mut config.sandbox.write] {
            list.retain(|path| inside(path).is_none());
        }
        self.dir = moved(&dir);
        self.agent_dir = moved(&self.agent_dir);
        self
    }

    /// Returns the configuration of a run whose workspace is another folder, a copy of the workspace: like
    /// [`in_folder`](Self::in_folder), but that folder identifies the run, whose state is its own.
    #[must_use]
    pub fn with_workspace(self, folder: &Path) -> Self {
        let mut loaded = self.in_folder(folder);
        loaded.configured_workspace = folder.to_owned();
        if let (Some(dir), Some(name)) = (&mut loaded.config.state.dir, folder.file_name()) {
            // Beside it, as what is in it may be deleted as a whole.
            let mut path = std::mem::take(dir).into_os_string();
            path.push("-");
            path.push(name);
            *dir = path.into();
        }
        loaded
    }

    /// Returns the same configuration with the agents and plugins of another one. Their relative paths stay relative
    /// to the folder of that.
    #[must_use]
    pub fn with_agents_from(mut self, other: &Self) -> Self {
        self.config.agent = other.config.agent.clone();
        self.config.agents.clone_from(&other.config.agents);
        self.config.plugins.clone_from(&other.config.plugins);
        self.agent_dir.clone_from(&other.agent_dir);
        self
    }

    /// Returns the folder that relative paths of agents are relative to: that of `ralph.toml`, unless the agents come
    /// from another configuration.
    #[must_use]
    pub fn agent_dir(&self) -> &Path {
        &self.agent_dir
    }

    /// Returns the folder of `ralph.toml`, absolute: relative paths in the configuration are relative to
    /// it.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the configuration file, absolute and by the real path of its folder; `None` if there is none, as when
    /// everything was given on the command line. A link stays what it is called, wherever it leads.
    #[must_use]
    pub fn configuration(&self) -> Option<PathBuf> {
        match self.provenance.file() {
            SourceLocation::File { path, .. } => {
                path.symlink_metadata().ok()?;
                Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
            }
            SourceLocation::Variable { .. }
            | SourceLocation::Set { .. }
            | SourceLocation::CommandLine { .. }
            | SourceLocation::Preset { .. } => None,
        }
    }

    /// Returns the configuration file as it is named, absolute and with the links on the way; `None` if there is none.
    #[must_use]
    pub fn typed_configuration(&self) -> Option<PathBuf> {
        match self.provenance.file() {
            SourceLocation::File { path, .. } => {
                Some(normalize_lexically(&std::path::absolute(path).ok()?))
            }
            SourceLocation::Variable { .. }
            | SourceLocation::Set { .. }
            | SourceLocation::CommandLine { .. }
            | SourceLocation::Preset { .. } => None,
        }
    }

    /// Returns the folder of the prompt file, absolute; that of `ralph.toml` if the prompt is no file.
    #[must_use]
    pub fn prompt_dir(&self) -> &Path {
        self.config.run.prompt.as_deref().and_then(Path::parent).unwrap_or(&self.dir)
    }

    /// Whether the value of `key`, such as `limits.max_cost_usd`, comes from anything but the
    /// defaults.
    #[must_use]
    pub fn set_by_user(&self, key: &str) -> bool {
        key::parse(key).is_some_and(|path| self.provenance.is_given(&path))
    }

    /// Whether the value of `key` was given on the command line or by a variable of the environment, and
    /// not by a file.
    #[must_use]
    pub fn is_given_outside_files(&self, key: &str) -> bool {
        key::parse(key).is_some_and(|path| {
            self.provenance.is_given(&path)
                && !matches!(self.provenance.location(&path, false), SourceLocation::File { .. })
        })
    }

    /// Whether the value of `key` was given on the command line.
    #[must_use]
    pub fn is_given_on_command_line(&self, key: &str) -> bool {
        key::parse(key).is_some_and(|path| {
            self.provenance.is_given(&path)
                && match self.provenance.location(&path, false) {
                    SourceLocation::Set { .. } | SourceLocation::CommandLine { .. } => true,
                    SourceLocation::File { .. }
                    | SourceLocation::Variable { .. }
                    | SourceLocation::Preset { .. } => false,
                }
        })
    }

    /// Returns where the value of `key` comes from: `ralph.toml:12:16`, `RALPH_LIMITS__MAX_COST_USD`,
    /// `--set`, `as the run began` or `default`. `None` if there is no such key. Elements of arrays are named by their index:
    /// `validator.0.timeout`.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<String> {
        let path = key::parse(key)?;
        if self.provenance.is_stored(&path) {
            return Some(STORED.to_owned());
        }
        if self.provenance.value(&path).is_some() {
            return Some(self.provenance.location(&path, false).to_string());
        }
        let known = find(&self.table, &path).is_some() || schema::fixed_keys().contains(&path);
        known.then(|| DEFAULT.to_owned())
    }

    /// Returns the error for a mistake in the value at `key_path`, or in the name of its key `unknown_key`.
    /// Messages of serde are put into the words of configuration errors.
    #[must_use]
    pub fn error_at(
        &self,
        key_path: &[String],
        unknown_key: Option<&str>,
        message: &str,
    ) -> ConfigError {
        let mut issue = serde_messages::from_message(message);
        issue.unknown_key = unknown_key.map(str::to_owned).or(issue.unknown_key);
        diagnostics::explain(&self.provenance, key_path, &issue)
    }

    /// Returns the error for the name of something that is not known, given at `key_path`. `kind_word` says
    /// what it should be the name of, such as `adapter`.
    #[must_use]
    pub fn unknown_name_error(
        &self,
        key_path: &[String],
        name: &str,
        kind_word: &str,
        candidates: &[&str],
    ) -> ConfigError {
        let location = self.provenance.location(key_path, false);
        let message = format!("there is no {kind_word} called {name:?}");
        let mut error = ConfigError::new(location, key::dotted(key_path), message);
        error.suggestion = nearest(name, candidates.iter().copied()).map(str::to_owned);
        if error.suggestion.is_none() && !candidates.is_empty() {
            error.help = Some(format!("known are: {}", candidates.join(", ")));
        }
        let is_long = |value: &&String| value.chars().nth(SHORTEST_SECRET - 1).is_some();
        error.mask(&self.config.env.set.values().filter(is_long).cloned().collect::<Vec<_>>())
    }

    /// Returns the key of a detector: of its options if it has a table, else of its name in
    /// `completion.detectors`. The options' own keys are below the former.
    #[must_use]
    pub fn detector_key(&self, name: &str) -> Vec<String> {
        let completion = "completion".to_owned();
        let index_of = |list: &str, in_table: bool| {
            let list_path = [completion.clone(), list.to_owned()];
            let found = self.provenance.elements(&list_path).position(|element| {
                let value = if in_table { element.find_ref("name") } else { Some(element) };
                value.and_then(|value| value.as_str()) == Some(name)
            })?;
            Some([&list_path[..], &[found.to_string()]].concat())
        };
        index_of("detector", true)
            .or_else(|| index_of("detectors", false))
            .unwrap_or_else(|| vec![completion, "detectors".to_owned()])
    }

    /// Returns the error for a mistake that is not in a value but in what the value names, such as a file.
    pub(crate) fn error_at_key(&self, key: &[&str], message: String) -> ConfigError {
        let path = key.iter().map(|&part| part.to_owned()).collect::<KeyPath>();
        ConfigError::new(self.provenance.location(&path, false), key::dotted(&path), message)
    }

    /// Returns the configuration as TOML, as it was loaded: every key that has a value, paths absolute.
    /// LoadedConfig again without variables and `--set`, it gives the same [`Config`].
    #[must_use]
    pub fn resolved_toml(&self) -> String {
        self.text.clone()
    }

    /// Returns the configuration as [`resolved_toml`](Self::resolved_toml) does, with `mask` applied to all texts: for
    /// people only.
    #[must_use]
    pub fn masked_toml(&self, mask: &dyn Fn(&str) -> String) -> String {
        let masked = mask_texts(toml::Value::Table(self.table.clone()), mask);
        toml::to_string(&masked).unwrap_or_default()
    }

    /// Returns key, value as TOML, and origin of everything that has a value.
    #[must_use]
    pub fn show(&self) -> Vec<(String, String, String)> {
        let mut rows = Vec::new();
        for (name, value) in &self.table {
            flatten(value, &mut vec![name.clone()], &mut rows);
        }
        rows.into_iter()
            .map(|(path, value)| {
                let key = key::dotted(&path);
                let origin = self.origin(&key).unwrap_or_else(|| DEFAULT.to_owned());
                (key, value, origin)
            })
            .collect()
    }
}

fn find<'a>(table: &'a toml::Table, path: &[String]) -> Option<&'a toml::Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(first)?, |value, part| match value {
        toml::Value::Table(table) => table.get(part),
        toml::Value::Array(array) => array.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

fn mask_texts(value: toml::Value, mask: &dyn Fn(&str) -> String) -> toml::Value {
    match value {
        toml::Value::String(text) => toml::Value::String(mask(&text)),
        toml::Value::Array(array) => {
            toml::Value::Array(array.into_iter().map(|value| mask_texts(value, mask)).collect())
        }
        toml::Value::Table(table) => toml::Value::Table(
            table.into_iter().map(|(key, value)| (key, mask_texts(value, mask))).collect(),
        ),
        other => other,
    }
}

fn flatten(value: &toml::Value, path: &mut KeyPath, rows: &mut Vec<(KeyPath, String)>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                path.push(name.clone());
                flatten(value, path, rows);
                path.pop();
            }
        }
        toml::Value::Array(array) if array.iter().any(toml::Value::is_table) => {
            for (index, value) in array.iter().enumerate() {
                path.push(index.to_string());
                flatten(value, path, rows);
                path.pop();
            }
        }
        value => rows.push((path.clone(), inline::value(value))),
    }
}

/// Returns key and value, as TOML on one line, of everything in the text of a configuration; `None` if it is no TOML.
#[must_use]
pub fn values_of(text: &str) -> Option<BTreeMap<String, String>> {
    let table: toml::Table = text.parse().ok()?;
    let mut rows = Vec::new();
    for (name, value) in &table {
        flatten(value, &mut vec![name.clone()], &mut rows);
    }
    Some(rows.into_iter().map(|(path, value)| (key::dotted(&path), value)).collect())
}
