//! The key for a way of working, and what it stands for.

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
