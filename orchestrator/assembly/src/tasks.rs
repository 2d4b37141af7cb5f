//! Tasks: folders `.ralph/NAME` in the workspace, each with a plan that says what to do. Agents can write there, so
//! no link is followed.

use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_config::{LoadedConfig, PlanFile, TaskSource};
use ralph_orchestrator_safe_fs::{
    DirLister, FileFingerprint, open_folder, open_subfolder, real_path,
};
use ralph_orchestrator_text::one_line;
use rustix::fd::AsFd as _;
use rustix::fs::FileType;
use rustix::io::Errno;
use toml::{Table, Value};

use crate::config_values;
use crate::error::CommandError;
use crate::file_owner::is_trusted;
use crate::presets::PURE_LOOP;

/// The folder of all tasks.
pub const FOLDER: &str = ".ralph";
/// What the names of the tasks begin with that have a number.
pub const PREFIX: &str = "ralph-";
/// What to do.
pub const PLAN: &str = "plan.md";
/// What was done.
pub const PROGRESS: &str = "progress.md";
/// What failed.
pub const ERRORS: &str = "errors.log";

/// Names in the folder of all tasks that are read.
const MOST_NAMES: usize = 10_000;
/// Tasks that a message names.
const MOST_NAMED: usize = 20;
/// Characters of a task in a list.
const SHOWN: usize = 60;

/// Returns the first of these folders, the current one before those above it, that has tasks; the current one if
/// none has. A plan names a command that is run, so one that another user has put into a folder above is not taken.
pub fn project(folders: &[PathBuf]) -> PathBuf {
    let here = folders.first().cloned().unwrap_or_default();
    let has_tasks = |folder: &&PathBuf| {
        let tasks = folder.join(FOLDER);
        let is_folder = std::fs::symlink_metadata(&tasks).is_ok_and(|found| found.is_dir());
        is_folder && (**folder == here || is_trusted(&tasks, &here))
    };
    folders.iter().find(has_tasks).cloned().unwrap_or(here)
}

/// Returns what to do in a task, in short, as its plan has it now.
pub fn title(workspace: &Path, id: &str) -> String {
    let plan = PlanFile::read(&path_of_plan(workspace, id));
    one_line(plan.value("task").unwrap_or_default(), SHOWN)
}

/// Refuses a run of the preset for tasks that has none: its prompt speaks of a plan.
///
/// # Errors
/// What to do instead.
pub fn require(loaded: &LoadedConfig) -> Result<(), CommandError> {
    let config = &loaded.config;
    let is_of_tasks = config.preset.as_deref() == Some(PURE_LOOP)
        && config.prompts.as_ref().is_some_and(|prompts| prompts.names.coding == PURE_LOOP);
    let has_text = config.run.prompt.is_some() || config.run.prompt_text.is_some();
    if !is_of_tasks || has_text || loaded.task().is_some() || config.backlog.is_some() {
        return Ok(());
    }
    let message = format!("the preset {PURE_LOOP} works on a task, and none is named");
    let known = list(&real_path(&config.run.workspace))?;
    Err(CommandError::config(message).hinted(match known.first() {
        Some(first) => format!("name it: `go {first}`"),
        None => "make one: `new \"TASK\"`, then `go 1`".to_owned(),
    }))
}

/// Returns the number of a task with this name.
pub fn number(name: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_number)
}

/// Reads the task with this name, or number, and what its plan says of the configuration.
///
/// # Errors
/// There is none.
pub fn open(workspace: &Path, named: &str) -> Result<TaskSource, CommandError> {
    let workspace = real_path(workspace);
    let id = id_of(named);
    let known = list(&workspace)?;
    if !known.contains(&id) {
        return Err(unknown(&workspace, named, &known));
    }
    let path = path_of_plan(&workspace, &id);
    let mut plan = PlanFile::read(&path);
    configure(&mut plan, &path, &id)?;
    Ok(TaskSource { id, plan })
}

/// Returns the same for a command that only reads or controls a stored run: its plan may be missing, since agents
/// can delete it.
///
/// # Errors
/// No task can have this name.
pub fn find(workspace: &Path, named: &str) -> Result<TaskSource, CommandError> {
    let id = id_of(named);
    let mut parts = Path::new(&id).components();
    if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
        return open(workspace, named);
    }
    let path = path_of_plan(&real_path(workspace), &id);
    let mut plan = PlanFile::read(&path);
    configure(&mut plan, &path, &id)?;
    Ok(TaskSource { id, plan })
}

