//! `-w`: the run of a workspace, wherever one is, and whatever began it.

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::{
    find_of, is_moved_to, locate_worktrees, read_git_dir, repair_command, worktrees_dir,
};
use ralph_orchestrator_assembly::user_folders::{all_states, state_home, variables};
use ralph_orchestrator_driver::{OpenLane, read_ledger};
use ralph_orchestrator_engine::states_dir;
use ralph_orchestrator_safe_fs::real_path;
use ralph_orchestrator_store::{
    Lock, StateDir, WorktreeRecord, identity_of, list_runs, read_current_run, state_dirs_of,
};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::one_line;

/// The fewest characters of an id that are looked for in all workspaces.
const SHORTEST_ID: usize = 6;

fn states() -> PathBuf {
    states_dir(&state_home(&variables()))
}

/// Returns the configuration of the run in a workspace or a worktree, or of the run whose id begins like this; and the run, if
/// it is an earlier one of its workspace.
pub(crate) fn find(selector: &str) -> Result<(ConfigFile, Option<String>), CommandError> {
    let path = Path::new(selector);
    let absolute = path.canonicalize().or_else(|_| std::path::absolute(path))?;
    if let Some(state) = find_by_folder(&absolute) {
        return Ok((to_config_file_in(&state, &absolute)?, None));
    }
    if let Some(found) = find_by_worktree(&absolute)? {
        return Ok(found);
    }
    let is_id = selector.len() >= SHORTEST_ID
        && selector.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let of_id = if is_id { of_run(selector)? } else { Vec::new() };
    match of_id.as_slice() {
        [state] => Ok((to_config_file(state)?, None)),
        [] => {
            let message =
                format!("no run is known in {} or by the id `{selector}`", absolute.display());
            Err(CommandError::user(message)
                .hinted("`ralph-orchestrator runs --all` lists all runs"))
        }
        _ => {
            let message = format!("runs of several workspaces begin with `{selector}`");
            Err(CommandError::user(message).hinted("give more of the id"))
        }
    }
}

/// Returns the configuration of the run in whose worktree this folder is, if it is in one; and the run, if the workspace has
/// a newer one elsewhere.
pub(crate) fn find_by_worktree(
    here: &Path,
) -> Result<Option<(ConfigFile, Option<String>)>, CommandError> {
    let here = real_path(here);
    let state_home = state_home(&variables());
    let is_usual = here.starts_with(real_path(&worktrees_dir(&state_home)));
    let top = here.ancestors().find(|folder| folder.join(".git").exists());
    let git_dir = top.and_then(read_git_dir);
    if git_dir.is_none() && !is_usual {
        return Ok(None);
    }
    for state in all_states() {
        let checkout = state.owner.workspace().unwrap_or_default();
        let records = locate_worktrees(&state.layout, &state_home, &checkout);
        if let Some(top) = top
            && let Some(record) = records.iter().find(|it| is_moved_to(it, &state.layout, top))
        {
            return Err(moved_worktree(record, &checkout, top));
        }
        if let Some(found) = find_by_lane(&state, &here)? {
            return Ok(Some(found));
        }
        let Some(record) = records.iter().find(|record| here.starts_with(record.folder())) else {
            continue;
        };
        let file = to_config_file(&state)?;
        let current = read_current_run(&state.layout, |_| {}).ok().flatten();
        let is_current = current.as_ref().is_none_or(|found| {
            find_of(&records, found).is_some_and(|of_current| of_current == record)
        });
        let newer = current.filter(|_| !is_current).map(|found| found.run);
        let about = newer.as_ref().map(|run| {
            format!("; its newest run is {run}, and what changes or resumes a run is about that")
        });
        output::info(&format!(
            "using {}: this is the worktree of its run {}{}",
            file.path().display(),
            record.run,
            about.unwrap_or_default()
        ));
        return Ok(Some((file, newer.map(|_| record.run.clone()))));
    }
    if is_usual && let Some(checkout) = git_dir.as_deref().and_then(|it| it.ancestors().nth(3)) {
        output::info(&format!(
            "note: an earlier run made this worktree for {}, and its record is gone; start runs there, not here",
            checkout.display()
        ));
    }
    Ok(None)
}

