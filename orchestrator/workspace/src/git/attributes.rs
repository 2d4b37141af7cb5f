//! Git's attributes, as far as they say that git stores other bytes than a file has. Filters are not run: they are programs
//! that an agent can name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignore::gitignore::Gitignore;
use ralph_orchestrator_safe_fs as safe_fs;

use super::Repository;
use super::settings::{GitEnvironment, Settings};
use crate::gitignore::{compile, matches};

/// The most that a file with attributes may hold, in bytes.
const FILE_LIMIT: usize = 1024 * 1024;
/// The name of those in the working tree.
const FILE_NAME: &str = ".gitattributes";
/// What git stores a large file by: its content is elsewhere, and a clone has it.
const LARGE_FILES: &str = "git-lfs";

/// Why git stores other bytes than a file has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conversion {
    /// Lines that end in CR and LF are stored, and written by a clone, with LF only.
    LineEnds,
    /// A program makes what is stored.
    Filter {
        /// The command.
        command: String,
    },
    /// What is in `$Id$` is not stored.
    Keyword,
}

/// What an attribute is for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AttributeValue {
    Set,
    Unset,
    Text(String),
}

/// The attributes of a line, for the paths that it matches. `None` makes one as if it were nowhere.
type Line = (Gitignore, BTreeMap<String, Option<AttributeValue>>);

/// The attributes of a repository.
pub(crate) struct Attributes<'a> {
    repository: &'a Repository,
    settings: Settings,
    /// Those of the system and the user, and the repository's own, which are the strongest.
    outer: Vec<Line>,
    own: Vec<Line>,
    /// Those of folders, by their paths in the repository.
    folders: BTreeMap<PathBuf, Vec<Line>>,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(repository: &'a Repository, environment: &GitEnvironment) -> Self {
        let settings = environment.read_settings(repository);
        let system = Some(PathBuf::from("/etc/gitattributes"));
        let user = match settings.last("core.attributesfile") {
            Some(file) => Some(repository.top.join(environment.expand(file))),
            None => environment.config_folder.as_ref().map(|folder| folder.join("attributes")),
        };
        let outer = [system, user].into_iter().flatten().flat_map(|file| read_lines(&file));
        Self {
            outer: outer.collect(),
            own: read_lines(&repository.common.join("info").join("attributes")),
            settings,
            repository,
            folders: BTreeMap::new(),
        }
    }

    /// Returns why git would store other bytes than these for a path in the repository.
    pub(crate) fn find_conversions(
        &mut self,
        path: &Path,
        bytes: &[u8],
        is_new: bool,
    ) -> Vec<Conversion> {
        let mut found = Vec::new();
        if let Some(AttributeValue::Text(name)) = self.find(path, "filter")
            && let Some(command) = self.filter_command(&name)
            && !command.starts_with(LARGE_FILES)
        {
            found.push(Conversion::Filter { command });
        }
        if self.find(path, "ident") == Some(AttributeValue::Set) && has(bytes, b"$Id") {
            found.push(Conversion::Keyword);
        }
        if has(bytes, b"\r\n") && self.stores_line_ends(path, bytes, is_new) {
            found.push(Conversion::LineEnds);
        }
        found
    }

    fn filter_command(&self, name: &str) -> Option<String> {
        let command = |key| self.settings.last(&format!("filter.{name}.{key}"));
        let command = command("process").or_else(|| command("clean"))?;
        Some(String::from_utf8_lossy(command).into_owned()).filter(|command| !command.is_empty())
    }

    /// Whether a clone has LF where lines of a file end in CR and LF.
    fn stores_line_ends(&mut self, path: &Path, bytes: &[u8], is_new: bool) -> bool {
        let line_end = self.find(path, "eol");
        let convert = self.settings.last("core.autocrlf").unwrap_or_default().to_ascii_lowercase();
        let restores = match &line_end {
            Some(AttributeValue::Text(end)) => end == "crlf",
            _ => convert == b"true",
        };
        if restores {
            return false;
        }
        let is_automatic = match self.find(path, "text") {
            Some(AttributeValue::Set) => return true,
            Some(AttributeValue::Unset) => return false,
            Some(AttributeValue::Text(value)) => value == "auto",
            None if line_end.is_some() => return true,
            None => convert == b"input",
        };
        // Git lets a file that is stored with them keep them.
        is_automatic && is_new && !bytes.contains(&0)
    }

    /// Returns what an attribute is for a path in the repository.
    fn find(&mut self, path: &Path, name: &str) -> Option<AttributeValue> {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for folder in &above {
            if !self.folders.contains_key(*folder) {
                let file = self.repository.top.join(folder).join(FILE_NAME);
                let lines = if file.is_symlink() { Vec::new() } else { read_lines(&file) };
                self.folders.insert((*folder).to_owned(), lines);
            }
        }
        let inner = above.iter().filter_map(|folder| Some((*folder, self.folders.get(*folder)?)));
        let top = Path::new("");
        let strongest_first =
            std::iter::once((top, &self.own)).chain(inner).chain([(top, &self.outer)]);
        strongest_first
            .flat_map(|(folder, lines)| lines.iter().rev().map(move |line| (folder, line)))
            .find_map(|(folder, (pattern, attributes))| {
                let value = attributes.get(name)?;
                let path = path.strip_prefix(folder).ok()?;
                matches(pattern, path).then(|| value.clone())
            })
            .flatten()
    }
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// Reads the lines of a file with attributes; none of one that cannot be read. Macros are not known, but for `binary`.
fn read_lines(file: &Path) -> Vec<Line> {
    let text = safe_fs::read_if_exists(file, FILE_LIMIT).ok().flatten().unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(read_line).collect()
}

fn read_line(line: &[u8]) -> Option<Line> {
    let line = line.trim_ascii();
    if matches!(line.first(), None | Some(b'#' | b'!' | b'[')) {
        return None;
    }
    let (pattern, rest) = match line.strip_prefix(b"\"") {
        Some(quoted) => quoted.split_at_checked(memchr::memchr(b'"', quoted)?)?,
        None => {
            let end = line.iter().position(u8::is_ascii_whitespace)?;
            line.split_at_checked(end)?
        }
    };
    let words = rest.split(|byte| byte.is_ascii_whitespace() || *byte == b'"');
    let attributes = words.filter_map(|word| std::str::from_utf8(word).ok()).flat_map(read_word);
    Some((compile(pattern), attributes.collect()))
}

/// Returns which attributes a word of a line sets.
fn read_word(word: &str) -> Vec<(String, Option<AttributeValue>)> {
    if word.is_empty() {
        return Vec::new();
    }
    let (name, value) = if let Some(name) = word.strip_prefix('-') {
        (name, Some(AttributeValue::Unset))
    } else if let Some(name) = word.strip_prefix('!') {
        (name, None)
    } else if let Some((name, value)) = word.split_once('=') {
        (name, Some(AttributeValue::Text(value.to_owned())))
    } else {
        (word, Some(AttributeValue::Set))
    };
    match name {
        "binary" if value == Some(AttributeValue::Set) => {
            vec![("text".to_owned(), Some(AttributeValue::Unset))]
        }
        name => vec![(name.to_owned(), value)],
    }
}
