//! What every command needs: the configuration and where the state lies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orchestrator::config::{self, Loaded, Sources};
use orchestrator::engine::{state_layout, verify_owner};
use orchestrator::state::Layout;

use crate::args::Sets;
use crate::error::CommandError;

/// The configuration as it was asked for.
pub(crate) struct Context {
    pub(crate) file: PathBuf,
    pub(crate) loaded: Loaded,
    pub(crate) vars: BTreeMap<String, String>,
}

impl Context {
    /// Reads the configuration.
    pub(crate) fn load(file: &Path, sets: Vec<(String, String)>) -> Result<Self, CommandError> {
        let vars = variables();
        let file = std::path::absolute(file)?;
        let loaded = config::load(&sources(&file, &vars, sets))?;
        Ok(Self { file, loaded, vars })
    }

    /// What a configuration that is wrong says of where its run is; nothing may be started with it.
    pub(crate) fn load_places(file: &Path, sets: Vec<(String, String)>) -> Option<Self> {
        let vars = variables();
        let file = std::path::absolute(file).ok()?;
        let loaded = config::load_places(&sources(&file, &vars, sets))?;
        Some(Self { file, loaded, vars })
    }

    /// Reads the configuration with what was set on the command line.
    pub(crate) fn with(file: &Path, sets: &Sets) -> Result<Self, CommandError> {
        Self::load(file, sets.sets.clone())
    }

    /// Where the state of its run lies.
    pub(crate) fn layout(&self) -> Result<Layout, CommandError> {
        let layout = state_layout(&self.loaded, &self.state_home())?;
        verify_owner(&self.loaded, &layout)?;
        Ok(layout)
    }

    /// The same, to be deleted: what was put in the place of its own can only be that.
    pub(crate) fn layout_to_delete(&self) -> Result<Layout, CommandError> {
        match self.loaded.config.state.dir {
            Some(_) => self.layout(),
            None => Ok(state_layout(&self.loaded, &self.state_home())?),
        }
    }

    /// Where private copies of plugin libraries are kept.
    pub(crate) fn plugin_copies(&self) -> PathBuf {
        plugin_copies(&self.vars)
    }

    /// `$XDG_STATE_HOME`, or `~/.local/state`.
    pub(crate) fn state_home(&self) -> PathBuf {
        home(&self.vars, "XDG_STATE_HOME", ".local/state")
    }
}

/// How this program is called for a configuration, to be copied into a shell.
pub(crate) fn program(file: &Path) -> String {
    const NAME: &str = "ralph-orchestrator";
    if file == Path::new("ralph.toml") {
        return NAME.to_owned();
    }
    let text = file.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,@%".contains(letter);
    let text = if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    };
    format!("{NAME} -c {text}")
}

fn sources(file: &Path, vars: &BTreeMap<String, String>, sets: Vec<(String, String)>) -> Sources {
    let ralph = vars.iter().filter(|(name, _)| name.starts_with("RALPH_"));
    Sources {
        file: file.to_owned(),
        user_file: user_file(vars),
        vars: ralph.map(|(name, value)| (name.clone(), value.clone())).collect(),
        sets,
    }
}

/// The environment, without what is no text.
pub(crate) fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Below `$XDG_CACHE_HOME`, or `~/.cache`.
pub(crate) fn plugin_copies(vars: &BTreeMap<String, String>) -> PathBuf {
    home(vars, "XDG_CACHE_HOME", ".cache").join("ralph-orchestrator/plugins")
}

/// `$XDG_CONFIG_HOME`, or `~/.config`.
pub(crate) fn config_home(vars: &BTreeMap<String, String>) -> PathBuf {
    home(vars, "XDG_CONFIG_HOME", ".config")
}

pub(crate) fn user_file(vars: &BTreeMap<String, String>) -> Option<PathBuf> {
    let file = config_home(vars).join("ralph-orchestrator/config.toml");
    file.exists().then_some(file)
}

/// An XDG folder: the variable if it is an absolute path, else the folder below the home directory.
fn home(vars: &BTreeMap<String, String>, name: &str, below: &str) -> PathBuf {
    vars.get(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| etcetera::home_dir().ok().map(|home| home.join(below)))
        .unwrap_or_else(|| std::env::temp_dir().join("ralph-orchestrator-state"))
}

/// What is said where there is nothing to show.
pub(crate) const NO_RUN: &str = "no run in this workspace yet";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_copied_into_a_shell() {
        let program = |file: &str| program(Path::new(file));
        assert_eq!(program("ralph.toml"), "ralph-orchestrator");
        assert_eq!(program("a/b.toml"), "ralph-orchestrator -c a/b.toml");
        assert_eq!(program("it's $x.toml"), r"ralph-orchestrator -c 'it'\''s $x.toml'");
    }
}
