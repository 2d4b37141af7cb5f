//! Checkpoints: the workspace under refs of the orchestrator's own, and nothing else touched.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::checkpoint_name::{CheckpointName, RunRef};
use crate::command::{GitCommand, parse_object_id};
use crate::error::{GitError, Result, to_message};
use crate::left_out;
use crate::object_id::ObjectId;
use crate::private::remove_if_there;
use crate::repository::Repository;
use crate::run_git::GitExit;
use crate::snapshot::{SkippedFile, Snapshot};

/// A checkpoint that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checkpoint {
    /// Which one.
    pub name: CheckpointName,
    /// Its commit. The first parent is the checkpoint before it, the last one HEAD at that moment.
    pub commit: ObjectId,
    /// The workspace's files, with the workspace as the root.
    pub tree: ObjectId,
    /// When it was made, in seconds since 1970.
    pub time: i64,
    /// The first line of its message. Whoever writes the ref decides it: escape it before it is shown.
    pub subject: String,
    /// What of the workspace is not in it, ignored files aside: whether that existed then is all that is known of it.
    pub left_out: Vec<SkippedFile>,
}

/// What a request for a checkpoint led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckpointOutcome {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Whether it is new; otherwise it existed already with these files.
    pub is_new: bool,
    /// What of the workspace is not in it, ignored files aside.
    pub skipped: Vec<SkippedFile>,
}

impl Repository {
    /// Stores the workspace's files, byte by byte, under `refs/ralph/<run>/<iteration>`. Its message names what is left out.
    ///
    /// Neither HEAD, branches, reflogs, the user's index nor any file is changed, and no hook, filter
    /// or other program is executed. Ignored files, secrets, files larger than the policy allows and
    /// the content of submodules are left out. If the checkpoint exists with the same files, it is
    /// returned; with other files, a new commit on top of it takes its place.
    ///
    /// # Errors
    ///
    /// Fails if git does, or another operation of this run is active.
    pub fn checkpoint(
        &self,
        run: &RunRef,
        iteration: u64,
        message: &str,
    ) -> Result<CheckpointOutcome> {
        let _lock = self.lock_to_write()?;
        let snapshot = self.take_snapshot()?;
        self.add_ignored()?;
        self.store_checkpoint(run, CheckpointName::Iteration(iteration), snapshot, message)
    }

    /// Takes the checkpoints of a run from a record of their commits, not from refs: an agent can set those.
    /// What is no object's id is left out.
    #[must_use]
    pub fn with_recorded_checkpoints(
        mut self,
        recorded: impl IntoIterator<Item = (CheckpointName, String)>,
    ) -> Self {
        let parse = |(name, id): (_, String)| Some((name, parse_object_id(&id, "record").ok()?));
        self.recorded = Some(recorded.into_iter().filter_map(parse).collect());
        self
    }

