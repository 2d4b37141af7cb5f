//! The key `system_prompt` of adapters.

use ralph_orchestrator_contract::BuildError;

/// Refuses a system prompt that says nothing, that no program can be given, or that `args` give as well: of the
/// two only the last would count. `subject` begins the sentence about that, and `gives` finds the argument.
///
/// # Errors
/// The mistake, with its key.
pub fn validate_system_prompt(
    text: Option<&str>,
    args: &[String],
    subject: &str,
    gives: impl Fn(&str) -> bool,
) -> Result<(), BuildError> {
    let Some(text) = text else { return Ok(()) };
    if text.trim().is_empty() {
        return Err(BuildError::at("system_prompt", "empty; expected a text, or no such key"));
    }
    if text.contains('\0') {
        return Err(BuildError::at("system_prompt", "a text cannot contain a NUL character"));
    }
    match args.iter().position(|arg| gives(arg)) {
        Some(index) => {
            let message = format!("{subject} given by the key `system_prompt` already");
            Err(BuildError::at_element(&["args"], index, message))
        }
        None => Ok(()),
    }
}
