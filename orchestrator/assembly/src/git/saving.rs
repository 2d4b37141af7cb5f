//! The user's repository as the engine's [`VersionControl`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_engine::{RepositoryLocation, RunRepository, StoredWork, VersionControl};
use ralph_orchestrator_git::{
    Checkpoint, CommitPolicy, GitError, Repository, RunRef, SkipReason, SkippedFile,
};
use ralph_orchestrator_supervisor::Supervisor;
use ralph_orchestrator_text::{count, len};
use tokio::runtime::Handle;

use super::process::{Confinement, SupervisedGit, environment};
use crate::orphans::RUN_ID;

/// Files that a message names.
const MOST_NAMED: usize = 5;

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
        let RepositoryLocation { run, workspace, folder, is_new, trusted, guard, .. } = location;
        let (protects, signing_timeout) = (location.protects, location.signing_timeout);
        let supervisor = self.supervisor.clone().with_guard(guard);
        let git = SupervisedGit::find(supervisor, &self.vars, &self.places, self.runtime.clone())?;
        let git = git.cancelled_by(location.cancelled).confined(self.confinement.clone(), protects);
        let mut vars = environment(&self.vars);
        vars.insert(RUN_ID.into(), run.clone().into());
        let open = || -> Result<_, GitError> {
            let repository = Repository::discover_with(&workspace, &folder, Arc::new(git), vars)?;
            let repository = repository.with_signing_timeout(signing_timeout);
            match (&self.confinement, trusted) {
                _ if !is_new => {}
                (_, Some(trusted)) => repository.trust_as_in(&trusted)?,
                (Some(confinement), None) => repository.trust_as_before(confinement.kept())?,
                (None, None) => repository.trust_configuration()?,
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

    fn record_ignored(&self) -> Result<(), String> {
        self.repository.record_ignored().map_err(|error| error.to_string())
    }

    fn checkpoint(&self, iteration: u64) -> Result<StoredWork, String> {
        let message = match iteration {
            0 => "The workspace before the first iteration\n".to_owned(),
            _ => format!("The workspace after iteration {iteration}\n"),
        };
        let stored = self.repository.checkpoint(&self.run, iteration, &message);
        let stored = stored.map_err(|error| error.to_string())?;
        let id = Some(stored.checkpoint.commit.to_string());
        let problems = [describe_shown(&stored.skipped), describe_left_out(&stored.checkpoint)];
        let problems = problems.into_iter().flatten().collect();
        Ok(StoredWork { id, skipped: describe(&stored.skipped), problems })
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
        let problems = problem.into_iter().collect();
        Ok(StoredWork { id, skipped: describe(&stored.skipped), problems })
    }
}

/// Says that files which git ignored when the run or an iteration began are not ignored any more, if some are.
fn describe_shown(skipped: &[SkippedFile]) -> Option<String> {
    let files: Vec<_> = skipped.iter().filter(|file| file.reason == SkipReason::Ignored).collect();
    let paths = name_first(files.iter().map(|file| file.path.to_string()));
    (!files.is_empty()).then(|| {
        format!(
            "ignore rules were changed: git would show {} that it ignored when the run or an iteration began ({paths}); \
             no checkpoint and no commit takes them",
            count(len(&files), "file")
        )
    })
}

/// Says what no checkpoint has, if it leaves anything out.
fn describe_left_out(checkpoint: &Checkpoint) -> Option<String> {
    let files = name_first(describe(&checkpoint.left_out).into_iter());
    (!files.is_empty()).then(|| {
        format!("checkpoints leave out {files}: `diff` does not show it, and `rollback` leaves it as it is")
    })
}

/// Joins the first of these names, and says how many more there are.
pub(super) fn name_first(mut names: impl ExactSizeIterator<Item = String>) -> String {
    let first: Vec<String> = names.by_ref().take(MOST_NAMED).collect();
    let more = match names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", first.join(", "))
}

/// Returns each path with the reason for which it was not stored.
fn describe(skipped: &[SkippedFile]) -> Vec<String> {
    let describe = |file: &SkippedFile| format!("{} ({})", file.path, skip_reason(file.reason));
    skipped.iter().map(describe).collect()
}

/// Returns why a file is not stored, in words.
pub const fn skip_reason(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Secret => "looks like a secret",
        SkipReason::TooLarge => "too large",
        SkipReason::Special => "no regular file",
        SkipReason::Repository => "a repository of its own",
        SkipReason::Unreadable => "cannot be read",
        SkipReason::DirtyBefore => "was not committed before the iteration",
        SkipReason::Ignored => "was ignored when the run or an iteration began",
        _ => "not stored",
    }
}
