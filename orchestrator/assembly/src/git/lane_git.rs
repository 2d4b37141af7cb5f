//! What lanes need of git. Everything here blocks.

use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_backlog::BacklogItem;
use ralph_orchestrator_config::{LoadedConfig, SandboxMode};
use ralph_orchestrator_driver::{BranchMove, Lane, LaneMerge, LanePaths, LaneStart};
use ralph_orchestrator_engine::{bookkeeping_paths, state_layout};
use ralph_orchestrator_git::{MergeRequest, ObjectId, RepoPath, Repository, WorktreeRequest};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{Layout, WorktreeRecord};
use ralph_orchestrator_supervisor::{KillSwitch, Supervisor};
use ralph_orchestrator_text::{count, len, one_line};
use ralph_orchestrator_workspace::copy_if_other;
use tokio::runtime::Handle;

use super::process::{Confinement, SupervisedGit, environment, kept_folder};
use super::saving::name_first;
use super::worktree_maker::own_files;
use crate::context::Context;
use crate::error::CommandError;

/// Characters of an item's id in the names of its branch and folder.
const LONGEST_SLUG: usize = 40;
/// Characters of a digest that tells ids with the same slug apart.
const DIGEST: usize = 8;
/// Names that are tried for a lane whose name is taken.
const MOST_NAMES: u32 = 1000;
/// The longest first line of a merge's message, in characters.
const LONGEST_SUBJECT: usize = 72;
/// What the folder in which a merge is proved is called, beside its lane.
const PROOF: &str = "-merge";

/// The worktree of a run, and the lanes beside it.
pub(super) struct LaneGit {
    /// The configuration as the run has it, in its worktree.
    pub(super) context: Context,
    pub(super) layout: Layout,
    pub(super) record: WorktreeRecord,
    pub(super) switch: KillSwitch,
    pub(super) confinement: Option<Confinement>,
}

impl LaneGit {
    fn loaded(&self) -> &LoadedConfig {
        &self.context.loaded
    }

    /// Opens the repository, as the user's checkout has it.
    fn open(&self) -> Result<Repository, CommandError> {
        let private = self.layout.lanes_git(&self.record.run);
        self.open_at(self.loaded().configured_workspace(), &private)
    }

    fn open_at(&self, workspace: &Path, private: &Path) -> Result<Repository, CommandError> {
        let supervisor = Supervisor::this_binary().with_kill_switch(self.switch.clone());
        let (vars, places) = (&self.context.vars, self.context.agent_places());
        let git = SupervisedGit::find(supervisor, vars, &places, Handle::current())
            .map_err(CommandError::unavailable)?;
        let git = git.confined(self.confinement.clone(), Vec::new());
        Ok(Repository::discover_with(workspace, private, Arc::new(git), environment(vars))?)
    }

    /// Returns the folder with what git was before any agent worked in a lane.
    pub(super) fn trusted(&self) -> PathBuf {
        self.layout.statuses_git(&self.record.run)
    }

    /// Trusts the configuration of the repository as it is before any agent works in a lane.
    fn trust(&self, repository: &Repository) -> Result<(), CommandError> {
        match self.loaded().config.sandbox.mode {
            SandboxMode::Off => repository.trust_configuration()?,
            SandboxMode::Landlock => repository.trust_as_before(&kept_folder(&self.context))?,
        }
        Ok(())
    }

    /// Makes sure that lanes can be made and merged.
    pub(super) fn prepare(&self, start: LaneStart) -> Result<(), CommandError> {
        let repository = self.open()?;
        repository.check_merges()?;
        if start == LaneStart::New {
            self.trust(&repository)?;
            self.trust(&self.open_at(&self.loaded().config.run.workspace, &self.trusted())?)?;
        }
        let folder = self.record.folder();
        if start == LaneStart::Merging {
            // The working tree may be on its way to a merge.
            return Ok(());
        }
        let changed =
            repository.list_tracked_changes(&folder, &self.own_paths(self.loaded(), &folder))?;
        if changed.is_empty() {
            return Ok(());
        }
        let files = name_first(changed.iter().map(ToString::to_string));
        let at = quote_word(&folder);
        Err(CommandError::config(format!(
            "the run's worktree {} has {} that are not committed, and merges would lose them: {files}",
            folder.display(),
            count(len(&changed), "file")
        ))
        .hinted(format!("`git -C {at} commit -a` keeps them, `git -C {at} stash` puts them aside")))
    }

