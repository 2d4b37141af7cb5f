//! Runs inside of another program.

mod controls;
mod error;
mod events;
mod options;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_adapter_common::agent_tools::{RELAY_COMMAND, TOOLS_FILE, relay};
use ralph_orchestrator_config::{self as config, Sources};
use ralph_orchestrator_contract::{
    Agent, BuildContext, BuildError, CompletionDetector, EvidenceValidator,
};
use ralph_orchestrator_plugin_host::{HOST_COMMAND, run_host_process};
use ralph_orchestrator_supervisor::{Supervisor, shim};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::compiled_in::CompiledIn;
use crate::context::Context;
use crate::defaults::config_defaults;
use crate::error::CommandError;
use crate::trust::{JudgedFiles, Judgement, Trust};
use crate::user_folders::STATE_HOME;
use crate::{trust, user_folders};

pub use controls::ControlHandle;
pub use error::OrchestratorError;
pub use events::RunUpdate;
pub use run::{Run, RunResult, StopHandle};

use options::RunOptions;

/// Lets this process be what supervises the processes of runs, or what hosts a plugin, if it was started for that; then
/// it does not return. To be called first in `main`, before any thread or runtime starts.
pub fn intercept() {
    shim::intercept();
    let mut args = std::env::args_os().skip(1);
    if let (Some(command), Some(file), None) = (args.next(), args.next(), args.next()) {
        let error = if command == HOST_COMMAND {
            Some(CommandError::unavailable(run_host_process(Path::new(&file)).to_string()))
        } else if command == RELAY_COMMAND && Path::new(&file).ends_with(TOOLS_FILE) {
            relay(Path::new(&file)).err().map(CommandError::unavailable)
        } else {
            return;
        };
        error
            .iter()
            .for_each(|error| drop(writeln!(io::stderr(), "{}", error.render(false, None))));
        std::process::exit(error.map_or(0, |error| i32::from(error.code())));
    }
}

/// What a configuration that is no file is called in messages.
const TEXT: &str = "(configuration)";

/// A configuration that can be run, in this process, any number of times.
///
/// Runs have no state in common: several can work at once, each in a workspace of its own. Where the state of a run
/// lies is the configuration's affair, as on the command line, and so `ralph-orchestrator status` shows it.
///
/// ```no_run
/// use ralph_orchestrator_assembly::{Orchestrator, RunEvent, RunUpdate};
///
/// # async fn example() -> Result<(), ralph_orchestrator_assembly::OrchestratorError> {
/// let orchestrator = Orchestrator::builder().config_file("ralph.toml").build()?;
/// let mut run = orchestrator.start().await?;
/// while let Some(update) = run.next_update().await {
///     if let RunUpdate::Event(RunEvent::Claim { claim, .. }) = update {
///         println!("claims: {}", claim.text);
///     }
/// }
/// println!("{}", run.finish().await?.message);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Orchestrator {
    context: Context,
    options: RunOptions,
}

/// Builds an [`Orchestrator`].
#[derive(Default)]
#[must_use]
pub struct OrchestratorBuilder {
    sources: Option<Sources>,
    sets: Vec<(String, String)>,
    vars: Option<BTreeMap<String, String>>,
    compiled_in: CompiledIn,
    state_home: Option<PathBuf>,
    options: RunOptions,
}

impl fmt::Debug for Orchestrator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.context.file;
        out.debug_struct("Orchestrator").field("file", file).finish_non_exhaustive()
    }
}

impl fmt::Debug for OrchestratorBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OrchestratorBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Orchestrator {
    /// Returns a builder without a configuration.
    pub fn builder() -> OrchestratorBuilder {
        OrchestratorBuilder::default()
    }

    /// Begins a run, or resumes the one that this configuration has. Needs no runtime of the caller's: the run has
    /// a thread of its own.
    ///
    /// # Errors
    /// Everything that `ralph-orchestrator run` refuses to start for; nothing was started.
    pub async fn start(&self) -> Result<Run, OrchestratorError> {
        run::start(self.context.clone(), self.options.clone()).await
    }
}

