//! Files that tools keep for themselves in folders of their own, below what is protected: bytecode, caches of test
//! runners and type checkers, repositories. They are known by their whole shape, since anything else in such a
//! folder may be run like what lies beside it.

use std::ffi::OsStr;
use std::path::Path;

/// Where Python keeps bytecode, beside the source.
pub(crate) const BYTECODE: &str = "__pycache__";
/// Folders in which tools keep what they can make again. Bytecode in them is not run by validators, which keep
/// their own.
const CACHES: [&str; 4] = [BYTECODE, ".pytest_cache", ".mypy_cache", ".ruff_cache"];
/// What tools put into their caches for people and for other tools.
const NOTICES: [&str; 3] = ["CACHEDIR.TAG", "README.md", ".gitignore"];
/// Extensions of what Python runs.
const CODE: [&str; 4] = ["py", "pyc", "so", "pth"];
/// The folder of a repository.
const GIT: &str = ".git";

/// Files that git writes into a repository, beside those in capitals.
const OF_GIT: [&str; 8] = [
    "config",
    "config.worktree",
    "description",
    "gc.log",
    "gc.pid",
    "index",
    "packed-refs",
    "shallow",
];

/// Whether a folder of this name is the cache of a tool.
#[must_use]
pub fn is_cache(name: &OsStr) -> bool {
    CACHES.iter().any(|cache| name == *cache)
}

/// Whether what lies at a path is the data of the tool in whose cache it lies.
pub(crate) fn is_cached(path: &Path) -> bool {
    let Some(parts) = parts(path) else { return false };
    let Some(at) = parts.iter().position(|part| CACHES.contains(part)) else { return false };
    match (parts.get(at), parts.get(at + 1..).unwrap_or_default()) {
        (Some(&BYTECODE), [name]) => is_bytecode(name),
        (Some(&BYTECODE), _) | (_, []) => false,
        (_, [name]) if NOTICES.contains(name) => true,
        (Some(&".pytest_cache"), ["v", rest @ ..]) => {
            rest.last().is_none_or(|name| !name.contains('.'))
        }
        (Some(&".mypy_cache"), ["missing_stubs"]) => true,
        (Some(&".mypy_cache"), [version, rest @ ..]) => {
            is_version(version) && rest.last().is_none_or(|name| is_of_mypy(name))
        }
        (Some(&".ruff_cache"), [version]) => is_version(version),
        (Some(&".ruff_cache"), [version, name]) => {
            let name = name.strip_prefix(".tmp").unwrap_or(name);
            is_version(version) && name.chars().all(|c| c.is_ascii_alphanumeric())
        }
        _ => false,
    }
}

/// Whether a name in the folder of bytecode is that of what Python, or what compiles for it, has made.
pub(crate) fn is_compiled(name: &[u8]) -> bool {
    std::str::from_utf8(name)
        .is_ok_and(|name| is_bytecode(name) || name.ends_with(".nbi") || name.ends_with(".nbc"))
}

/// Whether Python writes bytecode under this name, at first with a number behind it.
fn is_bytecode(name: &str) -> bool {
    let is_number = |end: &str| end.chars().all(|c| c.is_ascii_digit());
    name.ends_with(".pyc") || name.rsplit_once(".pyc.").is_some_and(|(_, end)| is_number(end))
}

