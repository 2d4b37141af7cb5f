//! The line of a prompt that `init` wrote which says that the task is still to be described.

use std::fs;
use std::path::Path;

use ralph_orchestrator_config::Config;

use crate::error::CommandError;

/// The line that the user replaces.
pub const PLACEHOLDER: &str = "Describe the task and its acceptance criteria here.";
/// Larger files are not from here.
const MOST: u64 = 64 * 1024;

/// Where the prompt is still as `init` wrote it, such as `PROMPT.md:3`.
pub fn placeholder(config: &Config) -> Option<String> {
    let path = config.run.prompt.as_deref()?;
    Some(format!("{}:{}", path.display(), placeholder_line(path)?))
}

/// Returns whether a prompt is still as `init` wrote it.
pub fn is_placeholder(path: &Path) -> bool {
    placeholder_line(path).is_some()
}

/// Returns the line of a file that the user has still to replace, from 1.
fn placeholder_line(path: &Path) -> Option<usize> {
    fs::metadata(path).ok().filter(|meta| meta.is_file() && meta.len() <= MOST)?;
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().position(|line| line.trim() == PLACEHOLDER)?;
    Some(line + 1)
}

/// Refuses a run that would pay for a task that is not described.
///
/// # Errors
/// The place to edit.
pub fn refuse_placeholder(config: &Config) -> Result<(), CommandError> {
    match placeholder(config) {
        Some(place) => Err(CommandError::config(needs_task(&place))
            .hinted("nothing was started; describe the task in place of that line")),
        None => Ok(()),
    }
}

/// What is wrong with such a prompt.
pub fn needs_task(place: &str) -> String {
    format!("{place}: the prompt still says {PLACEHOLDER:?}")
}
