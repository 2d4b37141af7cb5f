//! Reads the history of somebody's repository and changes nothing in it: its commits, their messages and files, and a
//! copy of the history up to one of them.
//!
//! Only what finds the repository runs in it. All else runs in a git directory of the reader's own, which borrows the
//! objects: so no configuration, filter or hook of the repository has a say, and no file is written beside it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::command::{GitCommand, parse_object_id};
use crate::error::{GitError, Result};
use crate::export::write_tree;
use crate::object_id::ObjectId;
use crate::path::RepoPath;
use crate::private::ATTRIBUTES;
use crate::repository::{check_git, explain};
use crate::run_git::RunGit;

/// The branch of a copied history.
const BRANCH: &str = "main";
/// Messages of merged commits that are read.
const MOST_MERGED: &str = "50";

/// A repository whose history is read.
pub struct HistoryReader {
    git: Arc<dyn RunGit>,
    outer: BTreeMap<OsString, OsString>,
    scratch: PathBuf,
    head: ObjectId,
    branch: Option<String>,
    format: String,
    is_shallow: bool,
}

/// A commit of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCommit {
    /// The commit.
    pub id: ObjectId,
    /// Its parents; none where the history begins, or is cut off.
    pub parents: Vec<ObjectId>,
    /// When it was committed, in seconds since 1970.
    pub committed: i64,
}

/// A file that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeChange {
    /// Where it is.
    pub path: RepoPath,
    /// What is there before; none if nothing is.
    pub before: Option<EntryKind>,
    /// What is there after; none if nothing is.
    pub after: Option<EntryKind>,
}

/// What is at a path of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file, executable or not.
    File,
    /// A symbolic link.
    Link,
    /// A commit of another repository.
    Submodule,
}

impl HistoryReader {
    /// Finds the repository of a folder, which may be bare or have a working tree. `scratch` is an existing folder of
    /// the reader's own; what it needs is made there.
    ///
    /// # Errors
    /// Fails if git is too old, there is no repository, git distrusts its owner, or it has no commit.
    pub fn open(
        folder: &Path,
        scratch: &Path,
        git: Arc<dyn RunGit>,
        outer: BTreeMap<OsString, OsString>,
    ) -> Result<Self> {
        let folder = folder.canonicalize().map_err(|error| GitError::io(folder, error))?;
        let scratch = scratch.canonicalize().map_err(|error| GitError::io(scratch, error))?;
        check_git(&folder, &*git, &outer)?;
        let begin = |words: &[&str]| {
            let command = GitCommand::new(&folder, &outer).arg("rev-parse");
            command.arg("--path-format=absolute").args(words.iter().copied())
        };
        let facts = begin(&["--is-shallow-repository", "--show-object-format"]);
        let facts = facts.read_if(&*git)?.map_err(|error| explain(&folder, error))?;
        let facts = String::from_utf8_lossy(&facts).into_owned();
        let mut facts = facts.lines();
        let is_shallow = facts.next() == Some("true");
        let format = facts.next().unwrap_or("sha1").to_owned();
        let head = begin(&["--quiet", "--verify", "HEAD^{commit}"]).read_optional(&*git)?;
        let head = head.and_then(|id| ObjectId::from_hex(&String::from_utf8_lossy(&id)));
        let head = head.ok_or_else(|| GitError::EmptyRepository(folder.clone()))?;
        let branch = GitCommand::new(&folder, &outer).args(["symbolic-ref", "--quiet", "HEAD"]);
        let branch = branch.read_optional(&*git)?.map(|name| {
            let name = String::from_utf8_lossy(&name).into_owned();
            name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()
        });
        let [objects, cut] = ["objects", "shallow"].map(|name| begin(&["--git-path", name]));
        let (objects, cut) = (objects.read_path(&*git)?, cut.read_path(&*git)?);
        let reader = Self { git, outer, scratch, head, branch, format, is_shallow };
        reader.borrow_objects(&objects, &cut)?;
        Ok(reader)
    }

    /// Returns the commit that is checked out, or would be.
    pub fn head(&self) -> &ObjectId {
        &self.head
    }

    /// Returns the branch that is checked out; none if HEAD is detached.
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// Whether the history is cut off.
    pub fn is_shallow(&self) -> bool {
        self.is_shallow
    }