fn is_version(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// Whether mypy gives this name to a file, which has other digits behind it at first, or to the folder of a package.
fn is_of_mypy(name: &str) -> bool {
    let is_hex = |end: &str| end.chars().all(|c| c.is_ascii_hexdigit());
    let is_written = name.rsplit_once(".json.").is_some_and(|(_, end)| is_hex(end));
    is_written
        || !name.contains('.')
        || name.ends_with(".json")
        || name.ends_with(".ff")
        || name.starts_with("cache.") && name.contains(".db")
}

/// Returns the repository that lies in a folder of the workspace, as its `.git`, and keeps for itself what is at this
/// path. The workspace's own is none of them.
pub(crate) fn repository_of(path: &Path) -> Option<&Path> {
    let parts = parts(path)?;
    let at = parts.iter().position(|part| *part == GIT).filter(|at| *at > 0)?;
    let inside = parts.get(at + 1..)?;
    let repository = path.ancestors().nth(inside.len())?;
    is_of_git(inside).then_some(repository)
}

/// Whether git keeps something under this path of a repository.
fn is_of_git(inside: &[&str]) -> bool {
    let is_hex = |name: &str| name.chars().all(|c| c.is_ascii_hexdigit());
    let name = inside.last().copied().unwrap_or_default();
    if Path::new(name).extension().is_some_and(|end| CODE.iter().any(|code| end == *code)) {
        return false;
    }
    match inside {
        ["refs" | "logs" | "lfs" | "rr-cache" | "worktrees" | "branches", ..] => true,
        ["rebase-merge" | "rebase-apply" | "sequencer", ..] => true,
        ["info"] | ["info", "exclude" | "attributes" | "refs" | "sparse-checkout" | "grafts"] => {
            true
        }
        ["hooks", sample] => sample.ends_with(".sample"),
        ["objects"] | ["objects", "pack" | "info"] => true,
        ["objects", "info", _] => true,
        ["objects", "pack", name] => ["pack-", "tmp_", ".tmp-", "multi-pack-index"]
            .iter()
            .any(|start| name.starts_with(start)),
        ["objects", folder] => is_hex(folder),
        ["objects", folder, name] => {
            is_hex(folder) && (is_hex(name) || name.starts_with("tmp_obj_"))
        }
        ["modules", _, ..] => inside.get(2..).is_none_or(is_of_git),
        [name] => {
            let name = name.strip_suffix(".lock").unwrap_or(name);
            name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                || name.starts_with("sharedindex.")
                || OF_GIT.contains(&name)
        }
        _ => false,
    }
}

/// Returns the names of a path; nothing if one is no text.
fn parts(path: &Path) -> Option<Vec<&str>> {
    path.components().map(|part| part.as_os_str().to_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_data_of_caches_by_their_whole_shape() {
        for path in [
            "t/__pycache__/a.cpython-312.pyc",
            "t/__pycache__/a.cpython-312.pyc.140139",
            "t/.pytest_cache/CACHEDIR.TAG",
            "t/.pytest_cache/README.md",
            "t/.pytest_cache/v",
            "t/.pytest_cache/v/cache/lastfailed",
            "t/.mypy_cache/missing_stubs",
            "t/.mypy_cache/3.12/pkg/mod.meta.json",
            "t/.mypy_cache/3.12/pkg/mod.data.json.0a9f",
            "t/.mypy_cache/3.12/pkg",
            "t/.mypy_cache/3.12/cache.db-wal",
            "t/.ruff_cache/0.4.1/1234567890",
            "t/.ruff_cache/0.4.1/.tmpAb12",
        ] {
            assert!(is_cached(Path::new(path)), "{path}");
        }
        for path in [
            "t/a.pyc",
            "t/__pycache__/a.py",
            "t/__pycache__/a.pyc.sh",
            "t/__pycache__/b/a.pyc",
            "t/.pytest_cache/0.sh",
            "t/.pytest_cache/conftest.py",
            "t/.pytest_cache/x/README.md",
            "t/.pytest_cache/v/cache/0.sh",
            "t/.mypy_cache/0.sh",
            "t/.mypy_cache/3.12/0.sh",
            "t/.mypy_cache/3.12/a.json.sh",
            "t/.ruff_cache/0.sh",
            "t/.ruff_cache/0.4.1/0.sh",
        ] {
            assert!(!is_cached(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn knows_what_git_keeps_in_a_repository_below_the_workspace() {
        for path in [
            "a/.git/HEAD",
            "a/.git/index.lock",
            "a/.git/objects/0f/abcdef",
            "a/.git/objects/pack/pack-1.idx",
            "a/.git/refs/heads/main",
            "a/.git/hooks/pre-commit.sample",
            "a/.git/modules/b/HEAD",
        ] {
            assert_eq!(repository_of(Path::new(path)), Some(Path::new("a/.git")), "{path}");
        }
        for path in [
            "a/.git/0.sh",
            "a/.git/hooks/pre-commit",
            "a/.git/objects/0.sh",
            "a/.git/refs/x.py",
            "a/.git/x/y",
            "a/.git",
            "a/.git/hooks",
            ".git/HEAD",
            "a/HEAD",
        ] {
            assert_eq!(repository_of(Path::new(path)), None, "{path}");
        }
    }
}
