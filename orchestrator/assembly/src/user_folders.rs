//! The user's folders, as the environment has them.

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};

use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{StateDir, state_dirs};

/// The environment, without what is no text.
pub fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Below `$XDG_CACHE_HOME`, or `~/.cache`.
pub fn plugin_cache(vars: &BTreeMap<String, String>) -> PathBuf {
    cache_home(vars).join("ralph-orchestrator/plugins")
}

/// `$XDG_CACHE_HOME`, or `~/.cache`.
pub fn cache_home(vars: &BTreeMap<String, String>) -> PathBuf {
    home_of(vars, "XDG_CACHE_HOME", ".cache")
}

/// `$XDG_CONFIG_HOME`, or `~/.config`.
pub fn config_home(vars: &BTreeMap<String, String>) -> PathBuf {
    home_of(vars, "XDG_CONFIG_HOME", ".config")
}

/// The user's own configuration, whether it is there or not.
pub fn user_file(vars: &BTreeMap<String, String>) -> PathBuf {
    config_home(vars).join("ralph-orchestrator/config.toml")
}

/// The variable of the folder for state.
pub const STATE_HOME: &str = "XDG_STATE_HOME";

/// `$XDG_STATE_HOME`, or `~/.local/state`.
pub fn state_home(vars: &BTreeMap<String, String>) -> PathBuf {
    home_of(vars, STATE_HOME, ".local/state")
}

/// Returns all state directories of this user, by their paths.
pub fn all_states() -> Vec<StateDir> {
    state_dirs(&states_dir(&state_home(&variables())))
}

/// An XDG folder: the variable if it is an absolute path, else the folder below the home directory.
pub fn home_of(vars: &BTreeMap<String, String>, name: &str, below: &str) -> PathBuf {
    vars.get(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .map(without_parents)
        .or_else(|| etcetera::home_dir().ok().map(|home| home.join(below)))
        .unwrap_or_else(|| std::env::temp_dir().join("ralph-orchestrator-state"))
}

/// Returns the path without `..`, which leads elsewhere where a link is before it.
fn without_parents(path: PathBuf) -> PathBuf {
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    if has_parent { real_path(&path) } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_without_the_way_back() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        for (path, expected) in [
            ("link/../state", "a/state"),
            ("no/where/../state", "no/state"),
            ("link/state", "link/state"),
        ] {
            let path = root.join(path).display().to_string();
            let vars = BTreeMap::from([(STATE_HOME.to_owned(), path.clone())]);
            assert_eq!(state_home(&vars), root.join(expected), "{path}");
        }
    }
}
