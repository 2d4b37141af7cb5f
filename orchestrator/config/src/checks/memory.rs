//! Checks of `[memory]`.

use std::path::{Path, PathBuf};

use super::backlog::is_inside;
use crate::diagnostics::Diagnostics;
use crate::model::{BacklogConfig, Memory, MemoryMode, Run};

/// How the names of files for entries end.
const NOTES: [&str; 3] = ["txt", "md", "log"];

/// Checks the table, with what else is written in the workspace.
pub(super) fn check(
    memory: &mut Memory,
    backlog: Option<&BacklogConfig>,
    run: &Run,
    diagnostics: &mut Diagnostics<'_>,
) {
    file(&mut memory.progress, "progress", (backlog, run), diagnostics);
    file(&mut memory.errors, "errors", (backlog, run), diagnostics);
    if memory.progress.is_some() && memory.progress == memory.errors {
        let message = "the progress file and the file of errors need names of their own";
        diagnostics.add(&["memory", "errors"], message);
    }
    let needs_file = matches!(memory.mode, MemoryMode::Full | MemoryMode::Breadcrumbs);
    if needs_file && memory.progress.is_none() && !diagnostics.is_broken(&["memory", "progress"]) {
        let message = "this mode needs a progress file";
        let help = "name it, such as `progress = \"claude-progress.txt\"`";
        diagnostics.add_with_help(&["memory", "mode"], message, Some(help));
    }
    let most = [
        ("max_entries", 1, memory.max_entries, Memory::MAX_ENTRIES),
        ("recent_commits", 0, memory.recent_commits, Memory::MAX_COMMITS),
    ];
    for (key, least, found, most) in most {
        if !(least..=most).contains(&found) {
            let message = format!("expected a whole number from {least} to {most}, found {found}");
            diagnostics.add(&["memory", key], message);
        }
    }
    if memory.rotate_above > Memory::MAX_ROTATE_ABOVE {
        let message = "expected at most \"64 MiB\": the file is read whole after each iteration";
        diagnostics.add(&["memory", "rotate_above"], message);
    }
}

/// Checks the path of a file that is written in the workspace, and leaves out what does not name it.
fn file(
    path: &mut Option<PathBuf>,
    key: &str,
    (backlog, run): (Option<&BacklogConfig>, &Run),
    diagnostics: &mut Diagnostics<'_>,
) {
    let Some(given) = path else { return };
    if !is_inside(given) {
        let message = format!(
            "expected the path of a file inside the workspace, relative to it, found {:?}",
            given.display().to_string()
        );
        return diagnostics.add(&["memory", key], message);
    }
    *given = given.components().collect::<PathBuf>();
    *given = given.strip_prefix(Path::new(".")).map_or_else(|_| given.clone(), Path::to_owned);
    // Entries are appended to it, whatever it is.
    let is_for_text = given.extension().is_some_and(|end| NOTES.iter().any(|known| end == *known));
    let is_of_git = given.components().any(|part| part.as_os_str() == ".git");
    if !is_for_text || is_of_git {
        let message = format!(
            "expected a file of its own for entries, whose name ends in .txt, .md or .log, found {:?}",
            given.display().to_string()
        );
        return diagnostics.add(&["memory", key], message);
    }
    if run.prompt.as_ref().is_some_and(|prompt| *prompt == run.workspace.join(&*given)) {
        diagnostics.add(&["memory", key], "this is the prompt file");
    }
    let is_backlog = |backlog: &BacklogConfig| {
        let path = backlog.path.as_deref();
        path.is_some_and(|path| path.strip_prefix(".").unwrap_or(path) == given.as_path())
    };
    if backlog.is_some_and(is_backlog) {
        diagnostics.add(&["memory", key], "this is the file of the backlog");
    }
}