    /// Returns the recorded checkpoints whose ref names another commit now, with that commit, or none if the ref is
    /// gone.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn list_moved_refs(&self, run: &RunRef) -> Result<Vec<(String, Option<ObjectId>)>> {
        let Some(recorded) = &self.recorded else { return Ok(Vec::new()) };
        let refs = self.list_refs(run)?;
        let named = |name| refs.iter().find(|entry| entry.name == name).map(|entry| &entry.commit);
        let moved = recorded.iter().filter(|(name, commit)| named(**name) != Some(*commit));
        Ok(moved.map(|(name, _)| (name.reference(run), named(*name).cloned())).collect())
    }

    /// Returns a run's checkpoints: iterations in order, then those before rollbacks.
    ///
    /// # Errors
    ///
    /// Fails if git does.
    pub fn list_checkpoints(&self, run: &RunRef) -> Result<Vec<Checkpoint>> {
        match &self.recorded {
            Some(recorded) => self.read_recorded(recorded),
            None => self.list_refs(run),
        }
    }

    /// Reads the recorded commits that exist.
    fn read_recorded(
        &self,
        recorded: &BTreeMap<CheckpointName, ObjectId>,
    ) -> Result<Vec<Checkpoint>> {
        let mut checkpoints = Vec::new();
        for (name, commit) in recorded {
            let content = self.private_git().args(["cat-file", "commit", commit.as_str()]);
            let Ok(content) = content.read_if(&*self.git)? else { continue };
            if let Some(checkpoint) = parse_commit(*name, commit, &content) {
                checkpoints.push(checkpoint);
            }
        }
        Ok(checkpoints)
    }

    /// Makes sure that the objects of a recorded checkpoint are those that were stored: git does not compare an object
    /// with its id when it reads one. Of contents those are compared that the tree `but` does not have.
    ///
    /// # Errors
    ///
    /// Fails with [`GitError::ForgedObjects`] if they are not, or if git fails.
    pub fn verify_checkpoint(&self, checkpoint: &Checkpoint, but: Option<&ObjectId>) -> Result<()> {
        let Checkpoint { commit, tree, .. } = checkpoint;
        let forged = |message: String| GitError::ForgedObjects {
            checkpoint: checkpoint.name.to_string(),
            message,
        };
        let content = self.private_git().args(["cat-file", "commit", commit.as_str()]);
        let content = content.read(&*self.git)?;
        let hash = self.private_git().args(["hash-object", "-t", "commit", "--stdin"]);
        if hash.stdin(content).read_text(&*self.git)? != commit.as_str() {
            return Err(forged(format!("commit {commit}")));
        }
        match self.rebuild_tree(tree) {
            Ok(rebuilt) if rebuilt == *tree => {}
            Ok(_) => return Err(forged(format!("a folder of tree {tree}"))),
            // Some of its commands compare what they read.
            Err(GitError::Failed { message, .. }) => return Err(forged(message)),
            Err(error) => return Err(error),
        }
        let verify = self.private_git().args(["rev-list", "--objects", "--verify-objects"]);
        let verify = verify.arg("--no-object-names").arg(tree.as_str());
        let verify = but.iter().fold(verify, |git, but| git.arg(format!("^{but}")));
        // It reports such an object, and succeeds.
        let output = verify.output(&*self.git)?;
        match output.exit == GitExit::Status(0) && output.stderr.is_empty() {
            true => Ok(()),
            false => Err(forged(to_message(&output.stderr))),
        }
    }

    /// Computes the id of a tree anew from the files that it lists.
    fn rebuild_tree(&self, tree: &ObjectId) -> Result<ObjectId> {
        let index = self.private.rollback_index();
        remove_if_there(&index)?;
        let listed = self.private_git().args(["ls-tree", "-r", "-z", "--full-tree", tree.as_str()]);
        let listed = listed.read(&*self.git)?;
        let git = || self.private_git().env("GIT_INDEX_FILE", &index);
        let add = git().args(["update-index", "--add", "-z", "--index-info"]);
        add.stdin(listed).read(&*self.git)?;
        let rebuilt = git().args(["write-tree", "--missing-ok"]).read_text(&*self.git)?;
        remove_if_there(&index)?;
        parse_object_id(&rebuilt, "write-tree")
    }

    /// Returns the checkpoints that the run's refs name.
    pub(crate) fn list_refs(&self, run: &RunRef) -> Result<Vec<Checkpoint>> {
        let fields = "%(refname)%00%(objectname)%00%(tree)%00%(committerdate:unix)%00%(subject)%00%(body)%00";
        let command = self.user_git().arg("for-each-ref").arg(format!("--format={fields}"));
        let output = command.arg(run.folder()).read(&*self.git)?;
        let text = String::from_utf8_lossy(&output);
        let fields: Vec<&str> = text.split('\0').collect();
        let mut checkpoints: Vec<_> =
            fields.chunks_exact(6).filter_map(|fields| parse_checkpoint(fields, run)).collect();
        checkpoints.sort_by_key(|checkpoint| checkpoint.name);
        Ok(checkpoints)
    }

    /// Returns one checkpoint of a run.
    ///
    /// # Errors
    ///
    /// Fails with [`GitError::NoCheckpoint`] if it does not exist, or if git fails.
    pub fn find_checkpoint(&self, run: &RunRef, name: CheckpointName) -> Result<Checkpoint> {
        let found = self.list_checkpoints(run)?.into_iter().find(|entry| entry.name == name);
        found.ok_or_else(|| GitError::NoCheckpoint(name.to_string()))
    }

    /// Gives a snapshot its commit and its ref. The caller holds the private folder's lock.
    pub(crate) fn store_checkpoint(
        &self,
        run: &RunRef,
        name: CheckpointName,
        snapshot: Snapshot,
        message: &str,
    ) -> Result<CheckpointOutcome> {
        let existing = self.list_refs(run)?;
        let same = existing.iter().find(|entry| entry.name == name);
        if let Some(same) = same
            && same.tree == snapshot.tree
            && same.left_out == snapshot.left_out()
        {
            let (checkpoint, skipped) = (same.clone(), snapshot.skipped);
            return Ok(CheckpointOutcome { checkpoint, is_new: false, skipped });
        }
        let before = existing.iter().rfind(|entry| entry.name < name);
        let mut parents: Vec<ObjectId> =
            same.or(before).map(|entry| entry.commit.clone()).into_iter().collect();
        if let Some(head) = self.resolve("HEAD^{commit}")?
            && !parents.contains(&head)
        {
            parents.push(head);
        }
        let message = left_out::add_section(message, &snapshot.left_out());
        let commit = self.write_commit(&snapshot.tree, &parents, &message)?;
        let old = same.map(|entry| &entry.commit);
        self.set_ref(&name.reference(run), &commit, old)?;
        let found = self.list_refs(run)?.into_iter().find(|entry| entry.name == name);
        let checkpoint = found.ok_or_else(|| GitError::NoCheckpoint(name.to_string()))?;
        Ok(CheckpointOutcome { checkpoint, is_new: true, skipped: snapshot.skipped })
    }

    fn write_commit(
        &self,
        tree: &ObjectId,
        parents: &[ObjectId],
        message: &str,
    ) -> Result<ObjectId> {
        let (name, email) = self.identity()?;
        let mut command = self
            .private_git()
            .env("GIT_AUTHOR_NAME", &name)
            .env("GIT_AUTHOR_EMAIL", &email)
            .env("GIT_COMMITTER_NAME", &name)
            .env("GIT_COMMITTER_EMAIL", &email)
            .args(["commit-tree", tree.as_str()]);
        for parent in parents {
            command = command.args(["-p", parent.as_str()]);
        }
        let commit = command.args(["-F", "-"]).stdin(message.as_bytes().to_vec());
        parse_object_id(&commit.read_text(&*self.git)?, "commit-tree")
    }

    /// Returns name and address from the user's configuration, or the orchestrator's if it has none.
    fn identity(&self) -> Result<(String, String)> {
        let found = self.user_git().args(["var", "GIT_COMMITTER_IDENT"]).read_if(&*self.git)?;
        let text = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let parts = text.as_deref().ok().and_then(|text| {
            let (name, rest) = text.split_once(" <")?;
            let (email, _) = rest.split_once('>')?;
            Some((name.to_owned(), email.to_owned()))
        });
        let fallback = ("ralph-orchestrator", "ralph-orchestrator@localhost");
        Ok(parts.unwrap_or_else(|| (fallback.0.to_owned(), fallback.1.to_owned())))
    }

    /// Sets a ref of the orchestrator's own if it still has the old value; without hooks or reflog.
    fn set_ref(&self, name: &str, new: &ObjectId, old: Option<&ObjectId>) -> Result<()> {
        self.refuse_links(name)?;
        self.remove_left_lock(name)?;
        let zero = "0".repeat(new.as_str().len());
        let command = self.hookless_git()?.configure("core.logAllRefUpdates", "false");
        let old = old.map_or(zero.as_str(), ObjectId::as_str);
        let command = command.args(["update-ref", "--no-deref", name, new.as_str(), old]);
        command.read(&*self.git).map(drop)
    }

    /// Begins a command in the user's repository that runs no hook.
    pub(crate) fn hookless_git(&self) -> Result<GitCommand> {
        let mut command = self.user_git().configure("core.hooksPath", "/dev/null");
        for hook in self.list_configured_hooks()? {
            command = command.configure(format!("hook.{hook}.enabled"), "false");
        }
        Ok(command)
    }

    /// Returns the names of hooks that newer versions of git read from the configuration.
    fn list_configured_hooks(&self) -> Result<Vec<String>> {
        let command = self.user_git().args(["config", "-z", "--name-only", "--get-regexp"]);
        let keys = command.arg(r"^hook\.").read_optional(&*self.git)?.unwrap_or_default();
        let mut hooks: Vec<String> = crate::path::split_nul(&keys)
            .filter_map(|key| {
                let key = String::from_utf8_lossy(key);
                let (name, _) = key.strip_prefix("hook.")?.rsplit_once('.')?;
                Some(name.to_owned())
            })
            .collect();
        hooks.dedup();
        Ok(hooks)
    }
}

