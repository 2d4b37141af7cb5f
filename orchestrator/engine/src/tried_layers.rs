//! Whether checks can be run in layers here: tried once for a place, since it takes longer than a quick check.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ralph_orchestrator_checkout::CheckoutError;
use ralph_orchestrator_safe_fs::boot_id;

use super::error::EngineError;
use super::session::Session;

/// The lines of a process's status that say what the kernel allows it.
const RIGHTS: [&str; 6] = ["Uid:", "Gid:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:"];
/// A longer record is none.
const RECORD_LIMIT: usize = 4096;

impl Session {
    /// Tries the layers, with a storage in this folder, over the workspace, unless they are known to work. Only that is
    /// recorded: whoever forges it makes checks fail, and has none run elsewhere.
    pub(super) async fn try_layers(
        &self,
        folder: &Path,
        workspace: &Path,
    ) -> Result<(), EngineError> {
        let (store, place) = (&self.journal.store, describe_place(folder, workspace));
        let (disk, record) = (store.disk(), store.layout().tried_layers());
        let known = disk.read_if_exists(&record, RECORD_LIMIT)?;
        if place.as_deref().is_some_and(|place| known.as_deref() == Some(place.as_bytes())) {
            return Ok(());
        }
        let tried = self.context.processes.check_layers(folder, workspace).await;
        tried.map_err(|reason| CheckoutError::Unavailable { reason })?;
        if let Some(place) = place {
            disk.write_unsynced(&record, place.as_bytes())?;
        }
        Ok(())
    }
}

/// Returns what decides whether layers work: the kernel since its start, both file systems, and what this process may do.
fn describe_place(folder: &Path, workspace: &Path) -> Option<String> {
    let boot = Some(boot_id()).filter(|id| !id.is_empty())?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rights = status.lines().filter(|line| RIGHTS.iter().any(|right| line.starts_with(right)));
    let rights: Vec<&str> = rights.collect();
    let namespaces =
        ["user", "mnt"].map(|name| fs::read_link(format!("/proc/self/ns/{name}")).ok());
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    Some(format!(
        "{}\n{namespaces:?}\n{:?} {:?}\n{}\n",
        boot,
        device(folder)?,
        device(workspace)?,
        rights.join("\n")
    ))
}
