//! What all trials of a job have in common: its configuration, and what it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_config::{LoadedConfig, Sources};
use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_supervisor::{Mount, MountAccess, find_program};

use super::trial_config::brought_by_task;
use crate::trust;

/// The configuration of a job.
pub(crate) struct JobSetup {
    /// The configuration file, or where it would be.
    pub(crate) file: PathBuf,
    /// What every trial's configuration is made from.
    pub(crate) sources: Sources,
    /// The configuration as it is without a trial, for `[bench]` and the names of agents.
    pub(crate) loaded: LoadedConfig,
    pub(crate) vars: BTreeMap<String, String>,
    pub(crate) state_home: PathBuf,
    pub(crate) plugins: Plugins,
}

impl JobSetup {
    /// Returns what removes secrets from what is kept of trials for people.
    pub(super) fn redactor(&self) -> Redactor {
        Redactor::new(&self.loaded.config.env, &self.vars)
    }

    /// Returns the folder of what RUN lines of tasks have made.
    pub(crate) fn layers(&self) -> PathBuf {
        ralph_orchestrator_assembly::user_folders::cache_home(&self.vars)
            .join("ralph-orchestrator/bench-setup")
    }

    /// Returns the folder of the locks of who builds images of tasks.
    pub(crate) fn image_locks(&self) -> PathBuf {
        ralph_orchestrator_assembly::user_folders::cache_home(&self.vars)
            .join("ralph-orchestrator/bench-images")
    }

    /// Returns what trials see of this machine, as `[sandbox]` has it.
    pub(crate) fn shared_mounts(&self) -> Vec<Mount> {
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
    pub(crate) fn find_bubblewrap(&self) -> Result<PathBuf, CommandError> {
        let path = self.vars.get("PATH").map(String::as_str).unwrap_or_default();
        find_program("bwrap", path, Path::new("/")).map_err(|error| {
            CommandError::unavailable(error).hinted(
                "the package is called bubblewrap; `--isolation namespace` needs no program",
            )
        })
    }

    /// Reads the configuration. A file is not needed: the command line can say everything.
    ///
    /// # Errors
    /// It is wrong, or a plugin cannot be used.
    pub(crate) fn load(file: &ConfigFile, sets: &[(String, String)]) -> Result<Self, CommandError> {
        let overrides = Overrides {
            sets: sets.to_vec(),
            // What a trial brings itself need not be in the file.
            implied: brought_by_task(),
            is_task: true,
            ..Overrides::default()
        };
        let (context, mut sources) = Context::load_with_sources(file, overrides)?;
        let context = trust::settle(context, sets)?;
        trust::accept_silently(&context)?;
        // Each trial says it by itself.
        sources.implied.clear();
        let plugins = Plugins::from_context(&context)?;
        let state_home = context.state_home();
        let Context { file, loaded, vars, .. } = context;
        Ok(Self { file, sources, loaded, vars, state_home, plugins })
    }
}
