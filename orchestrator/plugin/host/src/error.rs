//! Errors of loading a library.

use std::io;
use std::path::{Path, PathBuf};

use crate::library_defect::LibraryDefects;

/// A library that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("the plugin library {}: {kind}", path.display())]
pub struct LibraryError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub kind: LibraryErrorKind,
}

impl LibraryError {
    pub(crate) fn new(path: &Path, kind: LibraryErrorKind) -> Self {
        Self { path: path.to_owned(), kind }
    }
}

/// Why a library cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryErrorKind {
    /// It does not exist.
    #[error("there is no such file; build it, or correct the path")]
    Missing,
    /// It is not a regular file.
    #[error("it is {what}, not a file")]
    NotAFile {
        /// What it is.
        what: &'static str,
    },
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It was changed while it was checked and copied.
    #[error("it was changed while it was read; wait until its build has ended, then try again")]
    ChangedMeanwhile,
    /// It is too large.
    #[error("it has {found} bytes, at most {most} are allowed; strip its debug information")]
    TooLarge {
        /// Its size.
        found: u64,
        /// The largest size allowed.
        most: u64,
    },
    /// It is world-writable.
    #[error("{what} is world-writable (mode {mode:04o}); run `chmod o-w` on it")]
    WorldWritable {
        /// The file itself or its folder.
        what: &'static str,
        /// Its permissions.
        mode: u32,
    },
    /// Its content has defects.
    #[error("{0}")]
    Content(#[from] LibraryDefects),
    /// The digest in the configuration is invalid.
    #[error(
        "its `digest` in the configuration is `{pinned}`, but must be 64 hexadecimal digits (BLAKE3)"
    )]
    InvalidDigest {
        /// The configured text.
        pinned: String,
    },
    /// Its digest is not the configured one.
    #[error(
        "its content has the BLAKE3 digest {found}, but the configuration allows only {pinned}; if it \
         was rebuilt on purpose, update the digest"
    )]
    DigestMismatch {
        /// The digest of the file.
        found: String,
        /// The digest in the configuration.
        pinned: String,
    },
    /// The private copy cannot be created.
    #[error("cannot create a private copy of it in {}: {error}", folder.display())]
    CopyFailed {
        /// The folder of private copies.
        folder: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The folder of private copies is not private.
    #[error(
        "cannot create a private copy of it in {}, which others may write to (mode {mode:04o}); run \
         `chmod go-w` on it",
        folder.display()
    )]
    CacheNotPrivate {
        /// The folder.
        folder: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The private copy was modified.
    #[error(
        "this private copy was modified after its creation (its digest is now {found}); remove it, and \
         it is created again"
    )]
    CopyModified {
        /// Its current digest.
        found: String,
    },
    /// It is not named like a private copy.
    #[error("it is not a private copy of a plugin, whose name is its BLAKE3 digest and `.so`")]
    NotAPrivateCopy,
    /// Its dependencies are missing.
    #[error(
        "missing dependencies: {}; install them, or build the library on this machine",
        missing.join(", ")
    )]
    MissingDependencies {
        /// Libraries, versions and symbols, for display.
        missing: Vec<String>,
    },
    /// The dynamic linker failed.
    #[error("the dynamic linker cannot load it: {message}")]
    Link {
        /// The linker's message.
        message: String,
    },
    /// The loaded library differs from its file.
    #[error("the loaded library differs from its file: {what}")]
    LoadedDiffers {
        /// The difference.
        what: &'static str,
    },
}
