//! The names of state directories.

use std::path::Path;

use ralph_orchestrator_safe_fs::{path_bytes, real_path};

/// The longest part of the workspace's own name that is kept, in characters.
const MAX_NAME: usize = 40;
/// How many hexadecimal digits of the hash are kept.
const DIGITS: usize = 12;

/// Returns the name of the folder that holds the state of a run: `<name of the workspace>-<hash>`, over the real
/// path of the workspace, and the path of the configuration and the id of the task where those tell its runs apart.
///
/// The same for all paths that lead to the workspace, before and after it is created. The name is
/// made of ASCII letters, digits, `-`, `_` and `.`, whatever the workspace is called.
#[must_use]
pub fn state_dir_name(
    workspace: &Path,
    configuration: Option<&Path>,
    task: Option<&str>,
) -> String {
    name_of(&real_path(workspace), configuration, task)
}

/// Returns the name that [`state_dir_name`] gave to what has this very path while no part of it was a link,
/// without a configuration.
#[must_use]
pub fn state_dir_name_of_link(real: &Path) -> String {
    name_of(real, None, None)
}

fn name_of(real: &Path, configuration: Option<&Path>, task: Option<&str>) -> String {
    let name: String = real
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default()
        .chars()
        .map(|letter| {
            let keep = letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
            if keep { letter } else { '-' }
        })
        .skip_while(|letter| matches!(letter, '.' | '-'))
        .take(MAX_NAME)
        .collect();
    let name = if name.is_empty() { "workspace" } else { &name };
    let mut hasher = blake3::Hasher::new();
    hasher.update(path_bytes(real));
    if let Some(configuration) = configuration {
        // No path has this byte in it.
        hasher.update(b"\0").update(path_bytes(configuration));
    }
    if let Some(task) = task {
        // Nor do two of them follow each other otherwise.
        hasher.update(b"\0\0").update(task.as_bytes());
    }
    let digits: String = hasher.finalize().to_hex().chars().take(DIGITS).collect();
    format!("{name}-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn all_ways_to_a_workspace_give_one_name() {
        let state_dir_name = |path: &Path| state_dir_name(path, None, None);
        let temp = tempfile::tempdir().unwrap();
        let ws = temp.path().join("my-ws_1.0");
        std::os::unix::fs::symlink(temp.path(), temp.path().join("link")).unwrap();
        let before = state_dir_name(&ws);
        std::fs::create_dir(&ws).unwrap();
        assert_eq!(state_dir_name(&ws), before);
        assert_eq!(state_dir_name(&temp.path().join("link/my-ws_1.0/")), before);
        assert_eq!(state_dir_name(&temp.path().join("./my-ws_1.0/.")), before);
        assert!(before.starts_with("my-ws_1.0-"), "{before}");
        assert_eq!(before.len(), "my-ws_1.0-".len() + DIGITS);
        assert_ne!(state_dir_name(&temp.path().join("other")), before);
    }

    #[test]
    fn each_configuration_and_each_task_has_a_name_of_its_own() {
        let temp = tempfile::tempdir().unwrap();
        let (one, two) = (temp.path().join("a.toml"), temp.path().join("b.toml"));
        let mut names = Vec::new();
        for configuration in [None, Some(one.as_path()), Some(&two)] {
            for task in [None, Some("ralph-1"), Some("ralph-2")] {
                names.push(state_dir_name(temp.path(), configuration, task));
            }
        }
        assert_eq!(names.first(), Some(&state_dir_name_of_link(&real_path(temp.path()))));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 9);
    }

    #[test]
    fn any_name_becomes_a_plain_one() {
        let state_dir_name = |path: &Path| state_dir_name(path, None, None);
        let temp = tempfile::tempdir().unwrap();
        let name = |name: &[u8]| state_dir_name(&temp.path().join(OsStr::from_bytes(name)));
        assert!(name(b"..hidden").starts_with("hidden-"));
        assert!(name(b"a b/\xff\n").ends_with(|digit: char| digit.is_ascii_hexdigit()));
        assert!(name("ключ".as_bytes()).starts_with("workspace-"));
        assert!(name(&[b'x'; 200]).starts_with(&format!("{}-", "x".repeat(MAX_NAME))));
        assert!(state_dir_name(Path::new("/")).starts_with("workspace-"));
        for odd in [b"a\nb".as_slice(), b"\xff\xfe", b"-rf", b"$(x)"] {
            let name = name(odd);
            assert!(
                name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
                "{name}"
            );
            assert!(!name.starts_with(['-', '.']), "{name}");
        }
    }
}
