//! What outside of a workspace decides what git ignores in it: the repository around it, and that one's rules.

use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{self as safe_fs, escape, path_bytes, unescape};
use serde::{Deserialize, Serialize};

use super::git::{GitEnvironment, Repository};
use super::gitignore::RULE_LIMIT;

/// Which repository a workspace is in, and the text of the rules outside of the workspace.
///
/// All of it can be written by an agent. Kept from the time when a run began, it says what git ignored then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OuterRules {
    /// The workspace's path in its repository, escaped; `None` if it is in none.
    inside: Option<String>,
    /// Weakest first.
    files: Vec<OuterRuleFile>,
}

/// A file with rules for a folder around the workspace, or the workspace itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OuterRuleFile {
    /// The workspace's path in that folder, escaped.
    inside: String,
    /// Its lines, without those that are not UTF-8: they hide nothing.
    text: String,
}

impl OuterRules {
    /// Reads the rules for a workspace (absolute, without links) in this repository.
    pub(crate) fn read(
        repository: Option<&Repository>,
        workspace: &Path,
        environment: &GitEnvironment,
        notes: &mut Vec<String>,
    ) -> Self {
        let Some(repository) = repository else { return Self::default() };
        let top = repository.top.as_path();
        let mut rules = Self { inside: Some(path_within(workspace, top)), ..Self::default() };
        if let Some(file) = environment.find_excludes_file(repository, notes) {
            rules.add(top, &file, workspace, notes);
        }
        rules.add(top, &repository.exclude_file(), workspace, notes);
        let around: Vec<&Path> =
            workspace.ancestors().skip(1).take_while(|folder| folder.starts_with(top)).collect();
        for folder in around.into_iter().rev() {
            let file = folder.join(".gitignore");
            if !file.is_symlink() {
                rules.add(folder, &file, workspace, notes);
            }
        }
        rules
    }

    fn add(&mut self, folder: &Path, file: &Path, workspace: &Path, notes: &mut Vec<String>) {
        match safe_fs::read_if_exists(file, RULE_LIMIT) {
            Ok(None) => {}
            Ok(Some(text)) => {
                let lines = text.split(|byte| *byte == b'\n');
                let lines: Vec<&str> =
                    lines.filter_map(|line| std::str::from_utf8(line).ok()).collect();
                let inside = path_within(workspace, folder);
                self.files.push(OuterRuleFile { inside, text: lines.join("\n") });
            }
            Err(error) => {
                notes.push(format!("{}: ignore rules not read: {error}", file.display()));
            }
        }
    }

    /// Returns the top of the repository that a workspace was in; `None` if it was in none, or is no longer in the same
    /// place of it.
    pub(crate) fn top(&self, workspace: &Path) -> Option<PathBuf> {
        let inside = unescape(self.inside.as_ref()?)?;
        let is_there = workspace.ends_with(&inside);
        let top = workspace.ancestors().nth(inside.components().count())?;
        is_there.then(|| top.to_owned())
    }

    /// Returns the text of each file, with the workspace's path in the folder that it is for; weakest first.
    pub(crate) fn files(&self) -> impl Iterator<Item = (PathBuf, &str)> {
        self.files.iter().filter_map(|file| Some((unescape(&file.inside)?, file.text.as_str())))
    }

    /// Returns the workspace's path in its repository; empty if it is in none.
    pub(crate) fn inside(&self) -> PathBuf {
        self.inside.as_deref().and_then(unescape).unwrap_or_default()
    }
}

fn path_within(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).map(escape).unwrap_or_default()
}

/// Returns a path with a `/` at its end unless it is empty.
pub(crate) fn as_prefix(path: &Path) -> Vec<u8> {
    let mut prefix = path_bytes(path).to_vec();
    if !prefix.is_empty() {
        prefix.push(b'/');
    }
    prefix
}
