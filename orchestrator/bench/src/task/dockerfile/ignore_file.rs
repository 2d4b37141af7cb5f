//! `.dockerignore`: what of the context is not copied.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::super::tree::Selection;

/// The patterns of a `.dockerignore`; the last one that matches a path decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct IgnoreFile {
    patterns: Vec<(GlobMatcher, bool)>,
    /// The exceptions as they are written.
    exceptions: Vec<String>,
}

impl IgnoreFile {
    /// Returns the patterns of a text.
    ///
    /// # Errors
    /// Returns the line of a pattern that is not one, and why.
    pub(crate) fn from_text(text: &str) -> Result<Self, (usize, String)> {
        let mut ignore = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (at, line) in text.lines().enumerate() {
            if !line.starts_with('#') {
                ignore.add(line).map_err(|error| (at + 1, error))?;
            }
        }
        Ok(ignore)
    }

    /// Adds a pattern; one after `!` is an exception.
    pub(crate) fn add(&mut self, pattern: &str) -> Result<(), String> {
        let pattern = pattern.trim();
        let (is_exception, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, pattern),
        };
        let parts = pattern.split('/').filter(|part| !matches!(*part, "" | "."));
        let clean = parts.collect::<Vec<_>>().join("/");
        if clean.is_empty() {
            return Ok(());
        }
        self.patterns.push((compile(&clean)?, is_exception));
        if is_exception {
            self.exceptions.push(clean);
        }
        Ok(())
    }

    /// Whether an exception may match something below a folder.
    fn has_exception_below(&self, folder: &Path) -> bool {
        self.exceptions.iter().any(|exception| {
            let fixed = exception.split('/').take_while(|part| !is_pattern(part));
            let fixed: PathBuf = fixed.collect();
            fixed.starts_with(folder) || (is_pattern(exception) && folder.starts_with(&fixed))
        })
    }

    /// Says what becomes of a path of the context.
    pub(crate) fn select(&self, path: &Path, is_folder: bool) -> Selection {
        let mut is_ignored = false;
        for (pattern, is_exception) in &self.patterns {
            // A pattern that matches a folder matches everything below it.
            if path.ancestors().any(|part| part != Path::new("") && pattern.is_match(part)) {
                is_ignored = !is_exception;
            }
        }
        match (is_ignored, is_folder && self.has_exception_below(path)) {
            (false, _) => Selection::Take,
            (true, true) => Selection::Descend,
            (true, false) => Selection::Skip,
        }
    }
}

/// Returns the matcher of a pattern, in which `*` does not match a `/`.
pub(crate) fn compile(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

/// Whether a path has characters that stand for others.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let ignore =
            IgnoreFile::from_text("# c\n\n*.log\n/a/\n!a/keep\n**/deep\n./b/*\n!important.log\n")
                .unwrap();
        for (path, is_folder, expected) in [
            ("x.log", false, Selection::Skip),
            ("sub/x.log", false, Selection::Take),
            ("important.log", false, Selection::Take),
            ("a", true, Selection::Descend),
            ("a/file", false, Selection::Skip),
            ("a/keep", true, Selection::Take),
            ("a/keep/file", false, Selection::Take),
            ("x/y/deep", false, Selection::Skip),
            ("deep", false, Selection::Skip),
            ("x/y/deep/z", false, Selection::Skip),
            ("b", true, Selection::Take),
            ("b/c/d", false, Selection::Skip),
        ] {
            assert_eq!(ignore.select(Path::new(path), is_folder), expected, "{path}");
        }
        let all = IgnoreFile::from_text("*").unwrap();
        assert_eq!(all.select(Path::new("a"), true), Selection::Skip);
        assert_eq!(IgnoreFile::from_text("a\n[").unwrap_err().0, 2);
    }

    proptest! {
        #[test]
        fn takes_any_text(text in "(?s)[a/*?!\\[\\]\\\\{},. \n-]{0,40}", path in "[a/.]{0,10}") {
            if let Ok(ignore) = IgnoreFile::from_text(&text) {
                ignore.select(Path::new(&path), true);
            }
        }
    }
}
