//! The repository of a stored run, for commands that read its checkpoints.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_core::engine::{Redactor, redactor_of_run};
use ralph_orchestrator_core::store::{Layout, StoredRun};
use ralph_orchestrator_git::{RepoPath, Repository, RunRef};
use ralph_orchestrator_supervisor::Supervisor;
use tokio::runtime::Handle;

use super::{SupervisedGit, blocking, environment};
use crate::commands::run_selection::{self, no_run_error};
use crate::context::Context;
use crate::error::CommandError;

/// A stored run and the repository that has its checkpoints.
pub(crate) struct StoredRepository {
    pub(crate) repository: Repository,
    pub(crate) run: RunRef,
    /// Removes the run's secrets from what is shown of the checkpoints, which have them where the work has.
    pub(crate) redactor: Redactor,
}

impl StoredRepository {
    /// Opens the repository of the workspace's run, or of the earlier one whose id begins like this.
    pub(crate) async fn open(
        context: &Context,
        prefix: Option<&str>,
    ) -> Result<Self, CommandError> {
        let selected = run_selection::read(context, prefix, |_| {})?.ok_or_else(no_run_error)?;
        let configured = context.loaded.config.run.workspace.clone();
        Self::of_run(&selected.layout, selected.found, configured, &context.vars).await
    }

    /// Opens the repository of a run whose workspace is the configured one if none was recorded.
    pub(crate) async fn of_run(
        layout: &Layout,
        found: StoredRun,
        configured: PathBuf,
        vars: &BTreeMap<String, String>,
    ) -> Result<Self, CommandError> {
        let folder = layout.git(&found.run);
        if !folder.exists() {
            return Err(CommandError::user(format!("run {} has no checkpoints", found.run))
                .hinted("`[git] commit = \"checkpoint\"` makes one after each iteration"));
        }
        let recorded = found.state.started.map(|started| PathBuf::from(started.workspace));
        let workspace = recorded.unwrap_or(configured);
        let redactor = redactor_of_run(layout, &found.run, vars);
        let runtime = Handle::current();
        let git = SupervisedGit::find(Supervisor::this_binary(), vars, runtime)
            .map_err(CommandError::unavailable)?;
        let (vars, run) = (environment(vars), RunRef::new(found.run)?);
        let open = move || Repository::discover_with(&workspace, &folder, Arc::new(git), vars);
        Ok(Self { repository: blocking(open).await??, run, redactor })
    }

    /// Returns a path as it is shown: a file's name can be made of a secret.
    pub(crate) fn mask_path(&self, path: &RepoPath) -> RepoPath {
        RepoPath::from_bytes(self.redactor.bytes(path.as_bytes()))
    }
}
