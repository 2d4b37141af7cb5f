//! The changes of an iteration in the workspace.

use serde::{Deserialize, Serialize};

/// The most files that are named; further ones are only counted.
const MOST_NAMED: usize = 20;

/// How a file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It is new.
    Added,
    /// Its content, kind or mode is another.
    Modified,
    /// It is removed.
    Removed,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Its path, relative to the workspace.
    pub path: String,
    /// How it was changed.
    pub change: FileChange,
    /// Lines added; `None` if it is not text, or too large to be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_added: Option<u64>,
    /// Lines removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_removed: Option<u64>,
}

impl ChangedFile {
    fn lines(&self) -> u64 {
        self.lines_added.unwrap_or_default().saturating_add(self.lines_removed.unwrap_or_default())
    }
}

/// Changes in the workspace, except in the prompt and the evidence folders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// How many files.
    pub files: u64,
    /// Lines added to the texts among them.
    pub lines_added: u64,
    /// Lines removed from them.
    pub lines_removed: u64,
    /// The files with the most changed lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<ChangedFile>,
}

impl FromIterator<ChangedFile> for Changes {
    fn from_iter<I: IntoIterator<Item = ChangedFile>>(files: I) -> Self {
        let mut changes = Self { paths: files.into_iter().collect(), ..Self::default() };
        changes.files = u64::try_from(changes.paths.len()).unwrap_or(u64::MAX);
        for file in &changes.paths {
            let (added, removed) = (file.lines_added, file.lines_removed);
            changes.lines_added = changes.lines_added.saturating_add(added.unwrap_or_default());
            changes.lines_removed =
                changes.lines_removed.saturating_add(removed.unwrap_or_default());
        }
        changes.truncate_paths();
        changes
    }
}

impl Changes {
    /// Whether nothing was changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.files == 0
    }

    /// Whether any text among the files was compared line by line.
    #[must_use]
    pub const fn counts_lines(&self) -> bool {
        self.lines_added > 0 || self.lines_removed > 0
    }

    fn truncate_paths(&mut self) {
        let key = |file: &ChangedFile| (std::cmp::Reverse(file.lines()), file.path.clone());
        self.paths.sort_by_cached_key(key);
        self.paths.truncate(MOST_NAMED);
    }

    /// Adds later changes. A file that both name counts once.
    pub fn add(&mut self, later: &Self) {
        self.files = self.files.saturating_add(later.files);
        self.lines_added = self.lines_added.saturating_add(later.lines_added);
        self.lines_removed = self.lines_removed.saturating_add(later.lines_removed);
        for file in &later.paths {
            let Some(known) = self.paths.iter_mut().find(|known| known.path == file.path) else {
                self.paths.push(file.clone());
                continue;
            };
            self.files = self.files.saturating_sub(1);
            known.lines_added = add_lines(known.lines_added, file.lines_added);
            known.lines_removed = add_lines(known.lines_removed, file.lines_removed);
            known.change = match (known.change, file.change) {
                (FileChange::Added, FileChange::Modified) => FileChange::Added,
                (FileChange::Removed, FileChange::Added) => FileChange::Modified,
                (_, change) => change,
            };
        }
        self.truncate_paths();
    }
}

fn add_lines(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one.saturating_add(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, change: FileChange, lines: Option<(u64, u64)>) -> ChangedFile {
        ChangedFile {
            path: path.into(),
            change,
            lines_added: lines.map(|(added, _)| added),
            lines_removed: lines.map(|(_, removed)| removed),
        }
    }

    #[test]
    fn sums_up_files_and_lines_and_names_those_that_changed_most() {
        let many = (0..30).map(|n| file(&format!("f{n:02}"), FileChange::Modified, Some((n, 1))));
        let changes: Changes = many.chain([file("logo.png", FileChange::Added, None)]).collect();
        assert_eq!((changes.files, changes.lines_added, changes.lines_removed), (31, 435, 30));
        assert_eq!(changes.paths.len(), MOST_NAMED);
        assert_eq!(changes.paths[0].path, "f29");
        assert!(Changes::default().is_empty() && !changes.is_empty());
    }

    #[test]
    fn a_file_that_is_changed_again_counts_once() {
        let mut all: Changes =
            [file("a", FileChange::Added, Some((5, 0))), file("b", FileChange::Modified, None)]
                .into_iter()
                .collect();
        let later = [file("a", FileChange::Modified, Some((2, 1)))].into_iter().collect();
        all.add(&later);
        assert_eq!((all.files, all.lines_added, all.lines_removed), (2, 7, 1));
        assert_eq!(all.paths[0], file("a", FileChange::Added, Some((7, 1))));
    }

    #[test]
    fn changes_without_paths_can_be_read() {
        let changes: Changes =
            serde_json::from_str(r#"{"files":1,"lines_added":2,"lines_removed":0}"#).unwrap();
        assert!(changes.paths.is_empty());
    }
}
