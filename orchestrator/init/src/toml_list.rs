//! Lists of strings as a configuration has them.

use ralph_orchestrator_assembly::error::CommandError;

/// Returns a list of strings, which is the same in TOML as in JSON.
pub(crate) fn list<S: serde::Serialize>(words: &[S]) -> Result<String, CommandError> {
    let words: Result<Vec<String>, _> = words.iter().map(serde_json::to_string).collect();
    Ok(format!("[{}]", words.map_err(CommandError::internal)?.join(", ")))
}
