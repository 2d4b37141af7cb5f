//! Paths by their text, and where they lead.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Returns the bytes of a path.
#[must_use]
pub fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns the path without `.` and `..`, by its text alone: links are not followed, nothing has to
/// exist.
#[must_use]
pub fn normalize_lexically(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// Returns the absolute path without links; of what does not exist yet, as far as it exists.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = absolute.ancestors().find_map(|ancestor| {
        let real = ancestor.canonicalize().ok()?;
        let rest = absolute.strip_prefix(ancestor).ok()?;
        // What does not exist is no link, so `..` leads back the way the path came.
        Some(normalize_lexically(&real.join(rest)))
    });
    real.unwrap_or(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_path_follows_what_exists_and_cleans_the_rest() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
        for (path, real) in [
            ("link", "a/b"),
            ("link/..", "a"),
            ("link/x/y", "a/b/x/y"),
            ("none/../x", "x"),
            ("link/none/../../x", "a/x"),
            ("./a/./none/", "a/none"),
        ] {
            assert_eq!(real_path(&root.join(path)), root.join(real), "{path}");
        }
        assert_eq!(normalize_lexically(Path::new("/a/./b/../../c/..")), Path::new("/"));
    }
}
