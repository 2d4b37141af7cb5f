//! PathGlobs for paths in the workspace.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};

/// Why a glob cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("glob {glob:?}: {reason}")]
pub struct GlobError {
    /// The glob as given.
    pub(super) glob: String,
    /// What is wrong with it and what to do.
    pub(super) reason: String,
}

/// PathGlobs relative to the workspace. `*` and `?` stay within a name, `**` spans folders, and a glob
/// that matches a folder stands for all beneath it.
#[derive(Debug)]
pub(super) struct PathGlobs {
    /// Those that are no patterns, and whether each speaks of `.git`. There may be thousands.
    plain: HashMap<PathBuf, bool>,
    /// All others.
    all: GlobSet,
    /// Those that speak of `.git` by name.
    git: GlobSet,
    /// The leading parts of each, and whether it speaks of `.git`.
    heads: Vec<(Vec<Head>, bool)>,
}

/// A part of a glob that stands for one name.
#[derive(Debug)]
enum Head {
    Name(String),
    Pattern(GlobMatcher),
}

impl Head {
    /// Returns nothing for a part that may stand for more than one name.
    fn new(part: &str) -> Option<Self> {
        if is_plain(part) {
            return Some(Self::Name(part.to_owned()));
        }
        // A negated class may stand for a separator.
        let is_one = !["**", "[!", "[^"].iter().any(|sign| part.contains(sign));
        let glob = is_one.then(|| GlobBuilder::new(part).literal_separator(true).build().ok());
        glob.flatten().map(|glob| Self::Pattern(glob.compile_matcher()))
    }

    fn matches(&self, name: &OsStr) -> bool {
        match self {
            Self::Name(wanted) => name == wanted.as_str(),
            Self::Pattern(pattern) => pattern.is_match(Path::new(name)),
        }
    }
}

impl PathGlobs {
    pub(super) fn new(globs: &[String]) -> Result<Self, GlobError> {
        let mut all = GlobSetBuilder::new();
        let mut git = GlobSetBuilder::new();
        let mut plains = HashMap::new();
        let mut heads = Vec::new();
        for glob in globs {
            let fail = |reason: String| GlobError { glob: glob.clone(), reason };
            let parts = parts(glob).map_err(fail)?;
            let names_git = parts.contains(&".git");
            heads.push((parts.iter().map_while(|part| Head::new(part)).collect(), names_git));
            let plain = parts.join("/");
            if is_plain(&plain) {
                plains.insert(PathBuf::from(plain), names_git);
                continue;
            }
            for text in [plain.clone(), format!("{plain}/**")] {
                let compiled = GlobBuilder::new(&text)
                    .literal_separator(true)
                    .backslash_escape(true)
                    .build()
                    .map_err(|error| fail(format!("{}; see the globset syntax", error.kind())))?;
                if names_git {
                    git.add(compiled.clone());
                }
                all.add(compiled);
            }
        }
        let together = |error: globset::Error| GlobError {
            glob: globs.join(", "),
            reason: format!("{}; use fewer or simpler ones", error.kind()),
        };
        let all = all.build().map_err(together)?;
        let git = git.build().map_err(together)?;
        Ok(Self { plain: plains, all, git, heads })
    }

    /// Whether there is none at all.
    pub(super) const fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Whether one matches this path, or a folder it lies in.
    pub(super) fn matches(&self, path: &Path) -> bool {
        let is_in_git = in_git(path);
        let is_named =
            |path: &Path| self.plain.get(path).is_some_and(|names_git| *names_git || !is_in_git);
        path.ancestors().any(is_named)
            || if is_in_git { self.git.is_match(path) } else { self.all.is_match(path) }
    }

    /// Whether one may match something beneath this folder.
    pub(super) fn may_match_beneath(&self, folder: &Path) -> bool {
        let git = in_git(folder);
        self.heads.iter().any(|(head, names_git)| {
            (*names_git || !git)
                && folder
                    .components()
                    .zip(head)
                    .all(|(name, wanted)| wanted.matches(name.as_os_str()))
        })
    }
}

/// Whether a glob, or a part of one, stands for itself only.
fn is_plain(text: &str) -> bool {
    !text.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// Whether it lies in the workspace's own repository. One below belongs to the folder that it lies in.
fn in_git(path: &Path) -> bool {
    path.components().next().is_some_and(|name| name.as_os_str() == ".git")
}

/// Returns the glob's parts between slashes.
fn parts(glob: &str) -> Result<Vec<&str>, String> {
    if glob.starts_with('/') {
        return Err("has to be relative to the workspace, without a leading /".into());
    }
    let parts: Vec<&str> =
        glob.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() {
        return Err("is empty; use ** for everything".into());
    }
    if parts.contains(&"..") {
        return Err("leads out of the workspace; .. is not allowed".into());
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(list: &[&str]) -> PathGlobs {
        PathGlobs::new(&list.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_glob_stands_for_what_it_matches_and_all_beneath() {
        let globs = globs(&["tests", "src/*.rs", "**/conftest.py", "./a/"]);
        for path in ["tests/a/b", "tests", "src/x.rs", "conftest.py", "x/y/conftest.py", "a/b"] {
            assert!(globs.matches(Path::new(path)), "{path}");
        }
        for path in ["tests2/a", "src/sub/x.rs", "src/x.py", "my/tests/a", ".git/tests/conftest.py"]
        {
            assert!(!globs.matches(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn git_is_matched_by_name_only() {
        assert!(!globs(&["**", "*/config"]).matches(Path::new(".git/config")));
        assert!(!globs(&["**"]).may_match_beneath(Path::new(".git")));
        let named = globs(&["**", ".git/hooks/**"]);
        assert!(named.matches(Path::new(".git/hooks/pre-commit")));
        assert!(!named.matches(Path::new(".git/config")));
        assert!(named.may_match_beneath(Path::new(".git/hooks")));
        assert!(!named.may_match_beneath(Path::new(".git/objects")));
        assert!(globs(&["tests/**"]).matches(Path::new("tests/.git/0.sh")));
        assert!(globs(&["tests/**"]).may_match_beneath(Path::new("tests/.git")));
    }

    #[test]
    fn folders_are_entered_only_if_something_may_match() {
        let globs = globs(&["tests/unit/**/*.py", "Makefile"]);
        for (folder, enter) in [("tests", true), ("tests/unit", true), ("tests/unit/a", true)] {
            assert_eq!(globs.may_match_beneath(Path::new(folder)), enter, "{folder}");
        }
        for folder in ["src", "tests/integration", "node_modules"] {
            assert!(!globs.may_match_beneath(Path::new(folder)), "{folder}");
        }
        let globs = self::globs(&["*.dist-info/x", "a\\[1\\]/b", "c/{d,e}/f", "g/**/h"]);
        for folder in ["a.dist-info", "a.dist-info/x/y", "a[1]", "c/e", "g/x/y"] {
            assert!(globs.may_match_beneath(Path::new(folder)), "{folder}");
        }
        for folder in ["node_modules", "a.dist-info/y", "a1", "c/g", "h"] {
            assert!(!globs.may_match_beneath(Path::new(folder)), "{folder}");
        }
    }

    #[test]
    fn bad_globs_are_named() {
        for bad in ["", "/", "/etc/passwd", "a/../../b", "a[", "{a", "./"] {
            let error = PathGlobs::new(&[bad.to_owned()]).unwrap_err();
            assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
        }
    }
}
