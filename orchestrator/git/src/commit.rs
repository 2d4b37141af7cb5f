//! Real commits: on the user's branch, with the user's hooks, of what an iteration changed.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::changes::{IterationStart, Selection};
use crate::command::GitCommand;
use crate::error::{GitError, Result, to_message};
use crate::inert_message::make_inert;
use crate::object_id::ObjectId;
use crate::path::{RepoPath, join_nul, split_nul};
use crate::path_digests::PathDigests;
use crate::private::remove_if_there;
use crate::repository::{Head, Repository};
use crate::run_git::GitExit;
use crate::snapshot::SkippedFile;

const RECORD: &str = "commit.json";

/// Where the orchestrator may commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitPolicy {
    /// Branches that get no commit, by their names without `refs/heads/`.
    pub protected_branches: Vec<String>,
}

/// What a request for a commit led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommitOutcome {
    /// The commit; none if there was nothing to commit.
    pub commit: Option<ObjectId>,
    /// Whether it was made now, and not by a request before a crash.
    pub is_new: bool,
    /// What is dirty and was not committed.
    pub skipped: Vec<SkippedFile>,
    /// Keys of the repository's own configuration that say how to sign, and were not followed: an agent can write them.
    pub unused_signing: Vec<String>,
}

/// What was about to be committed, written before `git commit` runs.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommitIntent {
    iteration: u64,
    pub(crate) parent: Option<ObjectId>,
    pub(crate) message: String,
    /// Seconds since 1970, as in the commit: how it is recognised after a crash.
    time: u64,
}

impl CommitIntent {
    pub(crate) fn now(iteration: u64, parent: Option<ObjectId>, message: &str) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { iteration, parent, message: message.to_owned(), time }
    }
}

impl Repository {
    /// Commits what an iteration changed, on the current branch.
    ///
    /// What was dirty or staged before the iteration stays as it is, and what git ignored then. What an earlier commit
    /// that failed would have taken is taken. The user's hooks run, and the
    /// commit is signed if the user's configuration says so. The commit is prepared in an index of the
    /// orchestrator's own: if a hook rejects it, the user's index is not even written. No empty commit
    /// is made. Repeated after a crash, it finishes what was begun. No code host acts on the message.
    ///
    /// # Errors
    ///
    /// Fails, with nothing committed, if HEAD is detached, the branch is protected or another one than when the iteration began, something is in
    /// progress or unmerged, the index is locked, the configuration is not the trusted one, the
    /// iteration's start was not recorded, or a hook, the signature or git fails.
    pub fn commit(
        &self,
        iteration: u64,
        message: &str,
        policy: &CommitPolicy,
    ) -> Result<CommitOutcome> {
        let message = &make_inert(message);
        self.keep_uncommitted(self.try_commit(iteration, message, policy))
            .and_then(|outcome| self.forget_uncommitted().map(|()| outcome))
    }

    fn try_commit(
        &self,
        iteration: u64,
        message: &str,
        policy: &CommitPolicy,
    ) -> Result<CommitOutcome> {
        let _lock = self.lock_to_write()?;
        let (branch, head) = self.find_branch(policy)?;
        let start = self.read_iteration_start(iteration)?;
        match start.head.branch() {
            Some(expected) if expected != branch => {
                let expected = expected.to_owned();
                return Err(GitError::BranchChanged { expected, found: branch });
            }
            _ => self.verify_configuration(&self.workspace)?,
        }
        let earlier = self.finish_earlier_commit(&start, head.as_ref())?;
        let selection = self.select_changes(&start)?;
        if selection.is_empty() {
            let commit = earlier.filter(|(_, earlier)| earlier == message).map(|(id, _)| id);
            let skipped = selection.skipped;
            return Ok(CommitOutcome {
                commit,
                is_new: false,
                skipped,
                unused_signing: Vec::new(),
            });
        }
        self.prepare_index(head.as_ref(), &selection)?;
        let intent = CommitIntent::now(iteration, head, message);
        let commit = self.make_commit(RECORD, &intent, &start.dirty)?;
        let (skipped, unused_signing) = (selection.skipped, self.list_unused_signing()?);
        Ok(CommitOutcome { commit: Some(commit), is_new: true, skipped, unused_signing })
    }

