//! Where the state of a configuration lies, and whose it is.

use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{ConfigErrors, LoadedConfig};
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{
    Disk, Layout, Lock, Owner, StateDir, StateError, TrustStore, WorktreeRecord, identity_of,
    list_runs, list_worktrees, read_run, state_dirs,
};
use ralph_orchestrator_workspace::state_dir_name;

use super::construction::error_at;
use super::error::EngineError;

/// Workspaces that had one path, one after the other, and were moved.
const MOST_AT_ONE_PATH: u32 = 9;

/// Returns the owners that the state of this configuration's run may have, the likeliest first: a link may have been
/// put in the place of the file since the run began, and it may have begun by the file that a link leads to.
fn possible_owners(loaded: &LoadedConfig) -> Vec<Owner> {
    let workspace = real_path(loaded.configured_workspace());
    let folder = identity_of(&workspace);
    let owner = |configuration: Option<&Path>| {
        let owner = Owner::new(&workspace, configuration).with_task(loaded.task());
        let owner = owner.with_configuration_folder();
        match folder {
            Some(folder) => owner.with_folder(folder),
            None => owner,
        }
    };
    let named = loaded.configuration();
    let target = named.as_deref().and_then(|file| file.canonicalize().ok());
    let first = owner(named.as_deref());
    let second = target.map(|target| owner(Some(&target))).filter(|second| !second.is_same(&first));
    // So it may have been in the place of a folder on the way.
    let typed = loaded.typed_configuration().map(|file| owner(Some(&file)));
    let third = typed.filter(|third| {
        !third.is_same(&first) && second.as_ref().is_none_or(|second| !third.is_same(second))
    });
    std::iter::once(first).chain(second).chain(third).collect()
}

/// Returns the owner of the state of this configuration's run.
pub(super) fn state_owner(loaded: &LoadedConfig, layout: &Layout) -> Owner {
    let mut owners = possible_owners(loaded);
    let known = Owner::read(layout).ok().flatten();
    let is_known = |owner: &Owner| known.as_ref().is_some_and(|known| owner.is_same(known));
    let position = owners.iter().position(is_known).unwrap_or_default();
    owners.swap_remove(position)
}

/// Refuses a state directory that belongs to another workspace or configuration.
///
/// # Errors
/// It does: the configuration is wrong if it names the directory, and otherwise another directory was put
/// in its place.
pub fn verify_owner(loaded: &LoadedConfig, layout: &Layout) -> Result<(), EngineError> {
    match state_owner(loaded, layout).verify(layout) {
        Err(StateError::Foreign { path, owner, asked }) => {
            let problem = format!("belongs to the run of {owner}, not to that of {asked}");
            if loaded.config.state.dir.is_none() {
                let problem = format!("{problem}; begin a new run with `run --restart`");
                return Err(StateError::Damaged { path, problem }.into());
            }
            let message = format!(
                "the state directory {} {problem}; name another folder, or, if the configuration or \
                 the workspace was moved, put it back",
                path.display()
            );
            Err(error_at(loaded, &["state", "dir"], &message).into())
        }
        verified => Ok(verified?),
    }
}

/// Returns the folder of all states whose place no configuration names, in the user's folder for state.
#[must_use]
pub fn states_dir(state_home: &Path) -> PathBuf {
    state_home.join("ralph-orchestrator")
}

