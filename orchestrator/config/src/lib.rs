//! Merges the sources of the configuration and checks them; every value keeps its origin.
//! Must not know adapters, detectors or validators by name, nor terminals.
//!
//! ```text
//!  defaults < implied < preset < user file < ralph.toml < plan.md < RALPH_… variables < --set < flags
//!                         │ layers: text, parsed, with spans
//!                         │ figment merges, each value tagged          provenance
//!                         ▼
//!               merged values ──► ConfigDocument ──► Config            deserialize, then checks
//!                         │              (all mistakes are collected: diagnostics, serde_messages)
//!                         ▼
//!             LoadedConfig = Config + origin of every value            loaded
//! ```
//!
//! Relative paths are relative to the folder of `ralph.toml`, whichever layer they come from. A
//! variable's name is its key in capitals, `RALPH_` or `RALPH_ORCHESTRATOR_` before it and `__` for each
//! dot, so tables and agents with capitals in their names cannot be reached by variables. The values of
//! variables and of `--set` are TOML; what is not TOML, or a number where text is expected, is text.
//!
//! This crate names no adapter, detector or validator: the defaults that name them are part of
//! [`Sources`]. It prints nothing: [`ConfigErrors`] are data, rendered by the command line.

mod backlog_table;
mod checks;
mod command_files;
mod deserialize;
mod diagnostics;
mod document;
mod env_names;
mod error;
mod front_matter;
mod inline;
mod key;
mod layers;
mod loaded;
mod masked;
mod model;
mod plan_file;
mod preset;
mod provenance;
mod renamed;
mod run_paths;
mod schema;
mod serde_messages;
mod shapes;
mod sources;
mod strict;
mod suggest;
mod validator_table;
mod variables;

pub use env_names::{SHORTEST_SECRET, is_inherited, is_secret_name, matches_name};
pub use error::{ConfigError, ConfigErrors, Position, SourceLocation};
pub use inline::toml_text;
pub use layers::Flag;
pub use loaded::{LoadedConfig, values_of};
pub use model::{
    AfterRejection, AgentCompletions, AgentConfig, BacklogConfig, BacklogLabels, BacklogOrder,
    BacklogTracker, BaselineMode, Bench, BenchCluster, BenchPod, BenchVariant, CheckPlace,
    ClusterKind, CommitMode, Completion, CompletionTrigger, Config, ContextCommand, CostBudget,
    CountOrAuto, DetectorConfig, Env, EnvMode, EscalateAfter, EscalateStart, Git, Handoff,
    HookSandbox, Hooks, Initializer, InstructionsMode, Isolation, KeptFiles, Limits, MaxWait,
    Memory, MemoryMode, NoticeTopic, Notify, NotifyKind, OnComplete, Parallel, PluginConfig,
    Prices, ProgressFormat, Prompts, Role, RoleAgents, RoleNames, Run, Sandbox, SandboxMode,
    SandboxWorkspace, StateConfig, TaskSetup, Telemetry, TokenBudget, TrustMode, UserBudget,
    Validation, ValidatorConfig, VerifierTimeout, WorkingRole, duration_text, parse_duration,
};
pub use plan_file::{PlanFile, TaskSource};
pub use preset::{Defaults, Preset};
pub use run_paths::{load_run_paths, load_user_budget, run_paths_at};
pub use schema::{keys, schema};
pub use shapes::command_words;
pub use sources::Sources;
pub use suggest::{misspelt_within, nearest};
pub use validator_table::VALIDATOR_TIMEOUT;
pub use variables::{ForeignVariable, foreign_variables};

use diagnostics::Diagnostics;
use layers::Layers;
use provenance::Provenance;

/// The name of the configuration file of a workspace.
pub const FILE_NAME: &str = "ralph.toml";

/// Reads, merges and checks the configuration. Does not check whether the files that it names exist:
/// see [`LoadedConfig::check_files`].
///
/// # Errors
/// Returns every mistake that can be found at once. After a syntax error in a file nothing else is
/// checked.
pub fn load(sources: &Sources) -> Result<LoadedConfig, ConfigErrors> {
    let mut layers = sources.layers();
    let secrets = std::mem::take(&mut layers.secrets);
    load_layers(sources, layers).map_err(|errors| errors.mask(&secrets))
}

fn load_layers(sources: &Sources, mut layers: Layers) -> Result<LoadedConfig, ConfigErrors> {
    let dir = sources.folder()?;
    let mut errors = std::mem::take(&mut layers.errors);
    let warnings = std::mem::take(&mut layers.warnings);
    if layers.unread {
        ConfigErrors::ensure_none(std::mem::take(&mut errors))?;
    }

    let file = sources.location();
    let mut broken = Vec::new();
    // A mistake is one even if a later layer hides it.
    for layer in &layers.layers {
        let alone = Provenance::new(vec![layer.clone()], file.clone());
        let mut diagnostics = Diagnostics::new(&alone, errors, layer.broken.clone());
        let is_readable = deserialize::document(&mut diagnostics, true).is_some();
        let (all_errors, all_broken) = diagnostics.into_parts();
        errors = all_errors;
        broken.extend(all_broken);
        if !is_readable {
            ConfigErrors::ensure_none(std::mem::take(&mut errors))?;
        }
    }
    if let Some(table) = sources.replaced {
        layers.remove_table(table);
    }
    if sources.task.is_some() {
        // Its plan says what to do.
        layers.remove_table("backlog");
    }
    let provenance = Provenance::new(layers.layers, file);
    let mut diagnostics = Diagnostics::new(&provenance, errors, broken);
    let document = deserialize::document(&mut diagnostics, false);
    let config =
        document.map(|document| checks::resolve(document, sources, &dir, &mut diagnostics));
    ConfigErrors::ensure_none(diagnostics.into_parts().0)?;
    match config {
        Some(config) => LoadedConfig::new(config, dir, provenance, sources)
            .map(|loaded| loaded.warned(warnings)),
        None => Err(ConfigError::new(provenance.file(), "", "cannot be understood").into()),
    }
}
