//! Names that the orchestrator gives to workspaces.

use std::path::{Path, PathBuf};

use super::scope;

/// The longest part of the workspace's own name that is kept, in characters.
const MAX_NAME: usize = 40;
/// How many hexadecimal digits of the hash are kept.
const DIGITS: usize = 12;

/// The name of the folder that holds a workspace's state: `<name>-<hash of its real path>`.
///
/// The same for all paths that lead to the workspace, before and after it is created. The name is
/// made of ASCII letters, digits, `-`, `_` and `.`, whatever the workspace is called.
#[must_use]
pub fn identity(workspace: &Path) -> String {
    identity_of_link(&real_path(workspace))
}

/// The name that [`identity`] gave to what has this very path while no part of it was a link.
#[must_use]
pub fn identity_of_link(real: &Path) -> String {
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
    let digits: String = blake3::hash(scope::bytes(real)).to_hex().chars().take(DIGITS).collect();
    format!("{name}-{digits}")
}

/// The absolute path without links; of what does not exist yet, as far as it exists.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute
        .ancestors()
        .find_map(|ancestor| {
            let real = ancestor.canonicalize().ok()?;
            let rest = absolute.strip_prefix(ancestor).ok()?;
            Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
        })
        .unwrap_or(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn all_ways_to_a_workspace_give_one_name() {
        let temp = tempfile::tempdir().unwrap();
        let ws = temp.path().join("my-ws_1.0");
        std::os::unix::fs::symlink(temp.path(), temp.path().join("link")).unwrap();
        let before = identity(&ws);
        std::fs::create_dir(&ws).unwrap();
        assert_eq!(identity(&ws), before);
        assert_eq!(identity(&temp.path().join("link/my-ws_1.0/")), before);
        assert_eq!(identity(&temp.path().join("./my-ws_1.0/.")), before);
        assert!(before.starts_with("my-ws_1.0-"), "{before}");
        assert_eq!(before.len(), "my-ws_1.0-".len() + DIGITS);
        assert_ne!(identity(&temp.path().join("other")), before);
    }

    #[test]
    fn any_name_becomes_a_plain_one() {
        let temp = tempfile::tempdir().unwrap();
        let name = |name: &[u8]| identity(&temp.path().join(OsStr::from_bytes(name)));
        assert!(name(b"..hidden").starts_with("hidden-"));
        assert!(name(b"a b/\xff\n").ends_with(|digit: char| digit.is_ascii_hexdigit()));
        assert!(name("ключ".as_bytes()).starts_with("workspace-"));
        assert!(name(&[b'x'; 200]).starts_with(&format!("{}-", "x".repeat(MAX_NAME))));
        assert!(identity(Path::new("/")).starts_with("workspace-"));
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
