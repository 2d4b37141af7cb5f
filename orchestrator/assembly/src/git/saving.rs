//! The user's repository as the engine's [`VersionControl`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_engine::{RepositoryLocation, RunRepository, StoredWork, VersionControl};
use ralph_orchestrator_git::{CommitPolicy, GitError, Repository, RunRef, SkipReason, SkippedFile};
use ralph_orchestrator_supervisor::Supervisor;
use tokio::runtime::Handle;

use super::process::{Confinement, SupervisedGit, environment};
use crate::orphans::RUN_ID;

/// Opens repositories with the program `git`.
pub struct GitRepositories {
    /// Starts git.
    pub supervisor: Supervisor,
    /// The environment.
    pub vars: BTreeMap<String, String>,
    /// Where agents can put programs.
    pub places: Vec<PathBuf>,
    /// The runtime of what waits for git.
    pub runtime: Handle,
    /// How hooks and filters are confined, if agents are.
    pub confinement: Option<Confinement>,
}

impl VersionControl for GitRepositories {
    fn open(&self, location: RepositoryLocation) -> Result<Arc<dyn RunRepository>, String> {
        let RepositoryLocation { run, workspace, folder, is_new, guard, cancelled, protects } =
            location;
        let supervisor = self.supervisor.clone().with_guard(guard);
        let git = SupervisedGit::find(supervisor, &self.vars, &self.places, self.runtime.clone())?;
        let git = git.cancelled_by(cancelled).confined(self.confinement.clone(), protects);
        let mut vars = environment(&self.vars);
        vars.insert(RUN_ID.into(), run.clone().into());
        let open = || -> Result<_, GitError> {
            let repository = Repository::discover_with(&workspace, &folder, Arc::new(git), vars)?;
            match &self.confinement {
                Some(confinement) if is_new => repository.trust_as_before(confinement.kept())?,
                None if is_new => repository.trust_configuration()?,
                _ => {}
            }
            Ok(SavedRun { run: RunRef::new(run)?, repository })
        };
        let opened = open().map_err(|error| error.to_string())?;
        Ok(Arc::new(opened))
    }

    fn recent_subjects(
        &self,
        location: RepositoryLocation,
        most: u32,
    ) -> Result<Vec<String>, String> {
        let supervisor = self.supervisor.clone().with_guard(location.guard);
        let git = SupervisedGit::find(supervisor, &self.vars, &self.places, self.runtime.clone())?;
        let git = git.cancelled_by(location.cancelled);
        let git = git.confined(self.confinement.clone(), location.protects);
        let mut vars = environment(&self.vars);
        vars.insert(RUN_ID.into(), location.run.into());
        Repository::recent_subjects(&location.workspace, &git, &vars, most)
            .map_err(|error| error.to_string())
    }
}

/// The repository of one run.
struct SavedRun {
    run: RunRef,
    repository: Repository,
}

impl RunRepository for SavedRun {
    fn begin_iteration(&self, iteration: u64) -> Result<(), String> {
        self.repository.begin_iteration(iteration).map(drop).map_err(|error| error.to_string())
    }

    fn checkpoint(&self, iteration: u64) -> Result<StoredWork, String> {
        let message = match iteration {
            0 => "The workspace before the first iteration\n".to_owned(),
            _ => format!("The workspace after iteration {iteration}\n"),
        };
        let stored = self.repository.checkpoint(&self.run, iteration, &message);
        let stored = stored.map_err(|error| error.to_string())?;
        let id = Some(stored.checkpoint.commit.to_string());
        Ok(StoredWork { id, skipped: describe(&stored.skipped), problem: None })
    }

    fn commit(&self, iteration: u64, message: &str) -> Result<StoredWork, String> {
        let stored = self.repository.commit(iteration, message, &CommitPolicy::default());
        let stored = stored.map_err(|error| error.to_string())?;
        let id = stored.commit.map(|commit| commit.to_string());
        let unused = stored.unused_signing.join(", ");
        let problem = (!unused.is_empty()).then(|| {
            format!(
                "signing is as your own git configuration says, not as the repository's: an agent can write {unused} \
                 there; `git config --global` sets what is to be followed"
            )
        });
        Ok(StoredWork { id, skipped: describe(&stored.skipped), problem })
    }
}

/// Returns each path with the reason for which it was not stored.
fn describe(skipped: &[SkippedFile]) -> Vec<String> {
    let describe = |file: &SkippedFile| format!("{} ({})", file.path, reason(file.reason));
    skipped.iter().map(describe).collect()
}

const fn reason(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Secret => "looks like a secret",
        SkipReason::TooLarge => "too large",
        SkipReason::Special => "no regular file",
        SkipReason::Repository => "a repository of its own",
        SkipReason::Unreadable => "cannot be read",
        SkipReason::DirtyBefore => "was not committed before the iteration",
        _ => "not stored",
    }
}
