//! The configuration: layers of sources, merged, checked, and never without its origin.
//!
//! ```text
//!  defaults < user file < ralph.toml < RALPH_… variables < --set       layer     text, parsed, with spans
//!                         │ figment merges, each value tagged          provenance
//!                         ▼
//!                    merged values ──► File ──► Config                 read, then resolve
//!                         │              (all mistakes collected on the way: problem, words)
//!                         ▼
//!                Loaded = Config + origin of every value               loaded, files
//! ```
//!
//! Relative paths are relative to the folder of `ralph.toml`, whichever layer they come from. A
//! variable's name is its key in capitals, `RALPH_` before it and `__` for each dot, so tables and
//! agents with capitals in their names cannot be reached by variables. The values of variables and of
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
mod plugins;
mod problem;
mod provenance;
mod read;
mod resolve;
mod schema;
mod tables;
mod text;
mod units;
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
pub use plugins::{PluginConfig, PluginIsolation};
pub use schema::schema;
pub use units::{duration_text, parse_duration};
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
    /// Environment variables. Those whose names do not begin with `RALPH_` are ignored.
    pub vars: BTreeMap<String, String>,
    /// Key and value of each `--set`, in the order of the command line.
    pub sets: Vec<(String, String)>,
}

/// Reads, merges and checks the configuration. Does not look whether the files that it names exist:
/// see [`Loaded::check_files`].
///
/// # Errors
/// Everything that is wrong, as far as it can be told at once. After a syntax error in a file nothing
/// else can.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigErrors> {
    let dir = folder(&sources.file)?;
    let mut layers = layer::Layers::default();
    if let Some(user_file) = &sources.user_file {
        layers.file(user_file, true);
    }
    layers.file(&sources.file, false);
    // What a file says is not known, so nothing can be said about the whole.
    if layers.unread {
        ConfigErrors::unless_empty(std::mem::take(&mut layers.errors))?;
    }
    layers.variables(&sources.vars);
    layers.sets(&sources.sets);

    let file = Place::file(&sources.file);
    let (mut errors, mut broken) = (layers.errors, Vec::new());
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
    if dir.to_str().is_none() {
        return Err(failed("the name of its folder is not UTF-8".to_owned()));
    }
    Ok(resolve::normalised(dir))
}
