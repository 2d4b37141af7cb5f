//! Ignore rules, as git reads them from `.gitignore`, `.git/info/exclude` and a user's own file.
//!
//! The patterns are matched by the `ignore` crate. Finding and reading the files is done here and
//! not by its walker, which opens whatever is called `.gitignore`: a pipe of that name stops it for
//! ever.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ralph_orchestrator_safe_fs::{self as safe_fs, FileFingerprint};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use super::outer_rules::{OuterRules, as_prefix};

/// The name of the files with rules.
pub(super) const RULE_FILE: &[u8] = b".gitignore";
/// The most that such a file may hold, in bytes.
pub(super) const RULE_LIMIT: usize = 512 * 1024;

/// Rules by the digest of their text, so that unchanged ones are not compiled again.
pub(super) type CompiledRules = HashMap<blake3::Hash, Arc<Gitignore>>;

/// The rules in force at one place of a walk.
#[derive(Debug, Default)]
pub(super) struct IgnoreRules {
    before: CompiledRules,
    compiled: CompiledRules,
    /// Those from around the workspace, at several times, each time weakest first: ignored is what was at any of them.
    outer: Vec<Vec<OuterFile>>,
    /// Rules in the folders entered, outermost first, each with the length of the folder's path.
    inner: Vec<(usize, Arc<Gitignore>)>,
}

/// Rules that hold for a folder around the workspace.
#[derive(Debug)]
struct OuterFile {
    /// The workspace's path from there.
    inside: PathBuf,
    /// The same, ending in `/` unless empty.
    prefix: Vec<u8>,
    rules: Arc<Gitignore>,
}

impl IgnoreRules {
    /// Creates the rules for a walk, with those compiled for an earlier one.
    pub(super) fn new(compiled: CompiledRules) -> Self {
        Self { before: compiled, ..Self::default() }
    }

    /// Returns the compiled rules that are still in use.
    pub(super) fn into_compiled(self) -> CompiledRules {
        self.compiled
    }

    /// Ignores what these rules do, whatever other outer rules say. They do not count if they would ignore the workspace
    /// itself: then the repository is not about it. Returns whether they count.
    pub(super) fn add_outer_rules(&mut self, outer: &OuterRules) -> bool {
        let files: Vec<OuterFile> = outer
            .files()
            .map(|(inside, text)| {
                let prefix = as_prefix(&inside);
                OuterFile { inside, prefix, rules: self.compile(text.as_bytes()) }
            })
            .collect();
        let levels = 0..outer.inside().components().count();
        let mut hidden = levels.map(|above| ignores_workspace(&files, above));
        let counts = !hidden.any(|is_hidden| is_hidden);
        if counts {
            self.outer.push(files);
        }
        counts
    }

    /// Enters a folder whose path has `path_len` bytes, with the rules in it. Says why they are not
    /// used, if so.
    pub(super) fn enter(&mut self, folder: BorrowedFd<'_>, path_len: usize) -> Option<String> {
        match read_rules(folder) {
            Ok(Some(bytes)) => {
                let rules = self.compile(&bytes);
                if !rules.is_empty() {
                    self.inner.push((path_len, rules));
                }
                None
            }
            Ok(None) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Leaves the folder whose path has `path_len` bytes.
    pub(super) fn leave(&mut self, path_len: usize) {
        if self.inner.last().is_some_and(|(length, _)| *length == path_len) {
            self.inner.pop();
        }
    }

    /// Whether the rules say to ignore this path.
    pub(super) fn ignore(&self, path: &[u8], is_folder: bool) -> bool {
        for (start, rules) in self.inner.iter().rev() {
            let within = Path::new(OsStr::from_bytes(path.get(*start..).unwrap_or_default()));
            if let Some(ignored) = decide(rules, within, is_folder) {
                return ignored;
            }
        }
        self.outer.iter().any(|files| {
            let decided =
                files.iter().rev().filter(|file| !file.rules.is_empty()).find_map(|file| {
                    let whole = [file.prefix.as_slice(), path].concat();
                    decide(&file.rules, Path::new(OsStr::from_bytes(&whole)), is_folder)
                });
            decided == Some(true)
        })
    }

    fn compile(&mut self, text: &[u8]) -> Arc<Gitignore> {
        let digest = blake3::hash(text);
        if let Some(rules) = self.compiled.get(&digest).or_else(|| self.before.get(&digest)) {
            let rules = Arc::clone(rules);
            self.compiled.insert(digest, Arc::clone(&rules));
            return rules;
        }
        let rules = Arc::new(compile(text));
        self.compiled.insert(digest, Arc::clone(&rules));
        rules
    }
}

/// Whether rules ignore the folder that is so many levels above the workspace.
fn ignores_workspace(files: &[OuterFile], above: usize) -> bool {
    let decided = files.iter().rev().find_map(|file| {
        let path = file.inside.ancestors().nth(above)?;
        if path.as_os_str().is_empty() { None } else { decide(&file.rules, path, true) }
    });
    decided == Some(true)
}

/// Whether one of these patterns matches a path that is no folder.
pub(super) fn matches(patterns: &Gitignore, path: &Path) -> bool {
    !patterns.matched(path, false).is_none()
}

fn decide(rules: &Gitignore, path: &Path, is_folder: bool) -> Option<bool> {
    match rules.matched(path, is_folder) {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    }
}

/// Returns the text of a folder's rule file; like git, not of one that is a link.
fn read_rules(folder: BorrowedFd<'_>) -> std::io::Result<Option<Vec<u8>>> {
    let fingerprint = match FileFingerprint::from_name(folder, RULE_FILE) {
        Ok(fingerprint) => fingerprint,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if fingerprint.file_type() != rustix::fs::FileType::RegularFile {
        return Ok(None);
    }
    match safe_fs::open_file_at(folder, RULE_FILE) {
        Ok(fd) => Ok(Some(safe_fs::read_bounded(&fd, RULE_LIMIT)?)),
        Err(Errno::NOENT | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Compiles rules. A line that is no pattern, or not UTF-8, hides nothing.
pub(super) fn compile(text: &[u8]) -> Gitignore {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut builder = GitignoreBuilder::new("");
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Ok(line) = std::str::from_utf8(line) {
            // An error speaks of this line alone, and git is silent about such lines too.
            let _ = builder.add_line(None, &literal_braces(line));
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Returns the line with its braces escaped: they are plain characters to git, but groups to the matcher,
/// which nested deeply enough would also overflow its stack.
fn literal_braces(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut escaped = false;
    for letter in line.chars() {
        if matches!(letter, '{' | '}') && !escaped {
            text.push('\\');
        }
        escaped = letter == '\\' && !escaped;
        text.push(letter);
    }
    text
}