    /// Commits what is prepared in the index of the orchestrator's own, after recording what is about to
    /// be done, and takes it into the user's index but for what is `dirty`.
    pub(crate) fn make_commit(
        &self,
        record: &str,
        intent: &CommitIntent,
        dirty: &PathDigests,
    ) -> Result<ObjectId> {
        self.private.write_record(record, intent)?;
        self.run_commit(record, intent)?;
        let commit = self.find_intended(intent)?.ok_or(GitError::UnexpectedOutput {
            command: "commit".to_owned(),
            expected: "the new commit at HEAD",
        })?;
        let commit = match self.git.confines() {
            true => match self.sign(commit.clone()) {
                Ok(signed) => signed,
                Err(error) => {
                    self.take_back(&commit, intent.parent.as_ref())?;
                    self.discard_intent(record)?;
                    return Err(error);
                }
            },
            false => commit,
        };
        self.update_user_index(&commit, intent.parent.as_ref(), dirty)?;
        remove_if_there(&self.commit_index())?;
        Ok(commit)
    }

    /// Returns the current branch and its commit, if the policy and the repository's state allow another.
    pub(crate) fn find_branch(&self, policy: &CommitPolicy) -> Result<(String, Option<ObjectId>)> {
        if let Some(operation) = self.operation() {
            return Err(GitError::InProgress(operation));
        }
        if let Some(lock) = self.index_lock() {
            return Err(GitError::IndexLocked(lock));
        }
        let (name, commit) = match self.head()? {
            Head::Detached { .. } => return Err(GitError::DetachedHead),
            Head::Unborn { branch } => (branch, None),
            Head::Branch { name, commit } => (name, Some(commit)),
        };
        if policy.protected_branches.contains(&name) {
            return Err(GitError::ProtectedBranch(name));
        }
        self.refuse_linked_commit(&name)?;
        Ok((name, commit))
    }

    /// Brings the user's index in line with a commit that was made before a crash, and returns that
    /// commit and its message.
    pub(crate) fn finish_earlier_commit(
        &self,
        start: &IterationStart,
        head: Option<&ObjectId>,
    ) -> Result<Option<(ObjectId, String)>> {
        let Some(intent) = self.private.read_record::<CommitIntent>(RECORD)? else {
            return Ok(None);
        };
        if intent.iteration != start.iteration {
            self.private.remove_record(RECORD)?;
            return Ok(None);
        }
        if head == intent.parent.as_ref() {
            return Ok(None);
        }
        let Some(commit) = self.find_intended(&intent)? else { return Ok(None) };
        if self.commit_index().exists() {
            self.update_user_index(&commit, intent.parent.as_ref(), &start.dirty)?;
            remove_if_there(&self.commit_index())?;
        }
        Ok(Some((commit, intent.message)))
    }

    /// Returns HEAD's commit if it is the intended one: that parent, and that time.
    pub(crate) fn find_intended(&self, intent: &CommitIntent) -> Result<Option<ObjectId>> {
        let Some(head) = self.resolve("HEAD^{commit}")? else { return Ok(None) };
        let text = self.private_git().args(["cat-file", "commit", head.as_str()]);
        let text = text.read(&*self.git)?;
        let header = text.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
        let (mut parents, mut time) = (Vec::new(), None);
        for line in header {
            let line = String::from_utf8_lossy(line);
            if let Some(parent) = line.strip_prefix("parent ") {
                parents.push(parent.to_owned());
            } else if line.starts_with("committer ") {
                time = line.rsplit(' ').nth(1).and_then(|seconds| seconds.parse::<u64>().ok());
            }
        }
        let expected: Vec<_> = intent.parent.iter().map(ToString::to_string).collect();
        Ok((parents == expected && time == Some(intent.time)).then_some(head))
    }

    /// Makes an index of the orchestrator's own: HEAD's tree with what the iteration changed.
    pub(crate) fn prepare_index(
        &self,
        head: Option<&ObjectId>,
        selection: &Selection,
    ) -> Result<()> {
        let index = self.commit_index();
        remove_if_there(&index)?;
        let user_index = self.user_git().args(["rev-parse", "--path-format=absolute"]);
        let user_index = user_index.args(["--git-path", "index"]).read_path(&*self.git)?;
        copy_index(&user_index, &index)?;
        let command = self.commit_git().arg("read-tree");
        let command = match head {
            // Without an index there is nothing to merge with.
            Some(head) if index.exists() => command.args(["-i", "-m", head.as_str()]),
            Some(head) => command.arg(head.as_str()),
            None => command.arg("--empty"),
        };
        command.read(&*self.git)?;
        for (option, paths) in
            [("--force-remove", &selection.deleted), ("--add", &selection.present)]
        {
            if !paths.is_empty() {
                let command = self.commit_git().args(["update-index", "--replace", option]);
                let command = command.args(["-z", "--stdin"]).stdin(join_nul(paths));
                command.read(&*self.git)?;
            }
        }
        Ok(())
    }

