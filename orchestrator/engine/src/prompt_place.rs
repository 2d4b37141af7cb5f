//! The places of files whose content an agent is given: where their paths led when the run began, or lead now.

use std::path::Path;

use ralph_orchestrator_machine::PathIdentities;
use ralph_orchestrator_safe_fs::{normalize_lexically, unescape};
use ralph_orchestrator_store::TrustStore;
use ralph_orchestrator_workspace::{FileId, PromptPlace};

/// Returns the recorded place of the prompt, unless the configuration names another one now.
pub(super) fn find_recorded_prompt(
    pins: &PathIdentities,
    configured: &Path,
) -> Option<PromptPlace> {
    let mut recorded = pins.prompt.iter().chain(&pins.role_prompts);
    let pin =
        recorded.find(|pin| unescape(&pin.configured).is_some_and(|path| path == configured))?;
    let shared = pin.shared.map(|pin| FileId { device: pin.device, inode: pin.inode });
    Some(PromptPlace::recorded(configured.to_owned(), unescape(&pin.file)?, shared))
}

/// Returns the place of a file whose content an agent is given: a link that an agent could have made is not followed to it.
pub(super) fn locate(store: &TrustStore, configured: &Path) -> PromptPlace {
    let file = match store.follow_links(configured) {
        Ok(Ok(file)) => file,
        Ok(Err(stopping)) => stopping.path,
        // What is recorded is damaged, as other parts report: then no link is followed.
        Err(_) => normalize_lexically(configured),
    };
    PromptPlace::locate_at(configured, file)
}
