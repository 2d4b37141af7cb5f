//! Which configuration file a command is about.
//!
//! Without `-c`, the `ralph.toml` of the current folder or of the nearest folder above it is taken, up to
//! the root of the repository; outside a repository up to the home directory or the root of the file
//! system, as Cargo and uv do. A configuration names programs that are run, so one that another user has
//! put into a folder above is not taken.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::state_dirs_of;

use crate::error::CommandError;
use crate::file_owner::is_trusted;
use crate::trust::{JudgedFiles, Trust};
use crate::{tasks, user_folders};

pub use ralph_orchestrator_config::FILE_NAME as NAME;

/// Says of a folder without a file by which configuration its run goes on.
pub const fn describe_missing_file(judged: &JudgedFiles) -> &'static str {
    // A file that was accepted, and is gone.
    if judged.changed.is_empty() {
        "there is no ralph.toml; the run of this folder goes on with what it began with"
    } else {
        "there is no ralph.toml; the run of this folder goes on with what you last accepted"
    }
}

/// What other tools call theirs.
const OTHERS: [&str; 3] = ["ralph.yml", "ralph.yaml", "ralph.json"];

/// The configuration file of a command, and which of its tasks the command is about.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Where it is.
    pub place: ConfigPlace,
    task: Option<String>,
    /// The nearest file that appeared where agents work, and that no person has accepted: it is no configuration.
    passed_over: Option<PathBuf>,
}

/// Where the configuration file is.
#[derive(Clone, Debug)]
pub enum ConfigPlace {
    /// Named by `-c`; may not exist.
    Named(PathBuf),
    /// Found in the current folder, or in one above it.
    Found {
        /// The file.
        file: PathBuf,
        /// It is in a folder above the current one.
        is_above: bool,
    },
    /// There is none in any of these folders, the current one first.
    Missing {
        /// The folders.
        folders: Vec<PathBuf>,
    },
}

impl From<ConfigPlace> for ConfigFile {
    fn from(place: ConfigPlace) -> Self {
        Self { place, task: None, passed_over: None }
    }
}

impl ConfigFile {
    /// The file that `-c` names, or the one that is found.
    pub fn find(named: Option<PathBuf>) -> Result<Self, CommandError> {
        if let Some(named) = named {
            return Ok(Self::named(named));
        }
        let here = std::env::current_dir()?;
        let trust = Trust::new(&user_folders::variables(), &[]);
        let (place, passed_over) = ConfigPlace::search(&here, &trust)?;
        Ok(Self { place, task: None, passed_over })
    }

    /// Returns the nearest file that appeared where agents work, and that no person has accepted.
    pub fn passed_over(&self) -> Option<&Path> {
        self.passed_over.as_deref()
    }

    /// Returns what is to be said of which file is used; `asks` if the command itself asks about one that is not.
    pub fn notices(&self, asks: bool) -> Vec<String> {
        let passed_over = self.passed_over.as_ref().filter(|_| !asks).map(|file| {
            let (shown, word) = (file.display(), quote_word(file));
            format!(
                "{shown} appeared where an agent could write it, and is not used; if it is yours, \
                 `ralph-orchestrator trust {word}` accepts it"
            )
        });
        passed_over.into_iter().chain(self.place.notice()).collect()
    }

    /// A file by its name; it may not exist.
    pub fn named(path: PathBuf) -> Self {
        ConfigPlace::Named(path).into()
    }

    /// No file, as where everything was given on the command line; relative paths are relative to the current
    /// folder.
    pub fn without_file() -> Result<Self, CommandError> {
        Ok(ConfigPlace::Missing { folders: vec![std::env::current_dir()?] }.into())
    }

    /// The same for a run in this folder.
    pub fn without_file_in(folder: PathBuf) -> Self {
        ConfigPlace::Missing { folders: vec![folder] }.into()
    }

    /// Whether there is no file here or above.
    pub const fn is_missing(&self) -> bool {
        matches!(self.place, ConfigPlace::Missing { .. })
    }

    /// Whether `-c` names it.
    pub const fn is_named(&self) -> bool {
        matches!(self.place, ConfigPlace::Named(_))
    }

