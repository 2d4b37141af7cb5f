//! What all trials of a job have in common: its configuration, and what it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_config::{LoadedConfig, Sources};
use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_supervisor::{Mount, MountAccess, find_program};

/// The configuration of a job.
pub struct JobSetup {
    /// The configuration file, or where it would be.
    pub file: PathBuf,
    /// What every trial's configuration is made from.
    pub sources: Sources,
    /// The configuration as it is without a trial, for `[bench]` and the names of agents.
    pub loaded: LoadedConfig,
    /// The environment.
    pub vars: BTreeMap<String, String>,
    /// The folder of all state.
    pub state_home: PathBuf,
    /// The plugins.
    pub plugins: Plugins,
}

impl JobSetup {
    /// Returns what removes secrets from what is kept of trials for people.
    pub(super) fn redactor(&self) -> Redactor {
        Redactor::new(&self.loaded.config.env, &self.vars)
    }

    /// Returns the folder of what RUN lines of tasks have made.
    pub fn layers(&self) -> PathBuf {
        ralph_orchestrator_assembly::user_folders::cache_home(&self.vars)
            .join("ralph-orchestrator/bench-setup")
    }

    /// Returns the folder of the locks of who builds images of tasks.
    pub fn image_locks(&self) -> PathBuf {
        ralph_orchestrator_assembly::user_folders::cache_home(&self.vars)
            .join("ralph-orchestrator/bench-images")
    }

    /// Returns what trials see of this machine, as `[sandbox]` has it.
    pub fn shared_mounts(&self) -> Vec<Mount> {
        let sandbox = &self.loaded.config.sandbox;
        let mut shared = Vec::new();
        for (paths, access) in
            [(&sandbox.read, MountAccess::ReadOnly), (&sandbox.write, MountAccess::Writable)]
        {
            let mount =
                |path: &PathBuf| Mount { source: path.clone(), target: path.clone(), access };
            shared.extend(paths.iter().map(mount));
        }
        shared
    }

    /// Returns the program of bubblewrap.
    ///
    /// # Errors
    /// It is not installed.
    pub fn find_bubblewrap(&self) -> Result<PathBuf, CommandError> {
        let path = self.vars.get("PATH").map(String::as_str).unwrap_or_default();
        find_program("bwrap", path, Path::new("/")).map_err(|error| {
            CommandError::unavailable(error).hinted(
                "the package is called bubblewrap; `--isolation namespace` needs no program",
            )
        })
    }

    /// Returns what the command line adds to the configuration of a job: a file is not needed, and what a trial brings
    /// itself need not be in it.
    #[must_use]
    pub fn overrides(sets: &[(String, String)]) -> Overrides {
        Overrides {
            sets: sets.to_vec(),
            implied: brought_by_task(),
            is_task: true,
            ..Overrides::default()
        }
    }

    /// Makes the setup from the configuration that was read with [`overrides`](Self::overrides), once a person has accepted it.
    ///
    /// # Errors
    /// A plugin cannot be used.
    pub fn new(context: Context, mut sources: Sources) -> Result<Self, CommandError> {
        // Each trial says it by itself.
        sources.implied.clear();
        let plugins = Plugins::from_context(&context)?;
        let state_home = context.state_home();
        let Context { file, loaded, vars, .. } = context;
        Ok(Self { file, sources, loaded, vars, state_home, plugins })
    }
}

/// Returns what a trial has by its task, and the configuration of a job need not have.
pub fn brought_by_task() -> Vec<(&'static str, String)> {
    vec![
        ("completion.trust_agent", "true".to_owned()),
        ("run.prompt_text", "\"the instruction of the task\"".to_owned()),
    ]
}