    /// Makes the git directory of the reader's own.
    fn borrow_objects(&self, objects: &Path, cut: &Path) -> Result<()> {
        let own = self.own();
        self.create_repository(&own)?;
        let mut alternate = objects.as_os_str().as_encoded_bytes().to_vec();
        alternate.push(b'\n');
        for (path, bytes) in [
            (own.join("objects/info/alternates"), alternate),
            (own.join("info/attributes"), ATTRIBUTES.into()),
        ] {
            write(&path, &bytes)?;
        }
        if self.is_shallow {
            let bytes = fs::read(cut).map_err(|error| GitError::io(cut, error))?;
            write(&own.join("shallow"), &bytes)?;
        }
        Ok(())
    }

    fn own(&self) -> PathBuf {
        self.scratch.join("git")
    }

    /// Begins a command in a git directory that this reader made.
    fn in_git_dir(&self, git_dir: &Path) -> GitCommand {
        let command = GitCommand::new(&self.scratch, &self.outer);
        command.in_private(git_dir, &self.scratch, &git_dir.join("objects"))
    }

    fn create_repository(&self, git_dir: &Path) -> Result<()> {
        let init = self.in_git_dir(git_dir).unset("GIT_WORK_TREE").unset("GIT_OBJECT_DIRECTORY");
        let init = init.args(["init", "--quiet", "--bare", "--template="]);
        init.arg(format!("--object-format={}", self.format)).read(&*self.git)?;
        let info = git_dir.join("info");
        fs::create_dir_all(&info).map_err(|error| GitError::io(&info, error))
    }

    /// Returns the commits of the branch, by first parents, the newest first.
    ///
    /// # Errors
    /// Fails if git does.
    pub fn list_commits(&self) -> Result<Vec<ListedCommit>> {
        let walk = ["rev-list", "--first-parent", "--parents", "--timestamp", self.head.as_str()];
        let text = self.in_git_dir(&self.own()).args(walk).arg("--").read_text(&*self.git)?;
        text.lines().map(read_commit).collect()
    }

    /// Returns the message of a commit, in UTF-8 as far as its encoding is known.
    ///
    /// # Errors
    /// Fails if git does.
    pub fn read_message(&self, commit: &ObjectId) -> Result<String> {
        let log = self.log().args(["--max-count=1", "--format=%B", commit.as_str(), "--"]);
        Ok(String::from_utf8_lossy(&log.read(&*self.git)?).into_owned())
    }

    /// Returns the messages of the commits that a merge brings to `base`, the oldest first; merges among them are left
    /// out.
    ///
    /// # Errors
    /// Fails if git does.
    pub fn read_merged_messages(&self, base: &ObjectId, merge: &ObjectId) -> Result<Vec<String>> {
        let log = self.log().args(["--reverse", "--no-merges", "--format=%B%x00"]);
        let log = log.arg(format!("--max-count={MOST_MERGED}")).arg(merge.as_str());
        let text = log.args(["--not", base.as_str(), "--"]).read(&*self.git)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(text.split('\0').map(|part| part.trim().to_owned()).filter(|p| !p.is_empty()).collect())
    }

    fn log(&self) -> GitCommand {
        self.in_git_dir(&self.own()).args(["log", "--no-color", "--encoding=UTF-8"])
    }

    /// Returns the files that differ between two commits. A renamed file is one that is gone and one that is new.
    ///
    /// # Errors
    /// Fails if git does.
    pub fn list_changes(&self, from: &ObjectId, to: &ObjectId) -> Result<Vec<TreeChange>> {
        let diff = ["diff-tree", "-r", "-z", "--raw", "--no-renames", from.as_str(), to.as_str()];
        read_changes(&self.in_git_dir(&self.own()).args(diff).arg("--").read(&*self.git)?)
    }

    /// Writes files of a commit below an absolute path, byte by byte: all of them, or those with these paths.
    ///
    /// # Errors
    /// Fails if git does, or a path is not in the tree.
    pub fn write_files(
        &self,
        commit: &ObjectId,
        paths: Option<&[RepoPath]>,
        folder: &Path,
    ) -> Result<()> {
        let index = self.scratch.join("index");
        let begin = || self.in_git_dir(&self.own());
        write_tree(&*self.git, &begin, &index, (commit, paths, folder))
    }

    /// Makes `git_dir` a repository with the history up to a commit and nothing else: one branch, one pack with what the
    /// commit reaches, the index, no remote and no reflog.
    ///
    /// # Errors
    /// Fails if git does, or objects are missing, as in a partial clone.
    pub fn write_history(&self, commit: &ObjectId, git_dir: &Path) -> Result<()> {
        self.create_repository(git_dir)?;
        let pack = self.in_git_dir(&self.own()).args(["pack-objects", "--quiet", "--revs"]);
        let pack = pack.arg(git_dir.join("objects/pack/pack"));
        pack.stdin(format!("{commit}\n").into()).read(&*self.git)?;
        write(&git_dir.join("refs/heads").join(BRANCH), format!("{commit}\n").as_bytes())?;
        write(&git_dir.join("HEAD"), format!("ref: refs/heads/{BRANCH}\n").as_bytes())?;
        write(&git_dir.join("config"), self.configuration().as_bytes())?;
        if self.is_shallow {
            self.copy_cuts(git_dir)?;
        }
        self.in_git_dir(git_dir).args(["read-tree", commit.as_str()]).read(&*self.git)?;
        Ok(())
    }