impl OrchestratorBuilder {
    /// Reads the configuration from a file in the form of `ralph.toml`.
    pub fn config_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.sources = Some(Sources { file: file.into(), ..Sources::default() });
        self
    }

    /// Takes the configuration from a text in the form of `ralph.toml`; paths in it are relative to `folder`.
    pub fn config_str(mut self, text: &str, folder: impl AsRef<Path>) -> Self {
        let (file, text) = (folder.as_ref().join(TEXT), Some(text.to_owned()));
        self.sources = Some(Sources { file, text, ..Sources::default() });
        self
    }

    /// Sets a key, as `--set KEY=VALUE` does: the value is TOML, and what is not TOML is text.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.sets.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets the environment that agents and validators are given, as far as `[env]` passes it; by default that of
    /// this process. No variable is taken for configuration.
    pub fn vars(mut self, vars: BTreeMap<String, String>) -> Self {
        self.vars = Some(vars);
        self
    }

    /// Sets the folder of all state, as `$XDG_STATE_HOME`, which agents then have too where `[env]` passes it.
    pub fn state_home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_home = Some(folder.into());
        self
    }

    /// Has `[agents.NAME]` work instead of `[agent]`.
    pub fn use_agent(mut self, name: &str) -> Self {
        self.options.agent = Some(name.to_owned());
        self
    }

    /// Stops each run after one iteration.
    pub const fn once(mut self) -> Self {
        self.options.once = true;
        self
    }

    /// Begins a new run each time, even if there is one to resume or a completed one.
    pub const fn restart(mut self) -> Self {
        self.options.restart = true;
        self
    }

    /// Adds an agent, for `adapter = "NAME"` in `[agent]`; its keys are those of `[agent.config]`. What it starts by the
    /// supervisor is confined as the configuration says, and ends with its iteration and with this program.
    pub fn agent<K, A, F>(mut self, name: &str, build: F) -> Self
    where
        K: DeserializeOwned + JsonSchema,
        A: Agent + 'static,
        F: Fn(K, &BuildContext, &Supervisor) -> Result<A, BuildError> + Send + Sync + 'static,
    {
        self.compiled_in.add_agent(name, build);
        self
    }

    /// Adds a validator, for `kind = "NAME"` in `[[validator]]`, which has its keys.
    pub fn validator<K, V, F>(mut self, name: &str, build: F) -> Self
    where
        K: DeserializeOwned + JsonSchema,
        V: EvidenceValidator + 'static,
        F: Fn(K, &BuildContext, &Supervisor) -> Result<V, BuildError> + Send + Sync + 'static,
    {
        self.compiled_in.add_validator(name, build);
        self
    }

    /// Adds a detector, for `NAME` in `[completion]`: in `detectors`, or with keys in `[[completion.detector]]`.
    pub fn detector<K, D, F>(mut self, name: &str, build: F) -> Self
    where
        K: DeserializeOwned + JsonSchema,
        D: CompletionDetector + 'static,
        F: Fn(K, &BuildContext) -> Result<D, BuildError> + Send + Sync + 'static,
    {
        self.compiled_in.add_detector(name, build);
        self
    }

    /// Reads and checks the configuration. Starts nothing.
    ///
    /// # Errors
    /// The configuration is missing or wrong, it asks for what only the command line does, or this program has not
    /// called [`intercept`](crate::intercept).
    pub fn build(self) -> Result<Orchestrator, OrchestratorError> {
        if !shim::is_intercepted() {
            return Err(OrchestratorError::NotIntercepted);
        }
        self.compiled_in.check()?;
        let mut sources = self.sources.ok_or(OrchestratorError::NoConfiguration)?;
        let is_text = sources.text.is_some();
        sources.sets = self.sets;
        sources.defaults = config_defaults();
        let loaded = config::load(&sources).map_err(CommandError::from)?;
        let only_there = [
            ("backlog", loaded.config.backlog.is_some()),
            ("git.worktree", loaded.config.git.worktree),
        ];
        if let Some((key, _)) = only_there.into_iter().find(|(_, is_set)| *is_set) {
            return Err(OrchestratorError::Unsupported { key });
        }
        let file = std::path::absolute(&sources.file).map_err(CommandError::from)?;
        let mut vars = self.vars.unwrap_or_else(user_folders::variables);
        if let Some(folder) = self.state_home {
            let folder = std::path::absolute(folder).map_err(CommandError::from)?;
            let text = folder.to_str().ok_or_else(|| {
                CommandError::user(format!("{}: the path is not UTF-8", folder.display()))
            })?;
            vars.insert(STATE_HOME.to_owned(), text.to_owned());
        }
        let compiled_in = Arc::new(self.compiled_in);
        let trust = Trust::in_state(&user_folders::state_home(&vars), false);
        if !is_text && let Some(link) = trust.find_link(&file)? {
            return Err(trust::links::refuse_link(&link).into());
        }
        let judged = (!is_text).then(|| trust.judge_file(&file)).transpose()?.flatten();
        match judged {
            Some(Judgement::Unaccepted(file)) => return Err(trust::refusal(&[file]).into()),
            Some(Judgement::Acceptable(version)) => {
                trust.accept([&version]).map_err(CommandError::from)?;
            }
            Some(Judgement::Accepted(_)) | None => {}
        }
        let judged = JudgedFiles::default();
        let context = Context { file, loaded, vars, compiled_in, judged };
        let JudgedFiles { acceptable, unaccepted, .. } =
            trust.judge_plugins(&context.loaded, &context.vars)?;
        if !unaccepted.is_empty() {
            return Err(trust::refusal(&unaccepted).into());
        }
        trust.accept(&acceptable).map_err(CommandError::from)?;
        Ok(Orchestrator { context, options: self.options })
    }
}
