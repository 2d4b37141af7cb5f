//! The presets: values for known ways of working, each a file in the form of `ralph.toml`.

use ralph_orchestrator_config::Preset;

/// Name and values of each preset.
const PRESETS: [(&str, &str); 3] = [
    ("ralph", include_str!("presets/ralph.toml")),
    ("ada", include_str!("presets/ada.toml")),
    ("autocoder", include_str!("presets/autocoder.toml")),
];

/// Returns all presets.
pub(crate) fn all() -> Vec<Preset> {
    let preset = |(name, toml): (&str, &str)| Preset { name: name.into(), toml: toml.into() };
    PRESETS.map(preset).to_vec()
}
