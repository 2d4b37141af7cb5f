//! The files that are kept of an iteration, for people. To make a file takes longer than to start some
//! agents, so each is made when there is something to write, and none for the agent to wait for.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::store::{Disk, File, private_open_flags};

/// Most bytes kept of a prompt.
const LARGEST_PROMPT: usize = 64 * 1024 * 1024;

/// Where the files of one iteration go.
#[derive(Clone, Debug)]
pub(super) struct Files {
    disk: Disk,
    /// The state directory.
    root: PathBuf,
    folder: PathBuf,
}

impl Files {
    pub(super) fn new(disk: Disk, root: &Path, folder: PathBuf) -> Self {
        Self { disk, root: root.to_owned(), folder }
    }

    /// Keeps what the agent read. Says what went wrong: nothing depends on it.
    pub(super) fn keep_prompt(&self, prompt: &[u8]) -> Option<String> {
        let kept = prompt.get(..LARGEST_PROMPT).unwrap_or(prompt);
        self.keep("prompt.md", kept, "the prompt of this iteration")
    }

    /// Keeps how the agent was started. Says what went wrong: nothing depends on it.
    pub(super) fn keep_start(&self, start: &[u8]) -> Option<String> {
        self.keep("start.json", start, "how the agent of this iteration was started")
    }

    fn keep(&self, name: &str, bytes: &[u8], what: &str) -> Option<String> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let written = self.open(name, options).and_then(|mut file| file.write_all(bytes));
        written.err().map(|error| format!("{what} is not kept: {error}"))
    }

    /// Opens a file to append to.
    pub(super) fn append(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        self.open(name, options)
    }

    fn open(&self, name: &str, mut options: OpenOptions) -> io::Result<File> {
        // Whatever an agent has put in the folder's place gives way.
        self.disk.restore_dir(&self.root, &self.folder).map_err(io::Error::other)?;
        let path = self.folder.join(name);
        self.disk.clear(&path, std::fs::Metadata::is_file).map_err(io::Error::other)?;
        options.mode(0o600).custom_flags(private_open_flags());
        self.disk.open(&path, &options)
    }
}
