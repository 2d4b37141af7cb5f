//! Git's own files beside a workspace: which of them checks see, and how.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};

/// The name of git's folder in a checkout.
pub(crate) const GIT: &str = ".git";
/// In the storage: git's own files as they were at the start.
pub(crate) const REPOSITORY: &str = "repository";
/// The most that a file of that name may hold, in bytes.
const POINTER_LIMIT: usize = 64 * 1024;

/// Whether a path in git's folder is one that checks see as it is: objects, by whose names nothing else can be meant, and
/// large files, which are named by their content as well.
pub(crate) fn is_shared(path: &Path) -> bool {
    path.components()
        .any(|part| matches!(part, Component::Normal(name) if name == "objects" || name == "lfs"))
}

/// Whether a path in git's folder is not for checks: what runs something, and locks of whoever works there now.
pub(crate) fn is_withheld(path: &Path) -> bool {
    let is_hooks = |part: Component<'_>| part.as_os_str() == "hooks";
    path.components().any(is_hooks) || path.extension().is_some_and(|end| end == "lock")
}

/// Whether what is called `.git` in a workspace is not of the repository whose folder this is: an agent can make one of its
/// own there.
pub(crate) fn is_other_repository(workspace: &Path, git: &Path) -> bool {
    let own = workspace.join(GIT);
    if is_folder(&own) {
        return own != git;
    }
    // A worktree, or a submodule, has a file that names a folder of its repository.
    let Ok(text) = read_file(&own, POINTER_LIMIT, SymlinkPolicy::Follow) else { return false };
    let named = text.strip_prefix(b"gitdir:").unwrap_or_default().trim_ascii();
    let named = workspace.join(OsStr::from_bytes(named)).canonicalize();
    !named.is_ok_and(|named| named.starts_with(git))
}

/// Whether a path in git's folder tells where its branches and tags are, or what is to be committed. Those of the
/// orchestrator's own are no work's.
pub(crate) fn is_state(path: &Path) -> bool {
    let is_named = |names: &[&str]| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
    };
    let is_own = path.starts_with("refs/ralph") || path.starts_with("logs");
    !is_own && (path.starts_with("refs") || is_named(&["HEAD", "index", "packed-refs"]))
}

/// Whether it is there and is a folder, no link to one.
pub(crate) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}
