//! The configuration: layers of sources, merged, checked, and never without its origin.
//!
//! ```text
//!  defaults < implied < user file < ralph.toml < RALPH_… variables < --set < flags     layer     text, parsed, with spans
//!                         │ figment merges, each value tagged          provenance
//!                         ▼
//!                    merged values ──► File ──► Config                 read, then resolve
//!                         │              (all mistakes collected on the way: problem, words)
//!                         ▼
//!                Loaded = Config + origin of every value               loaded, files
//! ```
//!
//! Relative paths are relative to the folder of `ralph.toml`, whichever layer they come from. A
//! variable's name is its key in capitals, `RALPH_` or `RALPH_ORCHESTRATOR_` before it and `__` for each
//! dot, so tables and agents with capitals in their names cannot be reached by variables. The values of variables and of
//! `--set` are TOML; what is no TOML, or a number where text is expected, is text.

mod error;
mod fallback;
mod file;
mod files;
mod inline;
mod key;
mod layer;
mod limits;
mod loaded;
mod model;
mod nearest;
mod other_format;
mod plugins;
mod problem;
mod provenance;
mod read;
mod resolve;
mod schema;
mod shapes;
mod tables;
mod text;
mod units;
mod variables;
mod whereabouts;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use error::{ConfigError, ConfigErrors, Place, Position};
pub use limits::Limits;
pub use loaded::Loaded;
pub use model::{
    AfterRejection, AgentConfig, BaselineMode, Completion, CompletionTrigger, Config,
    DetectorConfig, Env, EnvMode, InstructionsMode, Prices, Run, Sandbox, SandboxMode,
    SandboxWorkspace, StateConfig, ValidatorConfig,
};
pub use nearest::nearest;
pub use plugins::PluginConfig;
pub use schema::{keys, schema};
pub use shapes::command_words;
pub use units::{duration_text, parse_duration};
pub use variables::{ForeignVariable, foreign_variables};
pub use whereabouts::load_places;

use problem::Problems;
use provenance::Provenance;

/// Where to read the configuration from. The defaults come before all of them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `ralph.toml`, which has to exist.
    pub file: PathBuf,
    /// The user's own file, for all projects; may be missing.
    pub user_file: Option<PathBuf>,
    /// Environment variables. Those that are not configuration are ignored: see [`foreign_variables`].
    pub vars: BTreeMap<String, String>,
    /// Key and value of each `--set`, in the order of the command line.
    pub sets: Vec<(String, String)>,
    /// The values of flags that stand for a key. They come after all else.
    pub flags: Vec<Flag>,
    /// Keys and values that follow from the command line, unless anything else is said: they come
    /// directly after the defaults, and nobody counts as having set them.
    pub implied: Vec<(&'static str, String)>,
    /// A table that is not taken from files and variables, because flags give another one.
    pub replaced: Option<&'static str>,
    /// For a run without a `ralph.toml`: the folder that relative paths are relative to. `file` then is
    /// what an earlier start has kept of its configuration, or nothing.
    pub without_file: Option<PathBuf>,
}

/// A flag of the command line that stands for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The flag as it was written, such as `--check`.
    pub name: String,
    /// The key.
    pub key: &'static str,
    /// The value as of `--set`: TOML, or text.
    pub text: String,
}

impl Sources {
    /// The folder that relative paths are relative to.
    fn folder(&self) -> Result<PathBuf, ConfigErrors> {
        match &self.without_file {
            Some(dir) => absolute_folder(dir, &self.place()),
            None => folder(&self.file),
        }
    }

    /// What to point to for what is nowhere.
    fn place(&self) -> Place {
        match &self.without_file {
            Some(_) => Place::CommandLine { flag: None },
            None => Place::file(&self.file),
        }
    }

    /// All layers that can be read, the lowest first.
    fn layers(&self) -> layer::Layers {
        let mut layers = layer::Layers::default();
        layers.implied(&self.implied);
        if let Some(user_file) = &self.user_file {
            layers.file(user_file, true);
        }
        if self.without_file.is_none() || !self.file.as_os_str().is_empty() {
            layers.file(&self.file, false);
            if let Some(kept) = layers.layers.last_mut().filter(|_| self.without_file.is_some()) {
                kept.is_kept = true;
            }
        }
        // What a file says is not known, so nothing can be said about the whole.
        if !layers.unread {
            layers.variables(&self.vars);
            layers.sets(&self.sets);
            layers.flags(&self.flags);
        }
        layers
    }
}

/// Reads, merges and checks the configuration. Does not look whether the files that it names exist:
/// see [`Loaded::check_files`].
///
/// # Errors
/// Everything that is wrong, as far as it can be told at once. After a syntax error in a file nothing
/// else can.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigErrors> {
    let dir = sources.folder()?;
    let mut layers = sources.layers();
    let mut errors = std::mem::take(&mut layers.errors);
    if layers.unread {
        ConfigErrors::unless_empty(std::mem::take(&mut errors))?;
    }

    let file = sources.place();
    let mut broken = Vec::new();
    // A mistake is one even if a later layer hides it.
    for layer in &layers.layers {
        let alone = Provenance::new(vec![layer.clone()], file.clone());
        let mut problems = Problems::new(&alone, errors, layer.broken.clone());
        let readable = read::file(&mut problems, true).is_some();
        let (all_errors, all_broken) = problems.into_parts();
        errors = all_errors;
        broken.extend(all_broken);
        if !readable {
            ConfigErrors::unless_empty(std::mem::take(&mut errors))?;
        }
    }
    if let Some(table) = sources.replaced {
        layers.replace(table);
    }
    let provenance = Provenance::new(layers.layers, file);
    let mut problems = Problems::new(&provenance, errors, broken);
    let read = read::file(&mut problems, false);
    let config = read.map(|file| resolve::config(file, &dir, &mut problems));
    ConfigErrors::unless_empty(problems.into_parts().0)?;
    match config {
        Some(config) => Loaded::new(config, dir, provenance),
        None => Err(ConfigError::new(provenance.file(), "", "cannot be understood").into()),
    }
}

/// The absolute folder of the file.
fn folder(file: &Path) -> Result<PathBuf, ConfigErrors> {
    let failed =
        |message: String| ConfigErrors::from(ConfigError::new(Place::file(file), "", message));
    let path = std::path::absolute(file).map_err(|error| failed(error.to_string()))?;
    let dir = path.parent().ok_or_else(|| failed("not a file".to_owned()))?;
    absolute_folder(dir, &Place::file(file))
}

fn absolute_folder(dir: &Path, place: &Place) -> Result<PathBuf, ConfigErrors> {
    let failed = |message: String| ConfigErrors::from(ConfigError::new(place.clone(), "", message));
    let dir = std::path::absolute(dir).map_err(|error| failed(error.to_string()))?;
    if dir.to_str().is_none() {
        return Err(failed("the name of its folder is not UTF-8".to_owned()));
    }
    Ok(resolve::normalised(&dir))
}