/// Returns where the state of this configuration's run is unless `state.dir` says otherwise.
pub(super) fn default_state_dir(loaded: &LoadedConfig, state_home: &Path) -> PathBuf {
    let states = states_dir(state_home);
    let workspace = real_path(loaded.configured_workspace());
    let place = |owner: &Owner| {
        let all = places(&states, &workspace, owner);
        let is_free =
            |dir: &&PathBuf| find_moved_away(&Layout::new((*dir).clone()), &workspace).is_none();
        // Where several folders had this path, the last of them.
        let known = all.iter().take_while(|dir| dir.exists()).filter(is_free).last();
        known.or_else(|| all.iter().find(is_free)).or(all.first()).cloned().unwrap_or_default()
    };
    let owners = possible_owners(loaded);
    let read = |dir: &Path| Owner::read(&Layout::new(dir.to_owned())).ok().flatten();
    // Of several folders that had this path, each has a state of its own.
    let of_folder = owners.iter().find_map(|owner| {
        let is_its = |dir: &PathBuf| {
            let known = read(dir).filter(|known| owner.is_same(known));
            known.is_some_and(|known| known.has_same_folder(owner))
        };
        owner.folder()?;
        places(&states, &workspace, owner).into_iter().find(is_its)
    });
    if let Some(own) = of_folder {
        return own;
    }
    let own = owners.iter().find_map(|owner| {
        let place = place(owner);
        let known = read(&place).filter(|known| owner.is_same(known))?;
        let is_other =
            known.folder().zip(owner.folder()).is_some_and(|(one, now)| !one.is_same(now));
        Some((place, is_other))
    });
    match own {
        Some((place, false)) => return place,
        // Two folders may have exchanged their names.
        Some((place, true)) => return find_moved(&owners, &states, false).unwrap_or(place),
        None => {}
    }
    if let Some(moved) = find_moved(&owners, &states, true) {
        return moved;
    }
    let usual = owners.iter().find(|owner| owner.distinct_configuration().is_none());
    usual.or(owners.first()).map(place).unwrap_or(states)
}

/// Returns where the state of workspaces that had this path may be, one after the other.
fn places(states: &Path, workspace: &Path, owner: &Owner) -> Vec<PathBuf> {
    let configuration = owner.distinct_configuration();
    let first = states.join(state_dir_name(workspace, configuration.as_deref(), owner.task()));
    let more = (2..=MOST_AT_ONE_PATH).map(|n| add_to_name(&first, &format!("-{n}")));
    std::iter::once(first.clone()).chain(more).collect()
}

/// Whether the runs of a state began in another folder than the one that has the workspace's path now, which may have been
/// moved, and its runs with it; or go on in another one that a person has accepted.
#[must_use]
pub fn is_of_other_folder(loaded: &LoadedConfig, layout: &Layout) -> bool {
    let owner = state_owner(loaded, layout);
    let Some(known) = Owner::read(layout).ok().flatten() else { return false };
    let is_replaced = known
        .folder()
        .zip(owner.folder())
        .is_some_and(|(before, now)| !before.is_same_after_boot(now));
    (owner.is_same(&known) && is_replaced) || owner.is_succeeded_by(&known)
}

/// Returns the folder that a person has accepted in the place of the workspace, where it was last.
pub(super) fn find_successor(loaded: &LoadedConfig, layout: &Layout) -> Option<PathBuf> {
    let known = Owner::read(layout).ok()??;
    state_owner(loaded, layout).is_succeeded_by(&known).then(|| known.workspace())?
}

/// Returns where the state of a new run is that does not care for the one before: what belongs to a folder that was moved
/// stays with that.
///
/// # Errors
/// As of [`state_layout`].
pub fn layout_of_new_run(loaded: &LoadedConfig, state_home: &Path) -> Result<Layout, ConfigErrors> {
    let layout = state_layout(loaded, state_home)?;
    if loaded.config.state.dir.is_some() || !is_of_other_folder(loaded, &layout) {
        return Ok(layout);
    }
    let workspace = real_path(loaded.configured_workspace());
    let owner = state_owner(loaded, &layout);
    let all = places(&states_dir(state_home), &workspace, &owner);
    let mut free = all.into_iter().map(Layout::new).filter(|layout| !layout.owner().exists());
    Ok(free.next().unwrap_or(layout))
}

