//! Packages that a task itself names.

use std::path::Path;

use super::model::{EnvironmentSource, Oracle, Step, Task, Verification};
use super::text_file::read_text;

/// Bytes of a file that is searched.
const MAX_TEXT: usize = 256 << 10;

impl Task {
    /// Whether the files that an exercise brings name a package: its tests, its solution, or what an agent begins with. What
    /// only the agent names is the agent's choice. A module of the exercise itself is no package.
    #[must_use]
    pub fn names_package(&self, step: &Step, name: &str) -> bool {
        let mut files: Vec<&Path> = Vec::new();
        if let EnvironmentSource::Files(copies) = &self.source {
            let is_own = |path: &Path| path.file_stem().is_some_and(|stem| stem == name);
            if copies.iter().any(|copy| is_own(&copy.target)) {
                return false;
            }
            files.extend(copies.iter().map(|copy| copy.source.as_path()));
        }
        if let Verification::Command { files: tests, .. } = &step.verification {
            files.extend(tests.iter().map(|copy| copy.source.as_path()));
        }
        if let Some(Oracle::Files(copies)) = &step.oracle {
            files.extend(copies.iter().map(|copy| copy.source.as_path()));
        }
        files.iter().any(|file| read_text(file, MAX_TEXT).is_ok_and(|text| has_word(&text, name)))
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_inner) && !after.is_some_and(is_inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_a_whole_word() {
        assert!(has_word("rand = \"0.8\"", "rand"));
        assert!(has_word("import \"github.com/a/b\"", "github.com/a/b"));
        assert!(!has_word("rand_core = 1\nstrand = 2\nrand-x = 3", "rand"));
    }
}
