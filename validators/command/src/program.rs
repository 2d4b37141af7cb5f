//! Where the program of a command is.

use std::path::PathBuf;

/// Where a program is looked for.
pub(crate) struct Lookup {
    /// As in `PATH`, for a bare name.
    pub(crate) path: String,
    /// The folder from which relative paths begin.
    pub(crate) base: PathBuf,
}

/// Where the program is.
pub(crate) enum Program {
    /// A bare name, found once: nothing that the agent puts into `PATH` later is run.
    Pinned(Result<PathBuf, String>),
    /// A path, which the agent may have to make first.
    Path(PathBuf),
}
