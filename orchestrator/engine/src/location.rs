//! Where a run takes place: its workspace and its prompt, distinguished from whatever replaces them.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::LoadedConfig;
use ralph_orchestrator_machine::{FileIdentity, PathIdentities, PromptIdentity};
use ralph_orchestrator_safe_fs::{SymlinkPolicy, boot_id, escape, read_file, real_path, unescape};
use ralph_orchestrator_store::{Disk, TrustStore, identity_from, identity_of, state_dirs_of};
use ralph_orchestrator_workspace::{
    FileId, PromptPlace, WorkspaceError, WorkspaceHandle, state_dir_name_of_link,
};

use super::error::EngineError;
use super::paths::states_dir;
use super::prompt::PromptSource;

/// The file that says where the path in the configuration leads, where that is another one.
const LEADS_TO: &str = "workspace";
/// Longer than any path.
const LONGEST_PATH: usize = 64 * 1024;

/// Returns what is recorded of the workspace and the prompt.
pub(super) fn pins(workspace: &WorkspaceHandle, prompt: &PromptSource) -> PathIdentities {
    PathIdentities {
        workspace: Some(folder_pin(workspace)),
        prompt: prompt.place().map(prompt_pin),
        role_prompts: prompt.role_places().map(prompt_pin).collect(),
        boot: boot_id(),
        machine: machine(),
    }
}

fn prompt_pin(place: &PromptPlace) -> PromptIdentity {
    PromptIdentity {
        configured: escape(place.configured()),
        file: escape(place.file()),
        shared: place.shared().map(file_pin),
    }
}

const fn file_pin(id: FileId) -> FileIdentity {
    FileIdentity { device: id.device, inode: id.inode, made_ns: None }
}

/// Returns what tells an open folder from others.
pub(super) fn folder_pin(held: &WorkspaceHandle) -> FileIdentity {
    held.folder().metadata().map_or_else(|_| file_pin(held.id()), |found| identity_from(&found))
}

/// Refuses a folder that is not the one in which the run began.
pub(super) fn compare(
    pins: &PathIdentities,
    workspace: &WorkspaceHandle,
) -> Result<(), WorkspaceError> {
    let Some(pin) = pins.workspace else { return Ok(()) };
    let is_elsewhere = !pins.machine.is_empty() && pins.machine != machine();
    if is_elsewhere || is_same_folder(pins, pin, folder_pin(workspace)) {
        return Ok(());
    }
    Err(WorkspaceError::Other { path: workspace.path().to_owned() })
}

/// Whether the run began in this folder, wherever it has been moved since.
pub(super) fn is_pinned_folder(pins: &PathIdentities, folder: &Path) -> bool {
    let (Some(pin), Some(now)) = (pins.workspace, identity_of(folder)) else { return false };
    is_same_folder(pins, pin, now)
}

fn is_same_folder(pins: &PathIdentities, pin: FileIdentity, now: FileIdentity) -> bool {
    if pins.boot == boot_id() { pin.is_same(now) } else { pin.is_same_after_boot(now) }
}

/// Returns a note if the configuration names another prompt than when the run began in the workspace `before`. One that was
/// moved along, with the workspace or a folder around both, is the same.
pub(super) fn other_prompt(
    pins: &PathIdentities,
    prompt: &PromptSource,
    before: &Path,
    workspace: &Path,
) -> Option<String> {
    let (pin, path) = (pins.prompt.as_ref()?, prompt.path()?);
    let pinned = unescape(&pin.configured)?;
    // The workspace may have had another name in between.
    let is_of_old_name = || {
        let inside = path.strip_prefix(workspace).is_ok_and(|inside| pinned.ends_with(inside));
        inside && !pinned.starts_with(workspace) && !pinned.exists()
    };
    let is_moved = is_moved_along((&pinned, before), (path, workspace)) || is_of_old_name();
    (pinned != path && !is_moved).then(|| {
        format!("run.prompt is {} now; this run began with {}", path.display(), pin.configured)
    })
}

/// Whether a file lies to its workspace as another did to its own, where these are one that was moved, by itself or in a folder
/// around both.
fn is_moved_along(before: (&Path, &Path), now: (&Path, &Path)) -> bool {
    let mut around = before.1.ancestors().zip(now.1.ancestors());
    // What has the same name in both is in a folder that was moved.
    let mut is_inside = true;
    let mut levels = std::iter::from_fn(|| {
        let (old, new) = around.next().filter(|_| is_inside)?;
        is_inside = old.file_name() == new.file_name();
        Some((old, new))
    });
    levels.any(|(old, new)| match (before.0.strip_prefix(old), now.0.strip_prefix(new)) {
        (Ok(old), Ok(new)) => old == new,
        _ => false,
    })
}