fn id_of(named: &str) -> String {
    match named.parse::<u64>() {
        Ok(number) => format!("{PREFIX}{number}"),
        Err(_) => named.to_owned(),
    }
}

/// Returns the names of all tasks, by their numbers.
pub fn list(workspace: &Path) -> Result<Vec<String>, CommandError> {
    let failed = |error: Errno| {
        let path = workspace.join(FOLDER);
        CommandError::config(format!("{}: {error}", path.display()))
            .hinted("it has to be a folder, and no link to one")
    };
    let folder = match open_folder(workspace)
        .and_then(|folder| open_subfolder(folder.as_fd(), FOLDER.as_bytes()))
    {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let (names, _) = DirLister::default().list(folder.as_fd(), MOST_NAMES).map_err(failed)?;
    let has_plan = |name: &[u8]| {
        open_subfolder(folder.as_fd(), name).is_ok_and(|task| {
            FileFingerprint::from_name(task.as_fd(), PLAN.as_bytes())
                .is_ok_and(|plan| plan.file_type() == FileType::RegularFile)
        })
    };
    let names = names.into_iter().filter(|name| has_plan(&name.bytes));
    let mut names: Vec<String> =
        names.filter_map(|name| String::from_utf8(name.bytes).ok()).collect();
    names.retain(|name| !name.chars().any(char::is_control));
    names.sort_by_key(|name| (number(name.as_bytes()).unwrap_or(u64::MAX), name.clone()));
    Ok(names)
}

fn path_of_plan(workspace: &Path, id: &str) -> PathBuf {
    workspace.join(FOLDER).join(id).join(PLAN)
}

/// Sets what the plan says of the configuration.
fn configure(plan: &mut PlanFile, path: &Path, id: &str) -> Result<(), CommandError> {
    let text = path.to_str().ok_or_else(|| {
        CommandError::config(format!("{}: the path of a plan has to be UTF-8", path.display()))
    })?;
    plan.set(&["run", "prompt"], text, "");
    plan.set(&["env", "set", "RALPH_TASK"], id, "");
    plan.set(&["memory", "progress"], format!("{FOLDER}/{id}/{PROGRESS}"), "");
    plan.set(&["memory", "errors"], format!("{FOLDER}/{id}/{ERRORS}"), "");
    if let Some(count) = plan.max_iterations() {
        plan.set(&["limits", "max_iterations"], count, "max_iterations");
    }
    if let Some(command) = plan.value("test_command").map(str::to_owned) {
        let validators = vec![Value::Table(config_values::validator(&command, &[]))];
        plan.set(&["validator"], validators, "test_command");
    }
    if let Some(word) = plan.value("completion_promise").map(str::to_owned) {
        let detector = Table::from_iter([
            ("name".to_owned(), Value::from("promise")),
            ("complete".to_owned(), Value::from(word)),
        ]);
        plan.set(&["completion", "detector"], vec![Value::Table(detector)], "completion_promise");
    }
    Ok(())
}

/// Names all tasks that there are.
fn unknown(workspace: &Path, named: &str, known: &[String]) -> CommandError {
    let folder = workspace.join(FOLDER);
    let named = one_line(named, SHOWN);
    if known.is_empty() {
        let message = format!("there is no task {named}, nor any other in {}", folder.display());
        return CommandError::no_task(message).hinted("`ralph-orchestrator new \"…\"` makes one");
    }
    let mut message = format!("there is no task {named}; those of {} are:", folder.display());
    for id in known.iter().take(MOST_NAMED) {
        message.push_str(format!("\n  {id}  {}", title(workspace, id)).trim_end());
    }
    if let Some(more) = known.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        message.push_str(&format!("\n  and {more} more"));
    }
    CommandError::no_task(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_new_makes_has_a_number() {
        for (name, expected) in [
            ("ralph-1", Some(1)),
            ("ralph-120", Some(120)),
            ("ralph-01", None),
            ("ralph-", None),
            ("ralph-0", None),
            ("ralph-+1", None),
            ("ralph-1x", None),
            ("x-1", None),
            ("ralph-99999999999999999999", None),
        ] {
            assert_eq!(number(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(number(b"ralph-\xff"), None);
    }
}
