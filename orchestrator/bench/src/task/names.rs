//! Names that tell the tasks of a job apart.

use std::collections::BTreeMap;
use std::path::Component;

use super::model::Task;
use super::problem::Problem;

/// Gives tasks of the same name the folders in which they differ before it, such as `go/bowling` and `rust/bowling`: sets
/// have the same exercise in several languages.
///
/// # Errors
/// Returns the tasks that then have the name of another one.
pub(super) fn qualify_names(tasks: &mut [Task]) -> Result<(), Vec<Problem>> {
    for indices in group_by_name(tasks).into_values().filter(|indices| indices.len() > 1) {
        let folders: Vec<Vec<String>> =
            indices.iter().filter_map(|index| tasks.get(*index)).map(list_folders).collect();
        let shared_first = count_shared(&folders, <[String]>::get);
        let shared_last = count_shared(&folders, |folder, at| folder.iter().rev().nth(at));
        for (index, folder) in indices.into_iter().zip(&folders) {
            let end = folder.len().saturating_sub(shared_last);
            let differing = folder.get(shared_first..end).unwrap_or_default();
            let Some(task) = tasks.get_mut(index).filter(|_| !differing.is_empty()) else {
                continue;
            };
            task.name = format!("{}/{}", differing.join("/"), task.name);
        }
    }
    let taken = group_by_name(tasks).into_values().filter(|indices| indices.len() > 1);
    let problems: Vec<Problem> =
        taken.filter_map(|indices| explain_clash(tasks, &indices)).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn group_by_name(tasks: &[Task]) -> BTreeMap<String, Vec<usize>> {
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, task) in tasks.iter().enumerate() {
        by_name.entry(task.name.clone()).or_default().push(index);
    }
    by_name
}

fn explain_clash(tasks: &[Task], indices: &[usize]) -> Option<Problem> {
    let [first, second, ..] = indices else { return None };
    let (first, second) = (tasks.get(*first)?, tasks.get(*second)?);
    let message = format!(
        "has the name \"{}\", as {} has: give one of them another",
        second.name,
        first.folder.display()
    );
    Some(Problem::new(&second.folder, message))
}

fn list_folders(task: &Task) -> Vec<String> {
    let parts = task.folder.components().filter(|part| matches!(part, Component::Normal(_)));
    parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
}

/// Returns how many parts, as `part` counts them, are the same in all paths.
fn count_shared(
    paths: &[Vec<String>],
    part: impl Fn(&[String], usize) -> Option<&String>,
) -> usize {
    let is_shared = |at: &usize| {
        let first = paths.first().and_then(|path| part(path, *at));
        first.is_some() && paths.iter().all(|path| part(path, *at) == first)
    };
    (0..).take_while(is_shared).count()
}
