//! What the initializer has to produce, compared with the workspace.

use std::path::Path;

use ralph_orchestrator_config::Initializer;
use ralph_orchestrator_machine::State;
use ralph_orchestrator_safe_fs::{open_no_symlinks, path_flags, read_flags};
use ralph_orchestrator_workspace::has_commit;
use rustix::fs::{FileType, OFlags, fstat};

use super::blocking::blocking;
use super::error::EngineError;
use super::run_context::RunContext;

/// The right to execute a file, of whoever has it.
const EXECUTE: u32 = 0o111;

/// Returns what the initializer has still to produce; `None` if there is no initializer, or it is done.
pub(super) async fn missing_products(
    context: &RunContext,
    state: &State,
) -> Result<Option<Vec<String>>, EngineError> {
    let Some(initializer) = context.config.initializer.clone().filter(|_| state.is_initializing())
    else {
        return Ok(None);
    };
    let workspace = context.workspace.clone();
    let of_part = context.part.as_ref().and_then(|part| part.products.clone());
    let find = move || {
        let mut missing = find_missing(&workspace, &initializer);
        missing.extend(of_part.into_iter().flat_map(|of_part| of_part()));
        Some(missing)
    };
    blocking(find).await
}

/// Returns what is missing, in the order of the configuration. No link is followed.
fn find_missing(workspace: &Path, initializer: &Initializer) -> Vec<String> {
    let files = initializer.files().into_iter();
    let mut missing: Vec<String> = files
        .filter_map(|(path, is_executable)| {
            let problem = product_problem(&workspace.join(path), is_executable)?;
            Some(format!("{}: {problem}", path.display()))
        })
        .collect();
    if initializer.commit && !has_commit(workspace) {
        missing.push("git: the workspace is in no repository with a commit".to_owned());
    }
    missing
}

fn product_problem(path: &Path, is_executable: bool) -> Option<&'static str> {
    // A path is enough for a folder; what it leads to is opened for reading if it is a file.
    let opened = open_no_symlinks(path, read_flags())
        .or_else(|_| open_no_symlinks(path, path_flags() & !OFlags::RDWR));
    let Ok(found) = opened.and_then(fstat) else { return Some("does not exist") };
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    match (is_executable, is_file) {
        (true, false) => Some("is not a file"),
        (true, true) if found.st_mode & EXECUTE == 0 => Some("is not executable (`chmod +x`)"),
        (_, true) if found.st_size == 0 => Some("is empty"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn names_each_product_that_is_missing_and_why() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let initializer = Initializer {
            products: vec!["list.json".into(), "docs".into(), "notes".into()],
            executables: vec!["init.sh".into()],
            commit: true,
            max_attempts: 1,
        };
        let all = find_missing(&root, &initializer);
        assert_eq!(all.len(), 5, "{all:?}");
        assert_eq!(all[0], "list.json: does not exist");
        fs::write(root.join("list.json"), "[]").unwrap();
        fs::create_dir(root.join("docs")).unwrap();
        fs::write(root.join("notes"), "").unwrap();
        fs::write(root.join("init.sh"), "#!/bin/sh\n").unwrap();
        let some = find_missing(&root, &initializer);
        assert_eq!(
            some,
            [
                "notes: is empty",
                "init.sh: is not executable (`chmod +x`)",
                "git: the workspace is in no repository with a commit"
            ]
        );
        fs::remove_file(root.join("notes")).unwrap();
        symlink("list.json", root.join("notes")).unwrap();
        fs::set_permissions(root.join("init.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        let linked = find_missing(&root, &initializer);
        assert_eq!(linked[0], "notes: does not exist", "{linked:?}");
        assert_eq!(linked.len(), 2);
    }
}
