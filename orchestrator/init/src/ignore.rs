//! What running checks leaves behind, and git should not see.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use ralph_orchestrator_assembly::error::CommandError;

/// Those of these lines that the `.gitignore` of a folder does not have. None if the folder is in no
/// repository.
pub(crate) fn missing(folder: &Path, lines: &[&'static str]) -> Vec<&'static str> {
    if !is_in_repository(folder) {
        return Vec::new();
    }
    let text = fs::read_to_string(folder.join(".gitignore")).unwrap_or_default();
    let plain = |line: &str| line.trim().trim_matches('/').to_owned();
    let has: Vec<String> = text.lines().map(plain).collect();
    lines.iter().copied().filter(|line| !has.contains(&plain(line))).collect()
}

/// Whether the folder, or one above it, is a git repository.
pub fn is_in_repository(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.ancestors().any(|above| above.join(".git").exists())
}

/// Appends lines to the `.gitignore` of a folder.
///
/// # Errors
/// It cannot be written, or is a link.
pub(crate) fn add(folder: &Path, lines: &[&str]) -> Result<(), CommandError> {
    let path = folder.join(".gitignore");
    let failed = |error: std::io::Error| {
        CommandError::user(format!("cannot write {}: {error}", path.display()))
    };
    match fs::symlink_metadata(&path) {
        Ok(meta) if !meta.is_file() => {
            let message = format!("{} is no regular file: nothing was added to it", path.display());
            return Err(CommandError::user(message));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let before = fs::read(&path).unwrap_or_default();
    let start = if before.is_empty() || before.ends_with(b"\n") { "" } else { "\n" };
    let text = format!("{start}{}\n", lines.join("\n"));
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)
}