/// Returns where a folder that the configuration names leads.
///
/// # Errors
/// It leads over a link that an agent could have made: there it would reach what it is kept from.
pub fn follow_to_folder(store: &TrustStore, path: &Path) -> Result<PathBuf, EngineError> {
    store.follow_links(path)?.map_err(|stopping| {
        let path = path.to_owned();
        WorkspaceError::Link { path, link: stopping.link, target: stopping.target }.into()
    })
}

/// Returns the id of the machine; empty where the system has none.
fn machine() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    id.trim().to_owned()
}

/// The paths to the workspace: where the path in the configuration leads, and where it would lead if one
/// of the links in it were none.
pub(super) struct WorkspacePaths {
    /// As configured.
    configured: PathBuf,
    /// Without links.
    real: PathBuf,
    /// The folder of all states; none if the configuration names the state's folder, which belongs to
    /// one workspace.
    states: Option<PathBuf>,
}

impl WorkspacePaths {
    pub(super) fn new(loaded: &LoadedConfig, state_home: &Path) -> Self {
        let default = loaded.config.state.dir.is_none();
        let configured = loaded.configured_workspace();
        Self {
            configured: configured.to_owned(),
            real: real_path(configured),
            states: default.then(|| states_dir(state_home)),
        }
    }

    /// Returns whether a run of any configuration began while this was where its path led.
    fn has_run(&self, path: &Path) -> bool {
        let found = self.states.iter().flat_map(|states| state_dirs_of(states, path));
        found.into_iter().any(|state| state.layout.latch().exists())
    }

    /// Returns each path, with the folder that stores where it led: the same for all configurations.
    fn all(&self) -> Vec<(PathBuf, PathBuf)> {
        let Some(states) = &self.states else { return Vec::new() };
        // Usually there is no link.
        let ancestors = self.configured.ancestors().take(if self.configured == self.real {
            0
        } else {
            usize::MAX
        });
        let mut paths: Vec<PathBuf> = ancestors
            .filter_map(|ancestor| {
                let rest = self.configured.strip_prefix(ancestor).ok()?;
                let real = ancestor.canonicalize().ok()?;
                Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
            })
            .chain([self.real.clone()])
            .collect();
        paths.sort();
        paths.dedup();
        let with_state = |path: PathBuf| (states.join(state_dir_name_of_link(&path)), path);
        paths.into_iter().map(with_state).map(|(state, path)| (path, state)).collect()
    }

    /// Refuses a path that led elsewhere when a run began.
    ///
    /// # Errors
    /// A run began where the path led then.
    pub(super) fn verify(&self) -> Result<(), WorkspaceError> {
        for (path, state) in self.all() {
            let before = match leads_to(&state) {
                Some(before) => before,
                None if path != self.real && self.has_run(&path) => path,
                None => continue,
            };
            if before != self.real {
                return Err(WorkspaceError::Replaced {
                    path: self.configured.clone(),
                    found: format!(
                        "{}, where it leads now instead of {},",
                        self.real.display(),
                        before.display()
                    ),
                });
            }
        }
        Ok(())
    }

    /// Stores where the path leads, for the next start.
    pub(super) fn store(&self, disk: &Disk) -> Result<(), EngineError> {
        for (path, state) in self.all() {
            let before = leads_to(&state);
            if before.as_ref() == Some(&self.real) && path != self.real {
                continue;
            }
            let pointer = state.join(LEADS_TO);
            if path == self.real {
                if before.is_some() {
                    disk.remove_private(&pointer)?;
                }
            } else if path == self.configured || before.is_some() || self.has_run(&path) {
                disk.create_dir(&state)?;
                disk.write_private(&pointer, escape(&self.real).as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns where the path led whose state would be in this folder.
fn leads_to(state: &Path) -> Option<PathBuf> {
    let bytes = read_file(&state.join(LEADS_TO), LONGEST_PATH, SymlinkPolicy::Follow).ok()?;
    unescape(std::str::from_utf8(&bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_moves_along_with_its_workspace_or_a_folder_around_both() {
        for (before, now, expected) in [
            (("/a/PROMPT.md", "/a"), ("/b/PROMPT.md", "/b"), true),
            (("/a/PROMPT.md", "/a/work"), ("/b/PROMPT.md", "/b/work"), true),
            (("/x/a/p/1.md", "/x/a/w"), ("/y/a/p/1.md", "/y/a/w"), true),
            (("/a/PROMPT.md", "/a/work"), ("/b/other.md", "/b/work"), false),
            (("/a/PROMPT.md", "/a/work"), ("/b/PROMPT.md", "/b/other"), false),
            (("/p/PROMPT.md", "/a"), ("/q/PROMPT.md", "/b"), false),
        ] {
            let [before, now] = [before, now].map(|(file, at)| (Path::new(file), Path::new(at)));
            assert_eq!(is_moved_along(before, now), expected, "{before:?} {now:?}");
        }
    }
}
