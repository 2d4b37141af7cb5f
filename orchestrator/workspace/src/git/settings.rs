//! Reads git's configuration files. Git itself is not run: its configuration can name programs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs as safe_fs;

use super::Repository;

/// The most that a configuration file may hold, in bytes.
const FILE_LIMIT: usize = 1024 * 1024;
/// The most files that include each other, as for git.
const MOST_INCLUDES: usize = 10;
/// The setting that names the file with the user's ignore rules.
const EXCLUDES_FILE: &str = "core.excludesfile";

/// Where git looks for the configuration of a user and of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitEnvironment {
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// The folder of the user's settings for git, such as `~/.config/git`.
    pub config_folder: Option<PathBuf>,
    /// The configuration files of system and user, weakest first.
    pub files: Vec<PathBuf>,
}

impl GitEnvironment {
    /// Finds out where this process has git look.
    #[must_use]
    pub fn from_process() -> Self {
        let path = |name: &str| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        let home = path("HOME");
        let config_home = path("XDG_CONFIG_HOME");
        let config_home = config_home.or_else(|| Some(home.as_ref()?.join(".config")));
        let config_folder = config_home.map(|folder| folder.join("git"));
        let system = path("GIT_CONFIG_SYSTEM").unwrap_or_else(|| "/etc/gitconfig".into());
        let without_system = std::env::var("GIT_CONFIG_NOSYSTEM").unwrap_or_default();
        let without_system =
            ["1", "true", "yes", "on"].contains(&without_system.to_ascii_lowercase().as_str());
        let mut files: Vec<PathBuf> =
            Some(system).filter(|_| !without_system).into_iter().collect();
        match path("GIT_CONFIG_GLOBAL") {
            Some(global) => files.push(global),
            None => {
                files.extend(config_folder.as_ref().map(|folder| folder.join("config")));
                files.extend(home.as_ref().map(|home| home.join(".gitconfig")));
            }
        }
        Self { home, config_folder, files }
    }

    /// Returns the file with the user's own ignore rules for a repository, whether there is one or not.
    pub(crate) fn find_excludes_file(
        &self,
        repository: &Repository,
        notes: &mut Vec<String>,
    ) -> Option<PathBuf> {
        let settings = self.search(repository, notes);
        match settings.last(EXCLUDES_FILE) {
            Some([]) => None,
            Some(value) => Some(repository.top.join(self.expand(value))),
            None => self.config_folder.as_ref().map(|folder| folder.join("ignore")),
        }
    }

    /// Returns all settings that hold for a repository.
    pub(super) fn read_settings(&self, repository: &Repository) -> Settings {
        self.search(repository, &mut Vec::new())
    }

    fn search(&self, repository: &Repository, notes: &mut Vec<String>) -> Settings {
        let own = [repository.common.join("config"), repository.folder.join("config.worktree")];
        let mut search = Search { environment: self, repository, notes, found: Vec::new() };
        for file in self.files.iter().chain(&own) {
            search.read(file, 0);
        }
        Settings(search.found)
    }

    /// Replaces a leading `~`. The homes of others are not looked up.
    pub(super) fn expand(&self, path: &[u8]) -> PathBuf {
        let rest = path.strip_prefix(b"~/").zip(self.home.as_ref());
        rest.map_or_else(
            || PathBuf::from(OsStr::from_bytes(path)),
            |(rest, home)| home.join(OsStr::from_bytes(rest)),
        )
    }
}

/// Settings, weakest first.
pub(super) struct Settings(Vec<Setting>);

impl Settings {
    /// Returns the value that a setting has in the end. Sections and keys are in small letters.
    pub(super) fn last(&self, name: &str) -> Option<&[u8]> {
        let mut strongest_first = self.0.iter().rev();
        let setting = strongest_first.find(|setting| setting.name == name.as_bytes())?;
        Some(&setting.value)
    }
}

/// The search for settings through all files: what is read later is stronger.
struct Search<'a> {
    environment: &'a GitEnvironment,
    repository: &'a Repository,
    notes: &'a mut Vec<String>,
    found: Vec<Setting>,
}