/// Returns where the workspace is now whose state this is, if it had this path when a run of it began and was moved since:
/// its runs have nothing to do with what has the path now.
pub(super) fn find_moved_away(layout: &Layout, workspace: &Path) -> Option<PathBuf> {
    let owner = Owner::read(layout).ok()??;
    let there = owner.workspace().filter(|there| there != workspace)?;
    let is_there = owner.has_same_folder(&owner.clone().with_folder(identity_of(&there)?));
    let worktrees = list_worktrees(layout);
    let began_here = |run: &String| {
        let found = read_run(layout, run, |_| {}).ok().map(|stored| stored.found);
        let started = found.and_then(|found| found.state.started);
        started.is_some_and(|started| {
            let began = Path::new(&started.workspace);
            // A worktree was made for the checkout whose repository it shares.
            let is_of_checkout = |worktree: &WorktreeRecord| {
                worktree.is_at(began)
                    && worktree.repository().parent().is_some_and(|top| workspace.starts_with(top))
            };
            began == workspace || worktrees.iter().any(is_of_checkout)
        })
    };
    // The state of another workspace that was put there had its runs elsewhere.
    (is_there && list_runs(layout).ok()?.iter().any(began_here)).then_some(there)
}

/// Returns the state of the run whose workspace had another name when it began; or, with `is_any`, one that lies under another
/// name and is this workspace's; or that of a folder that was accepted in the place of this one. To look through all states is worth it
/// only where agents have worked in this very folder, or in one of which this may be a copy.
fn find_moved(owners: &[Owner], states: &Path, is_any: bool) -> Option<PathBuf> {
    let workspace = owners.first().and_then(Owner::workspace)?;
    if !TrustStore::new(states, Disk::default()).knows_folder(&workspace) {
        return None;
    }
    let is_its = |state: &&StateDir| {
        owners.iter().any(|owner| {
            let is_same =
                owner.is_same(&state.owner) && (is_any || owner.has_same_folder(&state.owner));
            is_same || owner.is_moved_from(&state.owner)
        })
    };
    let all = state_dirs(states).into_iter();
    let all: Vec<StateDir> =
        all.filter(|state| state.layout.root().parent() == Some(states)).collect();
    let is_succeeded =
        |state: &&StateDir| owners.iter().any(|owner| owner.is_succeeded_by(&state.owner));
    let found = all.iter().find(is_its).or_else(|| all.iter().find(is_succeeded))?;
    Some(found.layout.root().to_owned())
}

/// Records where the workspace is now if it was moved since its run last began: whatever takes its place later is then
/// told from a folder without a run. That it cannot be written keeps nobody from looking.
pub fn record_move(loaded: &LoadedConfig, layout: &Layout, state_home: &Path) {
    let now = state_owner(loaded, layout);
    let Some(before) = Owner::read(layout).ok().flatten() else { return };
    let Some(workspace) = now.workspace().filter(|_| now.is_moved_from(&before)) else { return };
    if Lock::holder(layout).is_some() {
        return;
    }
    let disk = Disk::default();
    let files = [loaded.configuration(), loaded.typed_configuration()];
    let files: Vec<PathBuf> = files.into_iter().flatten().collect();
    let trust = TrustStore::new(&states_dir(state_home), disk.clone());
    // First, since nothing leads here again once the owner is recorded.
    if trust.record_move(&workspace, &files).is_ok() {
        let now = now.keep_configuration(&before).keep_former(&before);
        let _ = now.record(&disk, layout);
    }
}

fn add_to_name(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Returns where the state of this configuration's run is.
///
/// # Errors
/// It would lie in the workspace, where the agent could reach it.
pub fn state_layout(loaded: &LoadedConfig, state_home: &Path) -> Result<Layout, ConfigErrors> {
    let workspace = real_path(loaded.configured_workspace());
    let root = match &loaded.config.state.dir {
        Some(dir) => match loaded.task() {
            // Beside it, as what is in it may be deleted as a whole.
            Some(task) => add_to_name(dir, &format!("-{task}")),
            None => dir.clone(),
        },
        None => default_state_dir(loaded, state_home),
    };
    // The run may work in another folder than the one that identifies it: a worktree.
    let worktree = real_path(&loaded.config.run.workspace);
    if let Some(workspace) =
        [workspace, worktree].into_iter().find(|folder| real_path(&root).starts_with(folder))
    {
        let message = format!(
            "the state directory {} lies in the workspace {}, within the agent's reach; \
             choose one outside",
            root.display(),
            workspace.display()
        );
        return Err(error_at(loaded, &["state", "dir"], &message));
    }
    Ok(Layout::new(root))
}