    /// Returns the files that are the user's to give, in a worktree with this configuration, relative to its top.
    fn own_paths(&self, loaded: &LoadedConfig, folder: &Path) -> Vec<RepoPath> {
        let files = own_files(loaded).into_iter();
        let inside = files.filter_map(|file| file.strip_prefix(folder).ok().map(Path::to_owned));
        inside.map(|path| RepoPath::from_bytes(path.as_os_str().as_bytes())).collect()
    }

    /// Returns the backlog's file, relative to the top of a worktree.
    fn backlog_path(&self) -> Option<RepoPath> {
        let path = self.loaded().config.backlog.as_ref()?.path.as_ref()?;
        let file = self.loaded().config.run.workspace.join(path);
        let inside = file.strip_prefix(self.record.folder()).ok()?;
        Some(RepoPath::from_bytes(inside.as_os_str().as_bytes()))
    }

    fn branch_commit(
        &self,
        repository: &Repository,
        branch: &str,
    ) -> Result<ObjectId, CommandError> {
        repository.find_branch_commit(branch)?.ok_or_else(|| {
            CommandError::config(format!("branch {branch} does not exist any more"))
                .hinted("make it again at the commit where it was: `git reflog` has it; or begin anew with `run --restart`")
        })
    }

    /// Returns where an item is to be worked on: `before` is its lane whose worktree is gone.
    pub(super) fn plan(&self, item: &str, before: Option<&Lane>) -> Result<Lane, CommandError> {
        let repository = self.open()?;
        let slug = to_slug(item);
        let top = self.record.folder();
        let top = top
            .parent()
            .and_then(|all| all.canonicalize().ok())
            .and_then(|all| Some(all.join(top.file_name()?)))
            .unwrap_or(top);
        let inside = self.record.workspace();
        let inside = inside.strip_prefix(self.record.folder()).unwrap_or(Path::new("")).to_owned();
        for number in 1..=MOST_NAMES {
            let name = if number == 1 { slug.clone() } else { format!("{slug}-{number}") };
            let mut folder = top.clone().into_os_string();
            folder.push(format!("-{name}"));
            let folder = PathBuf::from(folder);
            let workspace =
                if inside.as_os_str().is_empty() { folder.clone() } else { folder.join(&inside) };
            let loaded = self.loaded().clone().with_workspace(&workspace);
            let state = state_layout(&loaded, &self.context.state_home())?.root().to_owned();
            let branch = match before {
                Some(lane) => lane.branch.clone(),
                None => format!("{}-{name}", self.record.branch),
            };
            let is_taken = before.is_none() && repository.find_branch_commit(&branch)?.is_some();
            if folder.exists() || state.exists() || is_taken {
                continue;
            }
            let base = match before {
                Some(lane) => lane.base.clone(),
                None => self.branch_commit(&repository, &self.record.branch)?.to_string(),
            };
            let paths = LanePaths { folder, workspace, state };
            return Ok(Lane::new(&paths, branch, base));
        }
        Err(CommandError::config(format!(
            "{MOST_NAMES} folders are called {}-{slug}…; remove some",
            top.display()
        )))
    }

    /// Makes a lane that is not there, or not whole.
    pub(super) fn open_lane(&self, lane: &Lane) -> Result<Vec<String>, CommandError> {
        let repository = self.open()?;
        let LanePaths { folder, workspace, state } = lane.paths();
        let all = folder.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(all)?;
        repository.forget_lost_worktrees(&lane.branch)?;
        let start = match repository.find_branch_commit(&lane.branch)? {
            Some(commit) => commit,
            None => self.parse(&lane.base)?,
        };
        let request = WorktreeRequest {
            path: folder.clone(),
            branch: lane.branch.clone(),
            start: Some(start),
        };
        let outcome = repository.create_worktree(&request)?;
        let has_begun = state.exists();
        let problem = match outcome.is_new || has_begun {
            true => outcome.problem,
            false => repository.repeat_checkout_hook(&outcome.worktree)?,
        };
        if !has_begun {
            self.copy_own_files(&workspace, &folder)?;
        }
        Ok(problem.map(|problem| format!("warning: {problem}")).into_iter().collect())
    }

