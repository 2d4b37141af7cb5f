//! Links that an agent could have made, on the way to what decides what runs: followed once a person has accepted them.

use std::path::Path;

use ralph_orchestrator_engine::follow_to_folder;
use ralph_orchestrator_safe_fs::StoppingLink;
use ralph_orchestrator_text::escape;
use ralph_orchestrator_text::shell_word;

use super::Trust;
use crate::context::Context;
use crate::error::CommandError;
use crate::{output, question};

impl Trust {
    /// Returns the first link on the way to a file's folder that an agent could have made and no person has accepted. A
    /// link in the place of the file itself is judged as what the file says.
    ///
    /// # Errors
    /// What is recorded is damaged.
    pub(crate) fn find_link(&self, file: &Path) -> Result<Option<StoppingLink>, CommandError> {
        if self.is_always {
            return Ok(None);
        }
        let stopped = self.store.follow_links_to_file(file)?.err();
        Ok(stopped.filter(|stopping| stopping.link != stopping.path))
    }

    /// Accepts all links on the way to a file or folder, itself included. Returns whether there was one to accept.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub(crate) fn accept_links(&self, path: &Path) -> Result<bool, CommandError> {
        let mut is_any = false;
        // A link in the place of a configuration is accepted as what that says.
        let is_config = path.extension().is_some_and(|extension| extension == "toml");
        while let Err(stopping) = self.store.follow_links_to_file(path)? {
            if is_config && stopping.link == stopping.path {
                break;
            }
            self.store.accept_link(&stopping)?;
            output::result(&format!("accepted {}", describe(&stopping)));
            is_any = true;
        }
        Ok(is_any)
    }
}

/// Has a person accept the links over which the configuration was read, and refuses a workspace that one leads elsewhere.
///
/// # Errors
/// They are not accepted; nothing is started.
pub(super) fn settle_links(context: &Context, trust: &Trust) -> Result<(), CommandError> {
    for stopping in &context.judged.links {
        if !question::is_possible() {
            return Err(refuse_link(stopping));
        }
        output::info(&format!("{}, which an agent could have made", describe(stopping)));
        trust.refuse_from_below()?;
        if !question::confirmed("accept this? [y/N] ")? {
            return Err(CommandError::config("not accepted: nothing was started"));
        }
        trust.store.accept_link(stopping)?;
    }
    let loaded = &context.loaded;
    for folder in [loaded.configured_workspace(), &loaded.config.run.workspace] {
        follow_to_folder(&context.trust_store(), folder)?;
    }
    Ok(())
}

/// Returns the error of a command that starts nothing by a file that lies beyond a link.
pub(crate) fn refuse_link(stopping: &StoppingLink) -> CommandError {
    let message =
        format!("{}, which an agent could have made: nothing was started", describe(stopping));
    CommandError::config(message).hinted(format!(
        "if it is yours, `ralph-orchestrator trust {}` accepts it",
        shell_word(&stopping.link)
    ))
}

fn describe(stopping: &StoppingLink) -> String {
    let (link, target) = (stopping.link.display(), stopping.target.display());
    format!("{} is a link to {}", escape(&link.to_string()), escape(&target.to_string()))
}
