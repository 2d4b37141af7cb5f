//! Plugins that are programs.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_supervisor::find_program;

/// The resolved command of a plugin.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// Its working directory; arguments that name files are relative to it.
    pub(crate) dir: PathBuf,
    digest: String,
}

/// Why the command of a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is empty.
    #[error("`command` is empty; expected the program and its arguments")]
    Empty,
    /// The program does not exist.
    #[error("{0}")]
    NotFound(String),
    /// One of its files cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Its digest is not the configured one.
    #[error(
        "its content has the BLAKE3 digest {found}, but the configuration allows only {pinned}; if the \
         change is intended, update the digest"
    )]
    DigestMismatch {
        /// The digest of the content.
        found: String,
        /// The digest in the configuration.
        pinned: String,
    },
}

impl Program {
    /// Resolves the command: a bare name in `path`, a path relative to `dir`.
    pub(crate) fn find(
        command: &[String],
        dir: &Path,
        path: &str,
        pinned: Option<&str>,
    ) -> Result<Self, ProgramError> {
        let (name, args) = command.split_first().ok_or(ProgramError::Empty)?;
        let program = find_program(name, path, dir)
            .map_err(|error| ProgramError::NotFound(error.to_string()))?;
        let args = args.iter().map(OsString::from).collect();
        let mut this = Self { program, args, dir: dir.to_owned(), digest: String::new() };
        this.digest = this.compute_digest()?;
        match pinned {
            Some(pinned) if !pinned.eq_ignore_ascii_case(&this.digest) => {
                let (found, pinned) = (this.digest, pinned.to_owned());
                Err(ProgramError::DigestMismatch { found, pinned })
            }
            _ => Ok(this),
        }
    }

    /// Returns the BLAKE3 digest of the command and the files that it names: the program, and arguments
    /// that are files.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Checks that these files are unchanged.
    pub(crate) fn verify(&self) -> Result<(), String> {
        match self.compute_digest() {
            Ok(now) if now == self.digest => Ok(()),
            Ok(_) => Err("its files changed since it was loaded".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn compute_digest(&self) -> Result<String, ProgramError> {
        let mut hasher = blake3::Hasher::new();
        hash_file(&mut hasher, &self.program)?;
        for arg in &self.args {
            hasher.update(arg.as_encoded_bytes());
            hasher.update(b"\0");
            let file = self.dir.join(arg);
            if file.is_file() {
                hash_file(&mut hasher, &file)?;
            }
        }
        Ok(hasher.finalize().to_hex().to_string())
    }
}

fn hash_file(hasher: &mut blake3::Hasher, path: &Path) -> Result<(), ProgramError> {
    let unreadable = |error| ProgramError::Unreadable { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(unreadable)?;
    let bytes = io::copy(&mut file, hasher).map_err(unreadable)?;
    hasher.update(&bytes.to_le_bytes());
    Ok(())
}
