//! A plugin that is a program.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ralph_orchestrator_supervisor::find_program;

/// The command of a plugin, found once.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// Where it works: arguments that name files are relative to it.
    pub(crate) dir: PathBuf,
    digest: String,
}

/// A command that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is none.
    #[error("`command` is empty; expected the program and its arguments")]
    Empty,
    /// The program is not there.
    #[error("{0}")]
    NotFound(String),
    /// One of its files cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Its content is not what was pinned.
    #[error(
        "its content has the BLAKE3 digest {found}, pinned is {pinned}; if the change is meant, \
         write the new digest"
    )]
    OtherDigest {
        /// What was found.
        found: String,
        /// What is in the configuration.
        pinned: String,
    },
}

impl Program {
    /// Looks for the program in `path`, or from `dir` if it is a path.
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
        this.digest = this.content()?;
        match pinned {
            Some(pinned) if !pinned.eq_ignore_ascii_case(&this.digest) => {
                let (found, pinned) = (this.digest, pinned.to_owned());
                Err(ProgramError::OtherDigest { found, pinned })
            }
            _ => Ok(this),
        }
    }

    /// BLAKE3 of the command and the files that it names: the program, and arguments that are files.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether these files are still what they were.
    pub(crate) fn verify(&self) -> Result<(), String> {
        match self.content() {
            Ok(now) if now == self.digest => Ok(()),
            Ok(_) => Err("its files are not what they were when it was loaded".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn content(&self) -> Result<String, ProgramError> {
        let mut hasher = blake3::Hasher::new();
        add(&mut hasher, &self.program)?;
        for arg in &self.args {
            hasher.update(arg.as_encoded_bytes());
            hasher.update(b"\0");
            let file = self.dir.join(arg);
            if file.is_file() {
                add(&mut hasher, &file)?;
            }
        }
        Ok(hasher.finalize().to_hex().to_string())
    }
}

fn add(hasher: &mut blake3::Hasher, path: &Path) -> Result<(), ProgramError> {
    let unreadable = |error| ProgramError::Unreadable { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(unreadable)?;
    let bytes = io::copy(&mut file, hasher).map_err(unreadable)?;
    hasher.update(&bytes.to_le_bytes());
    Ok(())
}
