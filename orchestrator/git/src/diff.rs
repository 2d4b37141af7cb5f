//! What differs between two trees: files with counts of lines, and a bounded patch.

use serde::Serialize;

use crate::command::parse_object_id;
use crate::error::{GitError, Result};
use crate::object_id::ObjectId;
use crate::path::{RepoPath, split_nul};
use crate::repository::Repository;

/// One end of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffEnd {
    /// Nothing at all.
    Empty,
    /// A tree or commit, such as a checkpoint's.
    Tree(ObjectId),
    /// The workspace as it is now, as far as a checkpoint would take it.
    Workspace,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    /// It is only in the second tree.
    Added,
    /// It is only in the first tree.
    Deleted,
    /// Its content differs, or its executable bit.
    Modified,
    /// It is a regular file in one tree and a symbolic link in the other.
    TypeChanged,
}

/// A file that differs. A renamed file is a deleted and an added one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its path, relative to the workspace.
    pub path: RepoPath,
    /// How it differs.
    pub status: FileStatus,
    /// How many lines were added; nothing for binary files.
    pub added: Option<u64>,
    /// How many lines were removed; nothing for binary files.
    pub removed: Option<u64>,
}

/// What differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// The files, in order of their paths.
    pub files: Vec<FileChange>,
    /// The patch as git prints it, in any bytes: escape it before it is shown.
    #[serde(skip)]
    pub patch: Vec<u8>,
    /// Whether the patch is longer than was requested.
    pub is_patch_truncated: bool,
}

impl Repository {
    /// Compares two trees, without any diff driver, text conversion or other program.
    ///
    /// `max_patch_bytes` bounds the patch; with 0 none is made.
    ///
    /// # Errors
    ///
    /// Fails if git does, a tree does not exist, or, for [`DiffEnd::Workspace`], another operation of
    /// this run is active.
    pub fn diff(&self, from: &DiffEnd, to: &DiffEnd, max_patch_bytes: usize) -> Result<Diff> {
        let (from, to) = (self.resolve_end(from)?, self.resolve_end(to)?);
        let files = self.list_changes(&from, &to)?;
        if max_patch_bytes == 0 || files.is_empty() {
            let is_patch_truncated = !files.is_empty();
            return Ok(Diff { files, patch: Vec::new(), is_patch_truncated });
        }
        let output = self
            .diff_tree(&["-p", "--full-index"], &from, &to)
            .max_output(max_patch_bytes)
            .output(&*self.git)?;
        if output.exit != crate::run_git::GitExit::Status(0) && !output.is_truncated {
            return Err(GitError::Failed {
                command: "diff-tree".to_owned(),
                exit: output.exit,
                message: crate::error::to_message(&output.stderr),
            });
        }
        Ok(Diff { files, patch: output.stdout, is_patch_truncated: output.is_truncated })
    }

    fn resolve_end(&self, end: &DiffEnd) -> Result<ObjectId> {
        match end {
            DiffEnd::Tree(tree) => Ok(tree.clone()),
            DiffEnd::Workspace => {
                let _lock = self.lock()?;
                Ok(self.take_snapshot()?.tree)
            }
            DiffEnd::Empty => {
                let command = self.private_git().args(["hash-object", "-w", "-t", "tree"]);
                let tree = command.arg("--stdin").read_text(&*self.git)?;
                parse_object_id(&tree, "hash-object")
            }
        }
    }

    fn diff_tree(
        &self,
        options: &[&str],
        from: &ObjectId,
        to: &ObjectId,
    ) -> crate::command::GitCommand {
        let fixed = ["diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let command = self.private_git().args(fixed).arg("--no-color");
        command.args(options.iter().copied()).args([from.as_str(), to.as_str()])
    }

    /// Returns what differs between two trees.
    pub(crate) fn list_changes(&self, from: &ObjectId, to: &ObjectId) -> Result<Vec<FileChange>> {
        let output = self.diff_tree(&["-z", "--raw", "--numstat"], from, to).read(&*self.git)?;
        parse_changes(&output).ok_or_else(|| GitError::UnexpectedOutput {
            command: "diff-tree".to_owned(),
            expected: "raw and numstat records",
        })
    }
}

/// Reads records `:modes ids status NUL path NUL`, then `added TAB removed TAB path NUL`.
fn parse_changes(output: &[u8]) -> Option<Vec<FileChange>> {
    let mut files: Vec<FileChange> = Vec::new();
    let mut counts = std::collections::BTreeMap::new();
    let mut records = split_nul(output);
    while let Some(record) = records.next() {
        if record.starts_with(b":") {
            let status = match record.rsplit(|byte| *byte == b' ').next()?.first()? {
                b'A' => FileStatus::Added,
                b'D' => FileStatus::Deleted,
                b'T' => FileStatus::TypeChanged,
                _ => FileStatus::Modified,
            };
            let path = RepoPath::from_bytes(records.next()?);
            files.push(FileChange { path, status, added: None, removed: None });
        } else {
            let mut fields = record.splitn(3, |byte| *byte == b'\t');
            let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<u64>().ok();
            let (added, removed) = (number(), number());
            counts.insert(fields.next()?, (added, removed));
        }
    }
    for file in &mut files {
        if let Some(count) = counts.get(file.path.as_bytes()) {
            (file.added, file.removed) = *count;
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_any_bytes_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_changes(&bytes);
        }
    }

    #[test]
    fn reads_a_path_that_looks_like_a_record() {
        let output = b":100644 100644 a b M\0:100644 x\tA\n\x003\t-\t:100644 x\tA\n\0";
        let files = parse_changes(output).unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].path.as_bytes(), b":100644 x\tA\n");
        assert_eq!((files[0].added, files[0].removed), (Some(3), None));
    }
}