    /// Copies the prompts and the backlog of the run's worktree, whose commits may have others or none.
    fn copy_own_files(&self, workspace: &Path, folder: &Path) -> Result<(), CommandError> {
        let there = self.loaded().clone().with_workspace(workspace);
        for (from, to) in own_files(self.loaded()).into_iter().zip(own_files(&there)) {
            if from != to && from.is_file() {
                copy_if_other(&from, &to, folder)?;
            }
        }
        Ok(())
    }

    fn parse(&self, commit: &str) -> Result<ObjectId, CommandError> {
        ObjectId::parse(commit)
            .ok_or_else(|| CommandError::internal(format!("{commit:?} is no id of a commit")))
    }

    /// Merges the branches of the run and of a lane into a commit that is on neither.
    pub(super) fn merge(&self, lane: &Lane, item: &BacklogItem) -> Result<LaneMerge, CommandError> {
        let repository = self.open()?;
        let ours = self.branch_commit(&repository, &self.record.branch)?;
        let theirs = self.branch_commit(&repository, &lane.branch)?;
        let bookkeeping = bookkeeping_paths(&self.loaded().config)
            .map_err(|error| CommandError::config(error.to_string()))?;
        let kept: Vec<RepoPath> = self.backlog_path().into_iter().collect();
        let inside = self.record.workspace();
        let inside = inside.strip_prefix(self.record.folder()).unwrap_or(Path::new("")).to_owned();
        let changed = repository.list_differences(&ours, &theirs)?;
        let is_united = |path: &RepoPath| {
            let own = path.as_path().strip_prefix(&inside);
            !kept.contains(path) && own.is_ok_and(|own| bookkeeping.contains(own))
        };
        let united = changed.into_iter().filter(is_united).collect();
        let subject = one_line(&format!("Merge item {}: {}", item.id, item.title), LONGEST_SUBJECT);
        let message = format!("{subject}\n\nRalph-Item: {}\n", one_line(&item.id, 200));
        let request =
            MergeRequest { ours: ours.clone(), theirs: theirs.clone(), kept, united, message };
        let built = repository.build_merge(&request)?;
        Ok(LaneMerge {
            ours: ours.to_string(),
            theirs: theirs.to_string(),
            commit: built.commit.to_string(),
            conflicts: built.conflicts.iter().map(ToString::to_string).collect(),
        })
    }

    /// Returns those of these files that have marks of a conflict in a commit.
    pub(super) fn find_marks(
        &self,
        commit: &str,
        files: &[String],
    ) -> Result<Vec<String>, CommandError> {
        let paths: Vec<RepoPath> = files.iter().filter_map(|file| RepoPath::parse(file)).collect();
        let marked = self.open()?.find_conflict_marks(&self.parse(commit)?, &paths)?;
        Ok(marked.iter().map(ToString::to_string).collect())
    }

    /// Returns where a merge of a lane is proved.
    pub(super) fn proof_folders(&self, lane: &Lane) -> LanePaths {
        let LanePaths { folder, workspace, state } = lane.paths();
        let inside = workspace.strip_prefix(&folder).unwrap_or(Path::new("")).to_owned();
        let mut proof = folder.into_os_string();
        proof.push(PROOF);
        let folder = PathBuf::from(proof);
        let workspace =
            if inside.as_os_str().is_empty() { folder.clone() } else { folder.join(inside) };
        LanePaths { folder, workspace, state }
    }

    /// Checks a commit out where it is proved, with the backlog and the prompts of the run.
    pub(super) fn check_out(&self, lane: &Lane, commit: &str) -> Result<(), CommandError> {
        let LanePaths { folder, workspace, .. } = self.proof_folders(lane);
        self.open()?.create_detached_worktree(&folder, &self.parse(commit)?)?;
        self.copy_own_files(&workspace, &folder)
    }

    /// Removes where merges of a lane are proved.
    pub(super) fn discard_proof(&self, lane: &Lane) -> Result<(), CommandError> {
        Ok(self.open()?.discard_worktree(&self.proof_folders(lane).folder)?)
    }