    /// The file, or where it would be.
    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// The error that there is none, and what to do.
    pub fn missing(&self) -> CommandError {
        if let Some(file) = &self.passed_over {
            let message = format!("{} is not accepted", file.display());
            let word = quote_word(file);
            return CommandError::config(message)
                .hinted(format!("if it is yours, `ralph-orchestrator trust {word}` accepts it"));
        }
        let folder = self.path().parent().map(Path::to_owned).unwrap_or_default();
        let trust = Trust::new(&user_folders::variables(), &[]);
        if trust.is_gone(&self.path()).unwrap_or_default() {
            let path = self.path();
            let word = quote_word(&path);
            return CommandError::config(format!(
                "{} is gone, which an agent could have deleted, and it has no run to go on with",
                path.display()
            ))
            .hinted(format!(
                "put it back; if you deleted it, `ralph-orchestrator trust {word}` accepts that"
            ));
        }
        let message =
            format!("could not find `{NAME}` in {} or any parent folder", folder.display());
        let error = CommandError::config(message).hinted(
            "`ralph-orchestrator init` writes one; `run --goal TEXT --check COMMAND` needs none",
        );
        if let Some(other) = find_run_of_other_file(&folder) {
            let word = quote_word(&other);
            return error.hinted(format!(
                "this folder has a run of another file: `ralph-orchestrator -c {word} status` shows it"
            ));
        }
        if folder.join(tasks::FOLDER).is_dir() {
            return error.hinted("`ralph-orchestrator go TASK` works on a task of .ralph");
        }
        match OTHERS.iter().find(|other| exists(&folder.join(other))) {
            Some(other) => error.hinted(format!(
                "{other} is another tool's; docs/user/coming-from.md maps its keys"
            )),
            None => error,
        }
    }

    /// Adds the task, as it was named.
    pub fn with_task(self, task: Option<String>) -> Self {
        Self { task, ..self }
    }

    /// The task, as it was named.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }
}

impl ConfigPlace {
    /// Returns the nearest file, and the nearest that was passed over since no person has accepted it.
    fn search(here: &Path, trust: &Trust) -> Result<(Self, Option<PathBuf>), CommandError> {
        let folders = searched(here, home().as_deref());
        let mut passed_over = None;
        for folder in &folders {
            let file = folder.join(NAME);
            // What a person has accepted here is not given up because an agent has deleted it: a file above may be another
            // workspace's, without its sandbox.
            if trust.is_gone(&file)? {
                return Ok((Self::Missing { folders: vec![folder.clone()] }, passed_over));
            }
            if !exists(&file) {
                continue;
            }
            if trust.is_planted(&file) {
                passed_over.get_or_insert(file);
                continue;
            }
            let is_above = file.parent() != Some(here);
            if is_above && !is_trusted(&file, here) {
                let message = format!("{} belongs to another user", file.display());
                return Err(CommandError::config(message).hinted(
                    "it names programs that would be run; if you trust it, name it with `-c`",
                ));
            }
            return Ok((Self::Found { file, is_above }, passed_over));
        }
        Ok((Self::Missing { folders }, passed_over))
    }

    /// The file, or where it would be.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Named(file) | Self::Found { file, .. } => file.clone(),
            Self::Missing { folders } => {
                folders.first().map_or_else(|| NAME.into(), |folder| folder.join(NAME))
            }
        }
    }

    /// Returns the notice that another folder's configuration is used.
    fn notice(&self) -> Option<String> {
        match self {
            Self::Found { file, is_above: true } => Some(format!("using {}", file.display())),
            _ => None,
        }
    }
}

/// Returns a configuration of another name with which a run began in this folder.
fn find_run_of_other_file(folder: &Path) -> Option<PathBuf> {
    let states = states_dir(&user_folders::state_home(&user_folders::variables()));
    let mut known = state_dirs_of(&states, &folder.canonicalize().ok()?).into_iter();
    known.find_map(|state| state.owner.distinct_configuration().filter(|file| file.exists()))
}

/// Returns the folders that are searched for a configuration, in order.
fn searched(here: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for folder in here.ancestors() {
        folders.push(folder.to_owned());
        if exists(&folder.join(".git")) || Some(folder) == home {
            break;
        }
    }
    folders
}

fn home() -> Option<PathBuf> {
    etcetera::home_dir().ok().and_then(|home| home.canonicalize().ok())
}

/// Whether there is anything of this name, such as a link that leads nowhere.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