impl Search<'_> {
    fn read(&mut self, file: &Path, depth: usize) {
        let text = match safe_fs::read_if_exists(file, FILE_LIMIT) {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => {
                self.notes.push(format!("{}: git's settings not read: {error}", file.display()));
                return;
            }
        };
        for setting in parse_settings(&text) {
            let Setting { name, value } = &setting;
            if name == b"include.path" && depth < MOST_INCLUDES {
                self.read(&self.included(file, value), depth + 1);
            } else if let Some(condition) = included_if(name).filter(|_| depth < MOST_INCLUDES) {
                self.read_if(condition, &self.included(file, value), depth + 1);
            } else {
                self.found.push(setting);
            }
        }
    }

    fn included(&self, by: &Path, path: &[u8]) -> PathBuf {
        let folder = by.parent().unwrap_or(Path::new("/"));
        folder.join(self.environment.expand(path))
    }

    /// Reads what is included under a condition. If that cannot be told, what it sets is noted, not used.
    fn read_if(&mut self, condition: &[u8], file: &Path, depth: usize) {
        match self.holds(condition) {
            Some(true) => self.read(file, depth),
            Some(false) => {}
            None => {
                let before = self.found.len();
                self.read(file, depth);
                let conditional = Settings(self.found.split_off(before));
                if conditional.last(EXCLUDES_FILE).is_some() {
                    self.notes.push(format!(
                        "{}: sets core.excludesFile under the condition {:?}, which is not read here: what only these \
                         rules ignore counts as work",
                        file.display(),
                        String::from_utf8_lossy(condition)
                    ));
                }
            }
        }
    }

    /// Whether the repository lies in the folder that a condition names; `None` for other conditions.
    fn holds(&self, condition: &[u8]) -> Option<bool> {
        let folder = condition.strip_prefix(b"gitdir:").filter(|path| path.ends_with(b"/"))?;
        let folder = self.environment.expand(folder);
        let has_pattern = folder.as_os_str().as_bytes().iter().any(|byte| b"*?[\\~".contains(byte));
        (folder.is_absolute() && !has_pattern).then(|| self.repository.folder.starts_with(folder))
    }
}

/// Returns the condition in the name of a setting that includes a file under one.
fn included_if(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(b"includeif.")?.strip_suffix(b".path")
}

/// One setting: `section.key`, or `section.subsection.key`, and its value.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Reads settings up to the first line that is none.
fn parse_settings(text: &[u8]) -> Vec<Setting> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { rest: text };
    let (mut settings, mut section) = (Vec::new(), Vec::new());
    while let Some(byte) = reader.next() {
        let read = match byte {
            b'#' | b';' => {
                reader.skip_line();
                continue;
            }
            b'[' => reader.section().map(|found| section = found),
            byte if byte.is_ascii_whitespace() => continue,
            byte if byte.is_ascii_alphabetic() => reader.setting(&section, byte).map(|setting| {
                settings.push(setting);
            }),
            _ => None,
        };
        if read.is_none() {
            break;
        }
    }
    settings
}

/// Takes a configuration file apart.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// Takes a byte; the end of a line is one.
    fn next(&mut self) -> Option<u8> {
        let rest = self.rest;
        let rest = if rest.starts_with(b"\r\n") { rest.get(1..)? } else { rest };
        let (byte, rest) = rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// Reads the rest of `[section]` or `[section "subsection"]`, with a dot behind it.
    fn section(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => break,
                b' ' | b'\t' => {}
                b'"' => {
                    name.push(b'.');
                    loop {
                        match self.next()? {
                            b'"' => break,
                            b'\n' => return None,
                            b'\\' => name.push(self.next()?),
                            byte => name.push(byte),
                        }
                    }
                }
                b'\n' => return None,
                byte => name.push(byte.to_ascii_lowercase()),
            }
        }
        name.push(b'.');
        Some(name)
    }

    /// Reads the rest of a line that begins with this letter of a key.
    fn setting(&mut self, section: &[u8], first: u8) -> Option<Setting> {
        let mut name = section.to_vec();
        name.push(first.to_ascii_lowercase());
        loop {
            match self.next() {
                Some(byte) if byte.is_ascii_alphanumeric() || byte == b'-' => {
                    name.push(byte.to_ascii_lowercase());
                }
                Some(b' ' | b'\t') => {}
                Some(b'=') => return Some(Setting { name, value: self.value()? }),
                // Without a value it is a yes.
                None | Some(b'\n') => return Some(Setting { name, value: b"true".to_vec() }),
                Some(_) => return None,
            }
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let (mut value, mut is_quoted, mut spaces) = (Vec::new(), false, Vec::new());
        loop {
            let byte = match self.next() {
                None if is_quoted => return None,
                None => return Some(value),
                Some(byte) => byte,
            };
            let byte = match byte {
                b'\n' => return (!is_quoted).then_some(value),
                b'#' | b';' if !is_quoted => {
                    self.skip_line();
                    return Some(value);
                }
                b' ' | b'\t' if !is_quoted => {
                    spaces.push(byte);
                    continue;
                }
                b'"' => {
                    is_quoted = !is_quoted;
                    if !value.is_empty() {
                        value.append(&mut spaces);
                    }
                    spaces.clear();
                    continue;
                }
                b'\\' => match self.next()? {
                    b'\n' => continue,
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'b' => 8,
                    byte @ (b'"' | b'\\') => byte,
                    _ => return None,
                },
                byte => byte,
            };
            if !value.is_empty() {
                value.append(&mut spaces);
            }
            spaces.clear();
            value.push(byte);
        }
    }
}
