//! Where a configuration is read from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::normalize_lexically;

use crate::error::{ConfigError, ConfigErrors, SourceLocation};
use crate::layers::{Flag, Layers};
use crate::plan_file::TaskSource;
use crate::preset::Defaults;
use crate::renamed::{RENAMED, RenamedKey};

/// The sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `ralph.toml`, which has to exist.
    pub file: PathBuf,
    /// The text in place of that file's, which then only names it and its folder.
    pub text: Option<String>,
    /// The user's own file, for all projects; may be missing.
    pub user_file: Option<PathBuf>,
    /// The text in place of that file's.
    pub user_text: Option<String>,
    /// Environment variables. Those that are not configuration are ignored: see
    /// [`foreign_variables`](crate::foreign_variables).
    pub vars: BTreeMap<String, String>,
    /// Key and value of each `--set`, in the order of the command line.
    pub sets: Vec<(String, String)>,
    /// The values of flags that stand for a key. They take precedence over everything else.
    pub flags: Vec<Flag>,
    /// Keys and values that follow from the command line unless a source sets them: they come
    /// directly after the defaults, and do not count as set by the user.
    pub implied: Vec<(&'static str, String)>,
    /// A table that is not taken from files and variables, because flags replace it.
    pub replaced: Option<&'static str>,
    /// For a run without a `ralph.toml`: the folder that relative paths are relative to. `file` then is
    /// the configuration that an earlier start stored, or empty.
    pub without_file: Option<PathBuf>,
    /// The file is gone, and `text` is what it said: no place in it is named or quoted.
    pub is_gone: bool,
    /// The task that is worked on: its plan comes after the files and before variables.
    pub task: Option<TaskSource>,
    /// The defaults that this crate does not know.
    pub defaults: Defaults,
}

impl Sources {
    /// Returns the folder that relative paths are relative to.
    pub(crate) fn folder(&self) -> Result<PathBuf, ConfigErrors> {
        match &self.without_file {
            Some(dir) => absolute_folder(dir, &self.location()),
            None => folder_of(&self.file),
        }
    }

    /// Returns the location for mistakes that are in no particular source.
    pub(crate) fn location(&self) -> SourceLocation {
        match &self.without_file {
            Some(_) => SourceLocation::CommandLine { flag: None },
            None => SourceLocation::file(&self.file),
        }
    }

    /// Reads all layers that can be read, the lowest first.
    pub(crate) fn layers(&self) -> Layers {
        self.layers_with(RENAMED)
    }

    /// The same with other keys that were renamed.
    pub(crate) fn layers_with(&self, renamed: &'static [RenamedKey]) -> Layers {
        let mut layers = Layers { renamed, ..Layers::default() };
        layers.add_implied(&self.implied);
        if let Some(user_file) = &self.user_file {
            match &self.user_text {
                Some(text) => layers.add_text(user_file, text),
                None => layers.add_file(user_file, true),
            }
        }
        if self.without_file.is_none() || !self.file.as_os_str().is_empty() {
            let warnings = layers.warnings.len();
            match &self.text {
                Some(text) => layers.add_text(&self.file, text),
                None => layers.add_file(&self.file, false),
            }
            if !layers.unread {
                layers.refuse_user_keys();
            }
            if let Some(gone) = layers.layers.last_mut().filter(|_| self.is_gone) {
                gone.forget_places();
            }
            if let Some(stored) = layers.layers.last_mut().filter(|_| self.without_file.is_some()) {
                stored.is_stored = true;
                // Nobody wrote it who could write it otherwise.
                layers.warnings.truncate(warnings);
            }
        }
        if let Some(task) = &self.task {
            layers.add_plan(&task.plan);
        }
        // Without one of the files, messages about the others could be wrong.
        if !layers.unread {
            layers.add_variables(&self.vars);
            layers.add_sets(&self.sets);
            layers.add_flags(&self.flags);
            layers.insert_preset(&self.defaults.presets);
        }
        layers
    }
}

/// Returns the absolute folder of the file.
fn folder_of(file: &Path) -> Result<PathBuf, ConfigErrors> {
    let failed = |message: String| {
        ConfigErrors::from(ConfigError::new(SourceLocation::file(file), "", message))
    };
    let path = std::path::absolute(file).map_err(|error| failed(error.to_string()))?;
    let dir = path.parent().ok_or_else(|| failed("not a file".to_owned()))?;
    absolute_folder(dir, &SourceLocation::file(file))
}

fn absolute_folder(dir: &Path, location: &SourceLocation) -> Result<PathBuf, ConfigErrors> {
    let failed =
        |message: String| ConfigErrors::from(ConfigError::new(location.clone(), "", message));
    let dir = std::path::absolute(dir).map_err(|error| failed(error.to_string()))?;
    if dir.to_str().is_none() {
        return Err(failed("the name of its folder is not UTF-8".to_owned()));
    }
    Ok(normalize_lexically(&dir))
}
