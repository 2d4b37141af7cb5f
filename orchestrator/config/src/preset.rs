//! Ways of working, and other defaults, that only the caller knows.

/// The key that names a preset.
pub(crate) const PRESET: &str = "preset";

/// Values for one way of working, chosen by `preset = "NAME"`: they come after the defaults and before
/// everything that somebody wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// Its values, in the form of `ralph.toml`.
    pub toml: String,
}

/// Defaults that name adapters, detectors or ways of working, which only the caller knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The adapter of an agent that names none. Empty: naming one is required.
    pub adapter: String,
    /// The detectors where none is named. Empty: naming one is required.
    pub detectors: Vec<String>,
    /// What `preset` can name.
    pub presets: Vec<Preset>,
    /// The kinds of validators that completion needs only where the table says so.
    pub optional_validators: Vec<String>,
}
