//! Commits of the backlog's file, in which the statuses of items are written after the last commit of a run.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_backlog::Backlog;
use ralph_orchestrator_config::CommitMode;
use ralph_orchestrator_driver::{BacklogSaver, ItemRun, differ_in_records_only};
use ralph_orchestrator_engine::StopRequests;
use ralph_orchestrator_git::{CommitPolicy, RepoPath, Repository};
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};
use ralph_orchestrator_text::one_line;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::process::{Confinement, SupervisedGit, environment};
use crate::context::Context;
use crate::orphans::RUN_ID;
use crate::registry;
use crate::sandbox::SandboxPolicy;

/// The longest first line of a commit message, in characters.
const LONGEST_SUBJECT: usize = 72;

/// How long a commit or a push may take once the run was asked to stop.
const AFTER_STOP: Duration = Duration::from_secs(10);

/// Commits the backlog's file when an item is complete.
pub struct BacklogCommits {
    backlog: Arc<dyn Backlog>,
    layout: Layout,
    workspace: PathBuf,
    vars: BTreeMap<String, String>,
    places: Vec<PathBuf>,
    switch: KillSwitch,
    stop: StopRequests,
    confinement: Option<Confinement>,
    signing_timeout: Duration,
    /// What is needed to commit outside of any run, if it is.
    folder: Option<PathBuf>,
}

impl BacklogCommits {
    /// Returns what commits the backlog of a configuration; `None` if it does not ask for that. A database is
    /// not committed: what was written may be in its log only.
    pub fn find(
        context: &Context,
        backlog: &Arc<dyn Backlog>,
        layout: &Layout,
        (switch, stop): (KillSwitch, StopRequests),
        policy: Option<&SandboxPolicy>,
    ) -> Option<Self> {
        let config = &context.loaded.config;
        let is_wanted =
            config.git.commit == CommitMode::Iteration && registry::is_one_file(backlog.format());
        is_wanted.then(|| Self {
            backlog: Arc::clone(backlog),
            signing_timeout: config.git.timeout,
            folder: None,
            layout: layout.clone(),
            workspace: config.run.workspace.clone(),
            vars: context.vars.clone(),
            places: context.agent_places(),
            switch,
            stop,
            confinement: Confinement::new(policy, context),
        })
    }

    /// Has it commit outside of any run, in the worktree whose first run would have this id.
    #[must_use]
    pub fn beside_lanes(self, worktree: &str) -> Self {
        let folder = Some(self.layout.statuses_git(worktree));
        Self { folder, ..self }
    }
}

#[async_trait(?Send)]
impl BacklogSaver for BacklogCommits {
    async fn save(&self, completed: &ItemRun) -> Result<(), String> {
        let folder = self.folder.clone().unwrap_or_else(|| self.layout.git(&completed.run));
        // The run began before its work was to be stored.
        if !folder.exists() {
            return Ok(());
        }
        let supervisor = Supervisor::this_binary().with_kill_switch(self.switch.clone());
        let cancel = watch::Sender::new(false);
        let git = SupervisedGit::find(supervisor, &self.vars, &self.places, Handle::current())?;
        let git = git.cancelled_by(cancel.subscribe());
        let git = git.confined(self.confinement.clone(), Vec::new());
        let mut vars = environment(&self.vars);
        vars.insert(RUN_ID.into(), completed.run.clone().into());
        let (backlog, workspace) = (Arc::clone(&self.backlog), self.workspace.clone());
        let path = RepoPath::from_bytes(backlog.path().as_os_str().as_bytes());
        let (message, signing_timeout) = (message(completed), self.signing_timeout);
        let work = move || {
            let repository = Repository::discover_with(&workspace, &folder, Arc::new(git), vars)?;
            let repository = repository.with_signing_timeout(signing_timeout);
            repository.commit_file(&path, &message, &CommitPolicy::default(), &|before, after| {
                differ_in_records_only(&*backlog, before, after)
            })
        };
        let mut work = tokio::task::spawn_blocking(work);
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = after_stop(self.stop.clone()) => {
                cancel.send_replace(true);
                work.await
            }
        };
        let outcome = outcome.map_err(|error| error.to_string())?;
        let outcome = outcome.map_err(|error| error.to_string())?;
        match outcome.skipped.first() {
            None => Ok(()),
            Some(file) => Err(format!(
                "{} has other changes than statuses and notes, or is staged; commit it yourself",
                file.path
            )),
        }
    }
}

/// Resolves a while after the run was asked to stop.
pub(super) async fn after_stop(mut stop: StopRequests) {
    if stop.wait_for(|request| request.times > 0).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(AFTER_STOP).await;
}

/// Says what the commit is about: the same after a crash.
fn message(completed: &ItemRun) -> String {
    let ItemRun { item, title, run, .. } = completed;
    let subject = one_line(&format!("Complete item {item}: {title}"), LONGEST_SUBJECT);
    format!("{subject}\n\nRalph-Run: {run}\nRalph-Item: {}\n", one_line(item, 200))
}
