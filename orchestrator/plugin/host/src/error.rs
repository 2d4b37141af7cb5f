//! Why a library is not loaded.

use std::io;
use std::path::{Path, PathBuf};

use crate::flaw::Flaws;

/// Why a library is not loaded.
#[derive(Debug, thiserror::Error)]
#[error("the plugin library {}: {reason}", path.display())]
pub struct LibraryError {
    /// The file in question.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: Refusal,
}

impl LibraryError {
    pub(crate) fn new(path: &Path, reason: Refusal) -> Self {
        Self { path: path.to_owned(), reason }
    }
}

/// What is wrong with the file of a library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is not there.
    #[error("there is no such file; build it, or correct the path")]
    Missing,
    /// It is something else than a file.
    #[error("it is {what} and not a file")]
    NotAFile {
        /// What it is.
        what: &'static str,
    },
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It is too large to be read at once.
    #[error("it has {found} bytes, at most {most} are read; strip it of debug information")]
    TooLarge {
        /// Its size.
        found: u64,
        /// The largest that is read.
        most: u64,
    },
    /// Everybody may change it.
    #[error("everybody on this machine may write to {what} (mode {mode:04o}); `chmod o-w` it")]
    OpenToAll {
        /// The file itself or its folder.
        what: &'static str,
        /// Its permissions.
        mode: u32,
    },
    /// Its content is wrong.
    #[error("{0}")]
    Content(#[from] Flaws),
    /// The digest in the configuration is none.
    #[error(
        "its `digest` in the configuration is `{pinned}`, and has to be 64 hexadecimal digits (BLAKE3)"
    )]
    NoDigest {
        /// What is there.
        pinned: String,
    },
    /// It is another one than the operator allowed.
    #[error(
        "its content has the BLAKE3 digest {found}, but the configuration allows only {pinned}; if it \
         was built anew on purpose, write the new digest there"
    )]
    OtherDigest {
        /// Of the file.
        found: String,
        /// Of the configuration.
        pinned: String,
    },
    /// The private copy cannot be made.
    #[error("a private copy of it cannot be made in {}: {error}", folder.display())]
    NoCopy {
        /// Where.
        folder: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The folder of private copies is not private.
    #[error(
        "a private copy of it cannot be made in {}, to which others may write (mode {mode:04o}); \
         `chmod go-w` it",
        folder.display()
    )]
    CopiesOpen {
        /// The folder.
        folder: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Somebody changed the private copy.
    #[error(
        "it is a private copy that somebody has changed since it was made (its digest is now \
         {found}); remove it, and it is made anew"
    )]
    Changed {
        /// The digest that it has now.
        found: String,
    },
    /// It is no private copy.
    #[error("it is no private copy of a plugin: the name of one is its BLAKE3 digest and `.so`")]
    NoCopyName,
    /// The dynamic linker would refuse it.
    #[error(
        "it needs what is not here: {}; install that, or build it on this machine, linked with it",
        missing.join(", ")
    )]
    Needs {
        /// Libraries, versions and symbols, for people.
        missing: Vec<String>,
    },
    /// The dynamic linker refused it.
    #[error("the dynamic linker refuses it: {message}")]
    Link {
        /// What it said.
        message: String,
    },
    /// What was loaded is not what was read.
    #[error("what the dynamic linker made of it is not what its file says: {what}")]
    Differs {
        /// What is different.
        what: &'static str,
    },
}
