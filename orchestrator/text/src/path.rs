//! Formats paths.

use std::path::Path;

/// A path, with `~` for the home directory.
pub fn shorten_home(path: &Path) -> String {
    let home = etcetera::home_dir().ok();
    match home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => Path::new("~").join(rest).display().to_string(),
        None => path.display().to_string(),
    }
}
