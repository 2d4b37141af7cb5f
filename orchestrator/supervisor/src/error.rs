//! Why a process could not be started.

use std::io;
use std::path::PathBuf;

use crate::file_fault::FileFault;
use crate::root::RootError;
use crate::shim::sys::NOT_CONFINED;
use crate::spec::Spec;
use crate::step::StepSubject;
use crate::view::ViewError;

/// Why a process could not be started. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such file.
    #[error("cannot start `{}`: there is no such file; install the program, or correct its path", program.display())]
    NotFound {
        /// The program.
        program: PathBuf,
    },
    /// It is a folder.
    #[error("cannot start `{}`: it is a folder; name the program inside it", program.display())]
    Folder {
        /// The program.
        program: PathBuf,
    },
    /// It may not be executed.
    #[error("cannot start `{}`: it is not executable; try `chmod +x`, and see that its file system is not mounted `noexec`", program.display())]
    NotExecutable {
        /// The program.
        program: PathBuf,
    },
    /// It is a script, whose first line names an interpreter that cannot be started.
    #[error("cannot start `{}`: its first line asks for the interpreter `{}`, which is not there or not executable; install that, or correct the line (a carriage return at its end counts)", program.display(), interpreter.display())]
    BadInterpreter {
        /// The script.
        program: PathBuf,
        /// What follows its `#!`.
        interpreter: PathBuf,
    },
    /// It is a binary whose dynamic loader is missing.
    #[error("cannot start `{}`: the file is there, but the loader that it needs is not; it was built for another system, install the one for this", program.display())]
    MissingLoader {
        /// The program.
        program: PathBuf,
    },
    /// The kernel does not know the file's format.
    #[error("cannot start `{}`: it is neither a program for this machine nor a script with a `#!` line", program.display())]
    NotAProgram {
        /// The program.
        program: PathBuf,
    },
    /// Somebody is writing the file.
    #[error("cannot start `{}`: somebody has the file open for writing, such as an update; try again when that is done", program.display())]
    Busy {
        /// The program.
        program: PathBuf,
    },
    /// Its working folder cannot be entered.
    #[error("cannot start `{}` in the folder `{}`: {reason}; create the folder, or name another", program.display(), cwd.display())]
    Cwd {
        /// The program.
        program: PathBuf,
        /// The folder.
        cwd: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Arguments and environment are longer than the kernel allows.
    #[error("cannot start `{}`: its arguments and environment are too long ({bytes} bytes; one argument may have about 128 KiB); pass long text by stdin or in a file", program.display())]
    TooLong {
        /// The program.
        program: PathBuf,
        /// How long they are together.
        bytes: usize,
    },
    /// An argument or a variable holds a NUL byte or is no valid name.
    #[error("cannot start `{}`: an argument, an environment variable or a path holds a NUL byte, which the kernel cannot pass on; remove it", program.display())]
    Nul {
        /// The program.
        program: PathBuf,
    },
    /// Too many files are open.
    #[error("cannot start `{}`: too many files are open; raise the limit (`ulimit -n`), or run less at once", program.display())]
    TooManyFiles {
        /// The program.
        program: PathBuf,
    },
    /// No memory or no process is left.
    #[error("cannot start `{}`: no memory or no more processes ({source}); end others, or raise the limit (`ulimit -u`)", program.display())]
    NoResources {
        /// The program.
        program: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It cannot be confined.
    #[error("cannot start `{}` in its sandbox: {reason}", program.display())]
    Sandbox {
        /// The program.
        program: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// It cannot have a root of its own.
    #[error("cannot start `{}` in a root of its own: {reason}", program.display())]
    Root {
        /// The program, as a path in the root if it could be translated.
        program: PathBuf,
        /// What is wrong with the root.
        reason: RootError,
    },
    /// It cannot have a view of its own.
    #[error("cannot start `{}` in a view of its own: {reason}", program.display())]
    View {
        /// The program.
        program: PathBuf,
        /// What is wrong with the view.
        reason: ViewError,
    },
    /// It cannot be started elsewhere, where it is to run.
    #[error("cannot start `{}`: {reason}", program.display())]
    Wrapper {
        /// The program.
        program: PathBuf,
        /// What went wrong there.
        reason: io::Error,
    },
    /// The process that should supervise it did not come up.
    #[error("cannot start `{}`: the process `{}` that should supervise it failed: {reason}; see that it is ralph-orchestrator itself, and that /proc is mounted", program.display(), shim.display())]
    Shim {
        /// The program.
        program: PathBuf,
        /// The shim.
        shim: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// Anything else.
    #[error("cannot start `{}`: {source}", program.display())]
    Other {
        /// The program.
        program: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SpawnError {
    /// Returns the error that an errno of the program's start on the host means.
    pub(crate) fn from_errno(errno: i32, spec: &Spec) -> Self {
        match FileFault::examine(&spec.program, errno) {
            Some(fault) => Self::from_file(fault, errno, spec),
            None => Self::from_start(errno, spec),
        }
    }

    /// Returns the error that an errno of a start means which is not that of a file.
    pub(crate) fn from_start(errno: i32, spec: &Spec) -> Self {
        let program = spec.program.clone();
        let source = io::Error::from_raw_os_error(errno);
        if let Some(error) = Self::of_anything(&source, spec) {
            return error;
        }
        match errno {
            libc::ENOEXEC => Self::NotAProgram { program },
            libc::ETXTBSY => Self::Busy { program },
            NOT_CONFINED => {
                let reason = "the kernel refused to confine it; perhaps too many sandboxes are \
                              nested (16 are the most)";
                Self::Sandbox { program, reason: reason.to_owned() }
            }
            _ => Self::Other { program, source },
        }
    }

    /// The same in a root of its own, whose files cannot be examined from outside.
    pub(crate) fn inside_root(errno: i32, spec: &Spec) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        if let Some(error) = Self::of_anything(&source, spec) {
            return error;
        }
        let (program, path) = (spec.program.clone(), spec.program.display());
        match errno {
            libc::ENOENT | libc::ENOTDIR | libc::ELOOP => {
                let step = format!("execute `{path}`, or the interpreter or loader that it needs");
                let reason = RootError::set_up(step, StepSubject::Path, errno);
                Self::Root { program, reason }
            }
            libc::EACCES => Self::NotExecutable { program },
            libc::ENOEXEC => Self::NotAProgram { program },
            libc::ETXTBSY => Self::Busy { program },
            _ => Self::Other { program, source },
        }
    }

    /// The causes that do not depend on which program is started.
    pub(crate) fn of_anything(e: &io::Error, spec: &Spec) -> Option<Self> {
        let program = spec.program.clone();
        if e.kind() == io::ErrorKind::InvalidInput && e.raw_os_error().is_none() {
            return Some(Self::Nul { program });
        }
        Some(match e.raw_os_error()? {
            libc::E2BIG => Self::TooLong { program, bytes: length(spec) },
            libc::EMFILE | libc::ENFILE => Self::TooManyFiles { program },
            errno @ (libc::ENOMEM | libc::EAGAIN) => {
                Self::NoResources { program, source: io::Error::from_raw_os_error(errno) }
            }
            _ => return None,
        })
    }

    /// Returns the error of a file that cannot be executed.
    pub(crate) fn from_file(fault: FileFault, errno: i32, spec: &Spec) -> Self {
        let program = spec.program.clone();
        match fault {
            FileFault::Missing => Self::NotFound { program },
            FileFault::Folder => Self::Folder { program },
            FileFault::NotExecutable => Self::NotExecutable { program },
            FileFault::BadInterpreter(interpreter) => {
                Self::BadInterpreter { program, interpreter: interpreter.into() }
            }
            FileFault::MissingLoader => Self::MissingLoader { program },
            FileFault::Unknown => {
                Self::Other { program, source: io::Error::from_raw_os_error(errno) }
            }
        }
    }
}

fn length(spec: &Spec) -> usize {
    let args: usize = spec.args.iter().map(|a| a.len() + 1).sum();
    let env: usize = spec.env.iter().map(|(k, v)| k.len() + v.len() + 2).sum();
    args + env
}
