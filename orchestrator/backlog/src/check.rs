//! Rules that hold between the items of a backlog: unique ids, known dependencies, no cycle.

use std::collections::HashMap;
use std::path::Path;

use crate::error::{BacklogDefect, BacklogError, DefectKind, describe_taken, describe_unknown};
use crate::item::{BacklogItem, NewItem};

/// Returns what is wrong between these items, in file order; cycles last.
pub(crate) fn check_items(items: &[BacklogItem]) -> Vec<BacklogDefect> {
    let mut index: HashMap<&str, usize> = HashMap::with_capacity(items.len());
    let mut defects = Vec::new();
    for (position, item) in items.iter().enumerate() {
        if index.insert(&item.id, position).is_some() {
            defects.push(defect(item, DefectKind::DuplicateId));
        }
    }
    for item in items {
        for id in item.dependencies.iter().filter(|id| !index.contains_key(id.as_str())) {
            defects.push(defect(item, DefectKind::UnknownDependency(id.clone())));
        }
    }
    if defects.is_empty() {
        defects.extend(find_cycles(items, &index));
    }
    defects
}

/// Makes sure that an item can be added to the backlog in this file.
pub(crate) fn check_new_item(
    path: &Path,
    items: &[BacklogItem],
    item: &NewItem,
) -> Result<(), BacklogError> {
    let invalid =
        |problem: String| Err(BacklogError::InvalidNewItem { path: path.to_owned(), problem });
    if item.title.trim().is_empty() {
        return invalid("the title is empty; give it one".to_owned());
    }
    if let Some(taken) = items.iter().find(|known| item.id.as_ref() == Some(&known.id)) {
        return invalid(describe_taken(taken));
    }
    let has = |id: &str| items.iter().any(|item| item.id == id);
    let unknown = item.dependencies.iter().find(|id| !has(id));
    unknown.map_or(Ok(()), |id| invalid(describe_unknown(id, items)))
}

fn defect(item: &BacklogItem, kind: DefectKind) -> BacklogDefect {
    BacklogDefect { location: item.location, item: Some(item.id.clone()), kind }
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    OnPath,
    Done,
}

/// Finds the cycles that a depth-first search meets. Keeps its own stack: a chain of dependencies
/// may be as long as the backlog.
fn find_cycles(items: &[BacklogItem], index: &HashMap<&str, usize>) -> Vec<BacklogDefect> {
    let mut visits = vec![Visit::New; items.len()];
    let mut defects = Vec::new();
    for start in 0..items.len() {
        if visits.get(start) != Some(&Visit::New) {
            continue;
        }
        // Each entry is an item and how many of its dependencies were followed.
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        set(&mut visits, start, Visit::OnPath);
        while let Some((position, followed)) = path.last_mut() {
            let Some(item) = items.get(*position) else { break };
            let Some(id) = item.dependencies.get(*followed) else {
                set(&mut visits, *position, Visit::Done);
                path.pop();
                continue;
            };
            *followed += 1;
            let Some(&next) = index.get(id.as_str()) else { continue };
            match visits.get(next) {
                Some(Visit::New) => {
                    set(&mut visits, next, Visit::OnPath);
                    path.push((next, 0));
                }
                Some(Visit::OnPath) => defects.extend(describe_cycle(items, &path, next)),
                Some(Visit::Done) | None => {}
            }
        }
    }
    defects
}

fn set(visits: &mut [Visit], position: usize, visit: Visit) {
    if let Some(slot) = visits.get_mut(position) {
        *slot = visit;
    }
}

fn describe_cycle(
    items: &[BacklogItem],
    path: &[(usize, usize)],
    first: usize,
) -> Option<BacklogDefect> {
    let item = items.get(first)?;
    let on_cycle = path.iter().skip_while(|(position, _)| *position != first);
    let mut ids: Vec<String> =
        on_cycle.filter_map(|(position, _)| items.get(*position)).map(|i| i.id.clone()).collect();
    ids.push(item.id.clone());
    Some(defect(item, DefectKind::Cycle(ids)))
}