    /// Begins a command on the index of the orchestrator's own.
    fn commit_git(&self) -> GitCommand {
        self.programs_git(&self.workspace)
            .for_hooks(&self.outer)
            .env("GIT_INDEX_FILE", self.commit_index())
    }

    fn run_commit(&self, record: &str, intent: &CommitIntent) -> Result<()> {
        let time = intent.time.to_string();
        // Keys and their agent are out of reach there: it is signed afterwards.
        let unsigned = self.git.confines().then_some("--no-gpg-sign");
        let command = self.commit_git();
        let command = if unsigned.is_none() { self.bound_signing(command)? } else { command };
        let output = command
            .env("GIT_AUTHOR_DATE", &time)
            .env("GIT_COMMITTER_DATE", &time)
            .args(["commit", "--quiet", "--no-status", "--cleanup=whitespace", "-F", "-"])
            .args(unsigned)
            .stdin(intent.message.as_bytes().to_vec())
            .output(&*self.git)?;
        // After the commit exists, git may still fail, in a post-commit step: HEAD decides.
        if output.exit == GitExit::Status(0) || self.find_intended(intent)?.is_some() {
            return Ok(());
        }
        self.discard_intent(record)?;
        let message = to_message(&[output.stderr, output.stdout].concat());
        Err(GitError::CommitFailed { exit: output.exit, message })
    }

    /// Discards what was about to be committed.
    fn discard_intent(&self, record: &str) -> Result<()> {
        self.private.remove_record(record)?;
        remove_if_there(&self.commit_index())
    }

    /// Takes what was committed into the user's index, but for what was dirty before.
    pub(crate) fn update_user_index(
        &self,
        commit: &ObjectId,
        parent: Option<&ObjectId>,
        dirty: &PathDigests,
    ) -> Result<()> {
        let command = self.private_git().args(["diff-tree", "-r", "-z", "--raw", "--no-renames"]);
        let command = match parent {
            Some(parent) => command.args([parent.as_str(), commit.as_str()]),
            None => command.args(["--root", "--no-commit-id", commit.as_str()]),
        };
        let output = command.read(&*self.git)?;
        let prefix = self.workspace_prefix();
        let mut entries = Vec::new();
        let mut records = split_nul(&output);
        while let (Some(record), Some(path)) = (records.next(), records.next()) {
            let below = path.strip_prefix(prefix.as_slice()).map(RepoPath::from_bytes);
            if below.is_some_and(|below| dirty.contains(&below)) {
                continue;
            }
            let mut fields = record.split(|byte| *byte == b' ');
            if let (Some(mode), Some(id)) = (fields.nth(1), fields.nth(1)) {
                entries.extend_from_slice(&[mode, b" ", id, b"\t", path, b"\0"].concat());
            }
        }
        let begin = || {
            // The user's cache of untracked files stays in the index that is written.
            let command = self.programs_git(&self.top_level).for_hooks(&self.outer);
            command.configure("core.untrackedCache", "keep")
        };
        let command = begin().args(["update-index", "-z", "--index-info"]).stdin(entries);
        command.read(&*self.git)?;
        // Files that differ from the index make this exit with 1, which is no failure.
        begin().args(["update-index", "-q", "--refresh"]).output(&*self.git).map(drop)
    }
}

/// Copies an index, if there is one; its entries spare git reading files that are unchanged.
///
/// The copy gets the original's time: by it git recognises files that were changed so soon after they
/// were staged that their own time does not show it.
fn copy_index(from: &Path, to: &Path) -> Result<()> {
    let mut source = match File::open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(GitError::io(from, error)),
    };
    let copy = |source: &mut File| {
        let mut target = File::create_new(to)?;
        io::copy(source, &mut target)?;
        target.set_modified(source.metadata()?.modified()?)
    };
    copy(&mut source).map_err(|error| GitError::io(to, error))
}
