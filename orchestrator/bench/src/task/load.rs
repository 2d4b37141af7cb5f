//! Finds the tasks of a folder.

use std::io;
use std::path::{Path, PathBuf};

use super::digest::digest_tree;
use super::exercism::{EXERCISE_FILE, load_exercism};
use super::harbor::{self, load_harbor};
use super::model::Task;
use super::names::qualify_names;
use super::own::{CONFIG_FILE, load_own};
use super::problem::{LoadError, Problem};
use super::terminal_bench::{self, load_terminal_bench};

/// How many levels of folders are searched for tasks.
const SEARCH_DEPTH: usize = 8;

/// Loads the tasks of several folders: of each the one that it is, else those in it, sorted by path. Folders up to eight
/// levels below are searched; hidden ones are not. A folder with `task.toml` is a Harbor task, one with `ralph.toml` a
/// task of the own form, one with `.meta/config.json` an exercise, one with `task.yaml` a task of Terminal-Bench 1. A task that is found twice is there once, and tasks of
/// the same name get the folders before it in which they differ.
///
/// # Errors
/// Returns an error if a folder has no task, or if any task is wrong.
pub fn load<P: AsRef<Path>>(folders: &[P]) -> Result<Vec<Task>, LoadError> {
    let mut tasks: Vec<Task> = Vec::new();
    for folder in folders {
        for task in load_folder(folder.as_ref())? {
            if tasks.iter().all(|known| known.folder != task.folder) {
                tasks.push(task);
            }
        }
    }
    qualify_names(&mut tasks).map_err(LoadError::Invalid)?;
    Ok(tasks)
}

fn load_folder(dir: &Path) -> Result<Vec<Task>, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: dir.to_owned(), source };
    let root = dir.canonicalize().map_err(unreadable)?;
    let mut problems = Vec::new();
    let mut folders = Vec::new();
    find_tasks(&root, SEARCH_DEPTH, &mut folders, &mut problems)
        .map_err(|(path, source)| LoadError::Unreadable { path, source })?;
    if folders.is_empty() && problems.is_empty() {
        return Err(LoadError::NoTask { folder: dir.to_owned(), depth: SEARCH_DEPTH });
    }
    let mut tasks = Vec::new();
    for (folder, form) in folders {
        match load_one(&folder, form) {
            Ok(task) => tasks.push(task),
            Err(mut errors) => problems.append(&mut errors),
        }
    }
    if problems.is_empty() { Ok(tasks) } else { Err(LoadError::Invalid(problems)) }
}

type LoadForm = fn(&Path, String) -> Result<Task, Vec<Problem>>;

fn load_one(folder: &Path, form: LoadForm) -> Result<Task, Vec<Problem>> {
    let digest =
        digest_tree(folder).map_err(|error| vec![Problem::new(folder, error.to_string())])?;
    form(folder, digest)
}

/// Returns what loads a folder, if it is a task.
fn find_form(folder: &Path) -> Option<LoadForm> {
    let forms: [(&str, LoadForm); 4] = [
        (harbor::TASK_FILE, load_harbor),
        (CONFIG_FILE, load_own),
        (EXERCISE_FILE, load_exercism),
        (terminal_bench::TASK_FILE, load_terminal_bench),
    ];
    let is_there = |file: &str| folder.join(file).symlink_metadata().is_ok();
    forms.into_iter().find(|(file, _)| is_there(file)).map(|(_, form)| form)
}

fn find_tasks(
    folder: &Path,
    depth: usize,
    found: &mut Vec<(PathBuf, LoadForm)>,
    problems: &mut Vec<Problem>,
) -> Result<(), (PathBuf, io::Error)> {
    if let Some(form) = find_form(folder) {
        found.push((folder.to_owned(), form));
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let at = |error| (folder.to_owned(), error);
    let mut entries = Vec::new();
    for entry in folder.read_dir().map_err(at)? {
        let entry = entry.map_err(at)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            entries.push((entry.path(), entry.file_type().map_err(at)?));
        }
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in entries {
        if kind.is_dir() {
            find_tasks(&path, depth - 1, found, problems)?;
        } else if kind.is_symlink() && find_form(&path).is_some() {
            let message = "is a link to a task: name the folder itself, or copy it here";
            problems.push(Problem::new(&path, message));
        }
    }
    Ok(())
}
