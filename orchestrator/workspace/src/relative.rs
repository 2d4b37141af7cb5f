//! Converts paths to paths relative to the workspace.

use std::path::{Component, Path, PathBuf};

/// Returns the path relative to the workspace; `None` if it lies elsewhere, empty if it is the workspace or
/// a folder around it.
///
/// Only the path *to* the workspace is resolved. A link within it, which the agent may have made,
/// cannot turn the path into another one.
pub(super) fn relative_to_workspace(workspace: &Path, path: &Path) -> Option<PathBuf> {
    let real = workspace.canonicalize().ok()?;
    let mut ancestors: Vec<&Path> = path.ancestors().collect();
    ancestors.reverse();
    for ancestor in ancestors {
        if ancestor.canonicalize().is_ok_and(|there| there == real) {
            return path.strip_prefix(ancestor).ok().and_then(normalize_inside);
        }
    }
    let around = path.canonicalize().is_ok_and(|there| real.starts_with(there));
    around.then(PathBuf::new)
}

/// Returns the path without `.` and `..`; `None` if it leads out.
fn normalize_inside(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_beneath_the_workspace() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let ws = root.join("ws");
        std::fs::create_dir_all(ws.join("src")).unwrap();
        std::os::unix::fs::symlink(&ws, root.join("link")).unwrap();
        std::os::unix::fs::symlink(".", ws.join("self")).unwrap();
        let at = |path: PathBuf| relative_to_workspace(&ws, &path);
        assert_eq!(at(ws.join("evidence")), Some("evidence".into()));
        assert_eq!(at(root.join("link/evidence/x")), Some("evidence/x".into()));
        assert_eq!(at(ws.join("./a/../evidence/")), Some("evidence".into()));
        assert_eq!(at(ws.join("self/evidence")), Some("self/evidence".into()));
        assert_eq!(at(root.join("elsewhere")), None);
        assert_eq!(at(ws.join("../elsewhere")), None);
        assert_eq!(at(ws.clone()), Some(PathBuf::new()));
        assert_eq!(at(root.clone()), Some(PathBuf::new()));
        assert_eq!(
            relative_to_workspace(&root.join("link"), &ws.join("evidence")),
            Some("evidence".into())
        );
        assert_eq!(relative_to_workspace(&root.join("gone"), &root.join("gone/x")), None);
    }
}
