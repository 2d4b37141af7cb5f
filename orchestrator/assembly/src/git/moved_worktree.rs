//! Finds a worktree that was moved since it was recorded: by `git worktree move`, or with the folder of all state.
//!
//! What git has of it, an agent can have written: a folder is believed if it is the one in which the run began.

use std::path::{Path, PathBuf};

use ralph_orchestrator_engine::is_run_folder;
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::{Layout, WorktreeRecord, list_worktrees, read_run};
use ralph_orchestrator_workspace::common_git_folder;

/// The folder of all worktrees, beside that of all states.
const FOLDER: &str = "ralph-orchestrator-worktrees";
/// Longer than the files by which a worktree and its repository name each other.
const LONGEST_LINK: usize = 64 * 1024;

/// Returns the folder of all worktrees, beside the one of all states, which no agent may reach.
pub fn worktrees_dir(state_home: &Path) -> PathBuf {
    state_home.join(FOLDER)
}

/// Returns the worktrees of a state directory where they are now, the newest first. `checkout` is the user's workspace.
pub fn locate_worktrees(
    layout: &Layout,
    state_home: &Path,
    checkout: &Path,
) -> Vec<WorktreeRecord> {
    let locate = |record: WorktreeRecord| match find_moved(&record, layout, state_home, checkout) {
        Some(folder) => record.moved_to(&folder),
        None => record,
    };
    list_worktrees(layout).into_iter().map(locate).collect()
}

fn find_moved(
    record: &WorktreeRecord,
    layout: &Layout,
    state_home: &Path,
    checkout: &Path,
) -> Option<PathBuf> {
    let folder = record.folder();
    if folder.join(".git").exists() {
        return None;
    }
    let name = record.name()?;
    let beside_state = worktrees_dir(state_home).join(&name);
    let repositories = [record.repository()].into_iter().chain(common_git_folder(checkout));
    let by_git = repositories.filter_map(|repository| {
        let git_dir = repository.join("worktrees").join(&name);
        let folder = find_linked_folder(&git_dir)?;
        (read_git_dir(&folder)?.canonicalize().ok()? == git_dir.canonicalize().ok()?)
            .then_some(folder)
    });
    let found = Some(beside_state.canonicalize().ok()).into_iter().flatten().chain(by_git);
    let found: Vec<PathBuf> = found.collect();
    found.into_iter().find(|folder| is_its_folder(record, layout, folder))
}

/// Whether a worktree was moved to this folder, of which git knows nothing.
pub fn is_moved_to(record: &WorktreeRecord, layout: &Layout, folder: &Path) -> bool {
    !record.folder().join(".git").exists() && is_its_folder(record, layout, folder)
}

/// Whether this folder names the worktree's git directory as its own, and is the one in which its run began.
fn is_its_folder(record: &WorktreeRecord, layout: &Layout, folder: &Path) -> bool {
    let (Some(git_dir), Some(name)) = (read_git_dir(folder), record.name()) else { return false };
    // Read only if it can be: a worktree that was removed is nothing to wait for.
    if git_dir.file_name() != Some(name.as_os_str()) {
        return false;
    }
    let workspace = record.clone().moved_to(folder).workspace();
    read_run(layout, &record.run, |_| {})
        .is_ok_and(|stored| is_run_folder(&stored.found, &workspace))
}

/// Returns the git directory that a worktree's folder names as its own, wherever that is.
pub fn read_git_dir(folder: &Path) -> Option<PathBuf> {
    let text = read_text(&folder.join(".git"))?;
    Some(folder.join(text.strip_prefix("gitdir:")?.trim()))
}

/// Returns, for people, why a worktree and its repository do not find each other, as after either was moved.
pub fn find_disconnection(folder: &Path) -> Option<String> {
    let git_dir = read_git_dir(folder)?;
    if !git_dir.exists() {
        let repository = git_dir.display();
        return Some(format!("belongs to the repository at {repository}, which is not there"));
    }
    let is_found = find_linked_folder(&git_dir).is_some();
    (!is_found).then(|| "belongs to a repository that has it at another path".to_owned())
}

/// Returns the command that connects a worktree, which is in this folder now, and the checkout's repository again; `None` if
/// that is another one, such as a clone in the place of a checkout that was moved.
pub fn repair_command(record: &WorktreeRecord, checkout: &Path, folder: &Path) -> Option<String> {
    let git_dir = common_git_folder(checkout)?.join("worktrees").join(record.name()?);
    git_dir
        .exists()
        .then(|| format!("git -C {} worktree repair {}", quote_word(checkout), quote_word(folder)))
}

/// Returns the folder that git has for the worktree with this git directory, if it is there.
fn find_linked_folder(git_dir: &Path) -> Option<PathBuf> {
    let link = git_dir.join(read_text(&git_dir.join("gitdir"))?.trim());
    link.parent()?.canonicalize().ok()
}

fn read_text(path: &Path) -> Option<String> {
    String::from_utf8(read_file(path, LONGEST_LINK, SymlinkPolicy::Refuse).ok()?).ok()
}
