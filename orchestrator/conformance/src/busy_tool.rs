//! A tool of an agent that is at work when somebody wants the end.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// A shell command that says when it is up, and then goes on for ever. It has started a process in a
/// session of its own by then, and one more whose environment does not tell whose it is. All of them
/// hold a pipe open, by whose end it is seen that they are gone.
pub struct BusyTool {
    folder: TempDir,
    pipe: File,
    hides: bool,
}

impl BusyTool {
    /// A new one, which nobody runs yet.
    ///
    /// # Panics
    /// If there is no room for a pipe.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path().join("held");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("there is room");
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let pipe = File::options().read(true).custom_flags(flags).open(path);
        Self { folder, pipe: pipe.expect("the pipe can be opened"), hides: true }
    }

    /// The same, without the process whose environment does not tell whose it is: nobody but a supervisor
    /// of the whole tree can find that one.
    #[must_use]
    pub const fn hiding_nothing(mut self) -> Self {
        self.hides = false;
        self
    }

    /// The command, for `sh`.
    #[must_use]
    pub fn command(&self) -> String {
        format!("{}; sleep 1000", self.background())
    }

    /// The same, but for that it ends when it is up, and leaves what it has started.
    #[must_use]
    pub fn background(&self) -> String {
        let path = self.folder.path().join("held");
        let hidden =
            if self.hides { "env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &" } else { "" };
        format!(
            "exec 9>'{}'; setsid sleep 1000 </dev/null >/dev/null 2>&1 & {hidden} echo up >&9",
            path.display()
        )
    }

    /// Whether it has said by now that it is up; it says so once.
    ///
    /// # Panics
    /// If the pipe cannot be read.
    pub fn is_up(&mut self) -> bool {
        // Before it has opened the pipe, nobody holds it.
        self.read().is_some_and(|bytes| bytes > 0)
    }

    /// Whether, after it was up, it is gone with all that it has started.
    ///
    /// # Panics
    /// If the pipe cannot be read.
    pub fn is_gone(&mut self) -> bool {
        self.read() == Some(0)
    }

    /// Waits until it is up.
    ///
    /// # Panics
    /// Outside of a runtime, or if the pipe cannot be read.
    pub async fn up(&mut self) {
        let pipe = self.pipe.try_clone().expect("there is room for a file");
        let mut pipe = Receiver::from_file(pipe).expect("there is a runtime");
        pipe.read_exact(&mut [0; "up\n".len()]).await.expect("the pipe can be read");
    }

    /// What is there to read: some bytes, or none because nobody holds it, or nothing yet.
    fn read(&mut self) -> Option<usize> {
        match self.pipe.read(&mut [0; 16]) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("the pipe cannot be read: {error}"),
        }
    }
}

impl Default for BusyTool {
    fn default() -> Self {
        Self::new()
    }
}
