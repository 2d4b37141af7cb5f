//! What a configuration has where it names nothing.

use ralph_orchestrator_config::Defaults;

use crate::presets;

/// Returns the names of the adapter and the detectors where a configuration names none, and of validators that are not
/// required.
pub fn config_defaults() -> Defaults {
    Defaults {
        adapter: "claude-cli".to_owned(),
        detectors: vec!["promise".to_owned(), "marker".to_owned()],
        presets: presets::all(),
        optional_validators: vec![ralph_validator_review::KIND.to_owned()],
    }
}
