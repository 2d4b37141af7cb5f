//! Links that an agent could have made, on the way to what decides what runs: followed once a person has accepted them.

use std::path::Path;

use ralph_orchestrator_safe_fs::StoppingLink;
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::StateError;
use ralph_orchestrator_text::escape;

use super::Trust;
use crate::error::CommandError;

impl Trust {
    /// Returns the first link on the way to a file's folder that an agent could have made and no person has accepted. A
    /// link in the place of the file itself is judged as what the file says.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub fn find_link(&self, file: &Path) -> Result<Option<StoppingLink>, CommandError> {
        if self.is_always {
            return Ok(None);
        }
        let stopped = self.store.follow_links_to_file(file)?.err();
        Ok(stopped.filter(|stopping| stopping.link != stopping.path))
    }

    /// Accepts a link.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn accept_link(&self, stopping: &StoppingLink) -> Result<(), StateError> {
        self.store.accept_link(stopping)
    }

    /// Accepts all links on the way to a file or folder, itself included, and gives `each` a description of each.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn accept_links(
        &self,
        path: &Path,
        mut each: impl FnMut(&str),
    ) -> Result<(), CommandError> {
        // A link in the place of a configuration is accepted as what that says.
        let is_config = path.extension().is_some_and(|extension| extension == "toml");
        let mut is_named = is_config;
        while let Err(stopping) = self.store.follow_links_to_file(path)? {
            if is_config && stopping.link == stopping.path {
                break;
            }
            self.store.accept_link(&stopping)?;
            each(&describe_link(&stopping));
            is_named |= stopping.link == stopping.path;
        }
        // One that stops only the way to a file beyond it is accepted by its own name.
        if let Some(named) = name_link(path).filter(|_| !is_named) {
            self.store.accept_link(&named)?;
            each(&describe_link(&named));
        }
        Ok(())
    }
}

/// Returns the link that a path is, if it is one.
fn name_link(path: &Path) -> Option<StoppingLink> {
    let target = std::fs::read_link(path).ok()?;
    let absolute = std::path::absolute(path).ok()?;
    let link = absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?);
    Some(StoppingLink { path: link.clone(), link, target })
}

/// Returns the error of a command that starts nothing by a file that lies beyond a link.
pub fn refuse_link(stopping: &StoppingLink) -> CommandError {
    let message =
        format!("{}, which an agent could have made: nothing was started", describe_link(stopping));
    CommandError::config(message).hinted(format!(
        "if it is yours, `ralph-orchestrator trust {}` accepts it",
        quote_word(&stopping.link)
    ))
}

/// Returns where a link leads, in words.
pub fn describe_link(stopping: &StoppingLink) -> String {
    let (link, target) = (stopping.link.display(), stopping.target.display());
    format!("{} is a link to {}", escape(&link.to_string()), escape(&target.to_string()))
}
