//! The list of work that is in a folder already.

use std::path::Path;

use ralph_orchestrator_backlog::{
    BacklogError, BacklogFile, BacklogKind, ItemCounts, open_backlog,
};
use ralph_orchestrator_text::one_line;

/// The names under which tools keep lists of work, the surest first.
const NAMES: [&str; 11] = [
    "prd.json",
    "feature-list.json",
    "feature_list.json",
    "features.db",
    "fix_plan.md",
    "@fix_plan.md",
    "IMPLEMENTATION_PLAN.md",
    "plan.md",
    "PLAN.md",
    "TODO.md",
    "todo.md",
];

/// A list of work in a folder.
pub struct FoundBacklog {
    /// The name of its format.
    pub kind: &'static str,
    /// Its file.
    pub name: &'static str,
    /// Its items.
    pub counts: ItemCounts,
}

/// Returns the list in a folder that has something left to do, and what there is to say of other files that look like one.
#[must_use]
pub fn find_backlog(folder: &Path) -> (Option<FoundBacklog>, Vec<String>) {
    let mut first: Option<FoundBacklog> = None;
    let mut notes = Vec::new();
    for name in NAMES {
        match read_backlog(folder, name) {
            Ok(Some(found)) => match &first {
                None => first = Some(found),
                Some(first) => {
                    notes.push(format!(
                        "{name} is a list of work too; `[backlog]` names {}",
                        first.name
                    ));
                }
            },
            Ok(None) => {}
            Err(error) => {
                notes.push(format!(
                    "{name} is no list of work: {}",
                    one_line(&error.to_string(), 200)
                ));
            }
        }
    }
    (first, notes)
}

/// Reads a list; `None` if there is none of this name, or nothing is left to do in it.
fn read_backlog(folder: &Path, name: &'static str) -> Result<Option<FoundBacklog>, BacklogError> {
    let Some(kind) = kind_of(name) else { return Ok(None) };
    let file = BacklogFile::new(folder, Path::new(name))?;
    let snapshot = match open_backlog(kind, file, None).load() {
        Err(BacklogError::NotFound { .. }) => return Ok(None),
        loaded => loaded?,
    };
    let counts = snapshot.counts();
    let is_open = counts.completed < counts.total;
    Ok(is_open.then(|| FoundBacklog { kind: kind.name(), name, counts }))
}

/// Returns the format that files of this ending have; `None` if it is not compiled in.
fn kind_of(name: &str) -> Option<BacklogKind> {
    let kind = match Path::new(name).extension()?.to_str()? {
        "json" => "json",
        "db" => "sqlite",
        _ => "plan-md",
    };
    BacklogKind::ALL.iter().copied().find(|known| known.name() == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surest_list_with_open_items_is_found_and_the_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert!(find_backlog(folder.path()).0.is_none());
        write("prd.json", "{\"product\": \"no list\"}");
        write("fix_plan.md", "- [x] done\n");
        write("plan.md", "- [x] done\n- [ ] open\n");
        write("TODO.md", "- [ ] open\n");
        let (found, notes) = find_backlog(folder.path());
        let found = found.unwrap();
        assert_eq!((found.name, found.kind, found.counts.total), ("plan.md", "plan-md", 2));
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("prd.json is no list of work"), "{notes:?}");
        assert!(notes[1].starts_with("TODO.md is a list of work too"), "{notes:?}");
    }
}