    fn configuration(&self) -> String {
        let (version, extension) = match self.format.as_str() {
            "sha1" => (0, String::new()),
            other => (1, format!("[extensions]\n\tobjectFormat = {other}\n")),
        };
        format!(
            "[core]\n\trepositoryFormatVersion = {version}\n\tfileMode = true\n\tbare = false\n{extension}"
        )
    }

    /// Writes where a copied history is cut off: the other cuts would name commits that it does not have.
    fn copy_cuts(&self, git_dir: &Path) -> Result<()> {
        let path = self.own().join("shallow");
        let text = fs::read_to_string(&path).map_err(|error| GitError::io(&path, error))?;
        let cuts: Vec<&str> = text.lines().collect();
        let is_there = self.find_objects(git_dir, &cuts)?;
        let kept = cuts.iter().zip(is_there).filter(|(_, is_there)| *is_there);
        let kept: String = kept.map(|(cut, _)| format!("{cut}\n")).collect();
        if kept.is_empty() { Ok(()) } else { write(&git_dir.join("shallow"), kept.as_bytes()) }
    }

    /// Returns which of these hexadecimal words begin the id of an object of the repository that a copied history does not
    /// have.
    ///
    /// # Errors
    /// Fails if git does.
    pub fn find_later_objects(&self, git_dir: &Path, words: &[&str]) -> Result<Vec<bool>> {
        let known = self.find_objects(&self.own(), words)?;
        let copied = self.find_objects(git_dir, words)?;
        Ok(known.into_iter().zip(copied).map(|(known, copied)| known && !copied).collect())
    }

    /// Returns which of these words name an object, or several.
    fn find_objects(&self, git_dir: &Path, words: &[&str]) -> Result<Vec<bool>> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let stdin = words.iter().map(|word| format!("{word}\n")).collect::<String>();
        let check = self.in_git_dir(git_dir).args(["cat-file", "--batch-check"]);
        let text = check.stdin(stdin.into_bytes()).read_text(&*self.git)?;
        let found: Vec<bool> = text.lines().map(|line| !line.ends_with(" missing")).collect();
        match found.len() == words.len() {
            true => Ok(found),
            false => Err(GitError::UnexpectedOutput {
                command: "cat-file".to_owned(),
                expected: "a line for each object",
            }),
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|error| GitError::io(path, error))
}

/// Reads a line of `rev-list --parents --timestamp`.
fn read_commit(line: &str) -> Result<ListedCommit> {
    let unexpected = || GitError::UnexpectedOutput {
        command: "rev-list".to_owned(),
        expected: "a time and ids of commits",
    };
    let mut words = line.split(' ');
    let committed = words.next().and_then(|word| word.parse().ok()).ok_or_else(unexpected)?;
    let mut ids = words.map(|word| parse_object_id(word, "rev-list"));
    let id = ids.next().ok_or_else(unexpected)??;
    Ok(ListedCommit { id, parents: ids.collect::<Result<_>>()?, committed })
}

/// Reads what `diff-tree -z --raw` prints.
fn read_changes(bytes: &[u8]) -> Result<Vec<TreeChange>> {
    let unexpected = || GitError::UnexpectedOutput {
        command: "diff-tree".to_owned(),
        expected: "modes and a path for each file",
    };
    let mut changes = Vec::new();
    let mut parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    while let Some(modes) = parts.next() {
        let modes = std::str::from_utf8(modes).ok().and_then(|text| text.strip_prefix(':'));
        let mut modes = modes.ok_or_else(unexpected)?.split(' ');
        let (Some(before), Some(after), Some(path)) = (modes.next(), modes.next(), parts.next())
        else {
            return Err(unexpected());
        };
        changes.push(TreeChange {
            path: RepoPath::from_bytes(path),
            before: EntryKind::from_mode(before),
            after: EntryKind::from_mode(after),
        });
    }
    Ok(changes)
}

impl EntryKind {
    fn from_mode(mode: &str) -> Option<Self> {
        match mode {
            "000000" => None,
            "120000" => Some(Self::Link),
            "160000" => Some(Self::Submodule),
            _ => Some(Self::File),
        }
    }
}
