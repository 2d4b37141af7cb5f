//! A plugin that its author has started by himself, such as under a debugger.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ralph_orchestrator_config::PluginConfig;
use ralph_orchestrator_engine::states_dir;

use crate::context::Context;
use crate::error::CommandError;
use crate::messages;
use crate::run_above::find_any_run_above;

/// Names the plugin and its socket. Only a variable can: a file could be an agent's.
const VARIABLE: &str = "RALPH_PLUGIN_ATTACH";

/// The plugin that is not started but connected to, and the socket on which it listens.
#[derive(Debug)]
pub(crate) struct PluginAttachment {
    name: String,
    socket: PathBuf,
}

impl PluginAttachment {
    /// Returns what the variable names; `None` if it is not set.
    ///
    /// # Errors
    /// It is not NAME=SOCKET, or a run has started this command.
    pub(crate) fn from_context(context: &Context) -> Result<Option<Self>, CommandError> {
        let Some(value) = context.vars.get(VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let parts = value.split_once('=').filter(|(name, _)| !name.is_empty());
        let Some((name, socket)) = parts.filter(|(_, socket)| Path::new(socket).is_absolute())
        else {
            let message = format!("{VARIABLE}={value}: expected NAME=SOCKET");
            return Err(CommandError::user(message).hinted(
                "name a plugin of ralph.toml and the absolute path on which it listens, such as \
                 mine=/tmp/mine.sock",
            ));
        };
        if let Some(pid) = find_any_run_above(&states_dir(&context.state_home())) {
            let message = format!(
                "{VARIABLE} is refused to what a run has started (the run's process is {pid})"
            );
            return Err(CommandError::user(message).hinted("use another terminal"));
        }
        if !context.loaded.config.plugins.contains_key(name) {
            messages::info(&format!("note: {VARIABLE} names `{name}`, which is no plugin here"));
        }
        Ok(Some(Self { name: name.to_owned(), socket: socket.into() }))
    }

    /// Returns the socket of the plugin if it is this one, and reports once that it is attached.
    ///
    /// # Errors
    /// It cannot be attached: the key of its table that keeps it from that, and why.
    pub(crate) fn socket_of(
        &self,
        name: &str,
        config: &PluginConfig,
    ) -> Result<Option<&Path>, (&'static str, String)> {
        static REPORTED: AtomicBool = AtomicBool::new(false);
        if self.name != name {
            return Ok(None);
        }
        if config.library.is_some() {
            let why = "a library cannot be attached, only a program with `command`";
            return Err(("library", format!("{why}; unset {VARIABLE}")));
        }
        if config.digest.is_some() {
            let why = "what is attached has no content to compare";
            return Err((
                "digest",
                format!("{why}; leave it out while you debug, or unset {VARIABLE}"),
            ));
        }
        if !REPORTED.swap(true, Ordering::Relaxed) {
            messages::info(&format!(
                "note: the plugin `{name}` is attached at {}: it is not started, and works without the sandbox and \
                 without the time-outs of the protocol",
                self.socket.display()
            ));
        }
        Ok(Some(&self.socket))
    }
}