    /// Moves the run's branch and its worktree to a merge.
    pub(super) fn take(&self, merge: &LaneMerge) -> Result<BranchMove, CommandError> {
        let repository = self.open()?;
        let (ours, commit) = (self.parse(&merge.ours)?, self.parse(&merge.commit)?);
        let now = self.branch_commit(&repository, &self.record.branch)?;
        let head = if now == ours {
            repository.move_branch(&self.record.branch, &ours, &commit)?;
            commit
        } else if repository.is_ancestor(&commit, &now)? {
            now
        } else {
            return Ok(BranchMove::Stale);
        };
        let folder = self.record.folder();
        // A prompt that was copied, and is no commit's.
        let own = self.own_paths(self.loaded(), &folder);
        let dirty = repository.list_tracked_changes(&folder, &[])?;
        let mut without: Vec<RepoPath> =
            own.into_iter().filter(|path| dirty.contains(path)).collect();
        without.extend(self.backlog_path());
        repository.restore_worktree(&folder, &head, &without)?;
        Ok(BranchMove::Done)
    }

    /// Moves a lane's branch and its worktree to a merge.
    pub(super) fn follow(&self, lane: &Lane, merge: &LaneMerge) -> Result<(), CommandError> {
        let repository = self.open()?;
        let commit = self.parse(&merge.commit)?;
        let now = self.branch_commit(&repository, &lane.branch)?;
        if now != commit && repository.is_ancestor(&commit, &now)? {
            return Ok(());
        }
        repository.move_branch(&lane.branch, &self.parse(&merge.theirs)?, &commit)?;
        let LanePaths { folder, workspace, .. } = lane.paths();
        let loaded = self.loaded().clone().with_workspace(&workspace);
        repository.restore_worktree(&folder, &commit, &self.own_paths(&loaded, &folder))?;
        Ok(())
    }

    /// Removes a lane with its branch, which is at this commit, unless something would be lost.
    pub(super) fn close(&self, lane: &Lane, at: &str) -> Result<Option<String>, CommandError> {
        let repository = self.open()?;
        let LanePaths { folder, workspace, .. } = lane.paths();
        repository.discard_worktree(&self.proof_folders(lane).folder)?;
        let home = quote_word(self.loaded().configured_workspace());
        if folder.exists() {
            let loaded = self.loaded().clone().with_workspace(&workspace);
            let own = self.own_paths(&loaded, &folder);
            let own: Vec<PathBuf> = own.iter().map(|path| path.as_path().to_owned()).collect();
            let work = repository.find_worktree_work(&folder, (&lane.branch, &lane.base), &own);
            if !work.is_ok_and(|work| work.uncommitted == Some(0)) {
                let at = quote_word(&folder);
                return Ok(Some(format!(
                    "{} has files that are not committed, and is kept: look at them, then `git -C {home} worktree remove --force \
                     {at}` and `git -C {home} branch -D {}`",
                    folder.display(),
                    lane.branch
                )));
            }
        }
        repository.discard_worktree(&folder)?;
        let deleted = repository.delete_branch(&lane.branch, &self.parse(at)?);
        Ok(deleted.err().map(|error| {
            format!("branch {} is merged and could not be deleted: {error}", lane.branch)
        }))
    }
}

/// Returns a name for branches and folders: what of an id is harmless in both, and a digest if that is not all of it.
fn to_slug(item: &str) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || letter == '_' => letter,
        _ => '-',
    };
    let slug: String = item.chars().map(plain).take(LONGEST_SLUG).collect();
    let slug = slug.trim_matches('-');
    // What a merge is proved in has a name of its own.
    if slug == item && !slug.ends_with(PROOF) && !slug.is_empty() {
        return slug.to_owned();
    }
    let digest = blake3::hash(item.as_bytes()).to_hex();
    let digest = digest.get(..DIGEST).unwrap_or_default();
    if slug.is_empty() { digest.to_owned() } else { format!("{slug}-{digest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_harmless_and_tells_ids_apart() {
        assert_eq!(to_slug("user-auth"), "user-auth");
        assert_eq!(to_slug("7"), "7");
        let [slash, dots, prove] = ["a/b", "a..b", "x-merge"].map(to_slug);
        assert!(slash.starts_with("a-b-") && dots.starts_with("a--b-"), "{slash} {dots}");
        assert_ne!(to_slug("a/b"), to_slug("a:b"));
        assert!(!prove.ends_with(PROOF));
        for id in ["", "../..", "ä", &"x".repeat(200), "-"] {
            let slug = to_slug(id);
            assert!(!slug.is_empty() && slug.len() <= LONGEST_SLUG + DIGEST + 1, "{slug}");
            assert!(!slug.starts_with('-') && !slug.contains('/'), "{slug}");
        }
    }
}