/// Reads the content of a commit.
fn parse_commit(name: CheckpointName, commit: &ObjectId, content: &[u8]) -> Option<Checkpoint> {
    let text = String::from_utf8_lossy(content);
    let (head, message) = text.split_once("\n\n")?;
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let tree = parse_object_id(field("tree ")?, "cat-file").ok()?;
    let time = field("committer ")?.rsplit(' ').nth(1)?.parse().ok()?;
    let (subject, body) = message.split_once('\n').unwrap_or((message, ""));
    let (subject, left_out) = (subject.to_owned(), left_out::parse_section(body));
    Some(Checkpoint { name, commit: commit.clone(), tree, time, subject, left_out })
}

fn parse_checkpoint(fields: &[&str], run: &RunRef) -> Option<Checkpoint> {
    let [name, commit, tree, time, subject, body] = fields else { return None };
    let name = CheckpointName::parse(name.trim_start().strip_prefix(&run.folder())?)?;
    let commit = parse_object_id(commit, "for-each-ref").ok()?;
    // Only commits have a tree: a ref to anything else is none of ours.
    let tree = parse_object_id(tree, "for-each-ref").ok()?;
    let (time, subject) = (time.parse().ok()?, (*subject).to_owned());
    let left_out = left_out::parse_section(body);
    Some(Checkpoint { name, commit, tree, time, subject, left_out })
}
