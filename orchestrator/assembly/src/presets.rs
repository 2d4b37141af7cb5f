//! The presets: values for known ways of working, each a file in the form of `ralph.toml`.

use ralph_orchestrator_config::Preset;

/// The preset that tasks are worked on by, unless another one is named.
pub const PURE_LOOP: &str = "pure-loop";

/// Name and values of each preset.
const PRESETS: [(&str, &str); 4] = [
    ("ralph", include_str!("presets/ralph.toml")),
    (PURE_LOOP, include_str!("presets/pure-loop.toml")),
    ("ada", include_str!("presets/ada.toml")),
    ("autocoder", include_str!("presets/autocoder.toml")),
];

/// Returns all presets.
pub fn all() -> Vec<Preset> {
    let preset = |(name, toml): (&str, &str)| Preset { name: name.into(), toml: toml.into() };
    PRESETS.map(preset).to_vec()
}