/// Returns the same if the folder is in the worktree of one of several items that are worked on at once.
fn find_by_lane(
    state: &StateDir,
    here: &Path,
) -> Result<Option<(ConfigFile, Option<String>)>, CommandError> {
    let ledger = read_ledger(&state.layout).ok().flatten().unwrap_or_default();
    let is_here = |open: &OpenLane| here.starts_with(real_path(&open.lane.paths().folder));
    let Some((item, _)) = ledger.lanes.iter().find(|(_, open)| is_here(open)) else {
        return Ok(None);
    };
    let file = to_config_file(state)?;
    output::info(&format!(
        "using {}: this is the worktree of its item {}",
        file.path().display(),
        one_line(item, 80)
    ));
    let run = ledger.latest_of(item).map(|entry| entry.run.clone());
    Ok(Some((file, run)))
}

/// Says that git has to be told where a worktree is now.
fn moved_worktree(record: &WorktreeRecord, checkout: &Path, top: &Path) -> CommandError {
    let error = CommandError::config(format!(
        "this is the worktree of run {}, and git has it at {}, where it was before",
        record.run,
        record.folder().display()
    ));
    match repair_command(record, checkout, top) {
        Some(command) => error.hinted(format!("`{command}` connects it again, and `run` goes on")),
        None => error,
    }
}

/// Returns the state of the run of a folder. That of one which was accepted in its place is meant only if nothing is known of
/// itself, and what is known of another folder that had this path only if there is no such one.
fn find_by_folder(folder: &Path) -> Option<StateDir> {
    let known = state_dirs_of(&states(), folder);
    let now = identity_of(folder);
    let is_its = |state: &StateDir| {
        state.owner.folder().zip(now).is_some_and(|(known, now)| known.is_same(now))
    };
    let (own, others): (Vec<_>, Vec<_>) = known.into_iter().partition(is_its);
    if !own.is_empty() {
        return Some(choose(own));
    }
    let has_succeeded =
        |state: &StateDir| now.is_some_and(|folder| state.owner.has_succeeded(folder));
    let successors: Vec<_> = all_states().into_iter().filter(has_succeeded).collect();
    let states = if successors.is_empty() { others } else { successors };
    (!states.is_empty()).then(|| choose(states))
}

/// Returns the configuration of a run whose workspace is this folder now, wherever it was when the run began.
fn to_config_file_in(state: &StateDir, folder: &Path) -> Result<ConfigFile, CommandError> {
    let before = state.owner.workspace().filter(|before| before != folder);
    let configuration = state.owner.configuration();
    let inside = before
        .and_then(|before| Some(configuration.as_deref()?.strip_prefix(before).ok()?.to_owned()));
    match inside {
        Some(inside) => {
            let file = ConfigFile::named(folder.join(inside));
            Ok(file.with_task(state.owner.task().map(str::to_owned)))
        }
        None => to_config_file(state),
    }
}

/// Returns the state directories of which this is the run.
fn of_run(prefix: &str) -> Result<Vec<StateDir>, CommandError> {
    let mut found = Vec::new();
    for state in all_states() {
        let runs = list_runs(&state.layout)?;
        let Some(run) = runs.iter().find(|run| run.starts_with(prefix)) else { continue };
        if state.run().is_some_and(|current| current != *run) {
            let workspace = state.owner.workspace().unwrap_or_default();
            let message = format!("run {run} is an earlier one of {}", workspace.display());
            return Err(CommandError::user(message)
                .hinted("`-w WORKSPACE status --run ID` shows an earlier run"));
        }
        found.push(state);
    }
    Ok(found)
}

/// The active one, or else the one with the newest run.
fn choose(mut states: Vec<StateDir>) -> StateDir {
    let count = states.len();
    states.sort_by_key(|state| (Lock::holder(&state.layout).is_some(), state.run()));
    let chosen = states.swap_remove(count - 1);
    if count > 1
        && let Some(file) = chosen.owner.configuration()
    {
        output::info(&format!("using {}, the newest of {count} configurations", file.display()));
    }
    chosen
}

/// Returns the configuration that the run of a state directory was begun with.
pub(crate) fn to_config_file(state: &StateDir) -> Result<ConfigFile, CommandError> {
    let owner = &state.owner;
    let file = match owner.configuration() {
        // The file identifies the run: without it there is no telling that it is this one.
        Some(file) if owner.distinct_configuration().is_some() && !file.exists() => {
            let message = format!("the configuration of this run is gone: {}", file.display());
            return Err(
                CommandError::user(message).hinted("put it back, or `runs --all` shows the run")
            );
        }
        Some(file) => ConfigFile::named(file),
        None => {
            let workspace = owner.workspace().ok_or_else(|| {
                let root = state.layout.root().display();
                CommandError::user(format!("{root}: the path of its workspace cannot be read"))
            })?;
            ConfigFile::without_file_in(workspace)
        }
    };
    Ok(file.with_task(owner.task().map(str::to_owned)))
}
