//! The files that are stored of an iteration, for people. Creating a file takes longer than starting some
//! agents, so each is created when there is something to write, and no agent waits for one.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_store::{Disk, File, private_open_flags};

/// Most bytes stored of a prompt.
const LARGEST_PROMPT: usize = 64 * 1024 * 1024;

/// Where the files of one iteration go.
#[derive(Clone, Debug)]
pub(super) struct IterationFiles {
    disk: Disk,
    /// The state directory.
    root: PathBuf,
    folder: PathBuf,
}

impl IterationFiles {
    pub(super) fn new(disk: Disk, root: &Path, folder: PathBuf) -> Self {
        Self { disk, root: root.to_owned(), folder }
    }

    /// Stores what the agent read. Returns what went wrong: nothing depends on it.
    pub(super) fn store_prompt(&self, prompt: &[u8]) -> Option<String> {
        let kept = prompt.get(..LARGEST_PROMPT).unwrap_or(prompt);
        self.store("prompt.md", kept, "the prompt of this iteration")
    }

    /// Stores how the agent was started. Returns what went wrong: nothing depends on it.
    pub(super) fn store_start(&self, start: &[u8]) -> Option<String> {
        self.store("start.json", start, "how the agent of this iteration was started")
    }

    fn store(&self, name: &str, bytes: &[u8], what: &str) -> Option<String> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let written = self.open(name, options).and_then(|mut file| file.write_all(bytes));
        written.err().map(|error| format!("{what} is not stored: {error}"))
    }

    /// Opens a file to append to.
    pub(super) fn append(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        self.open(name, options)
    }

    fn open(&self, name: &str, mut options: OpenOptions) -> io::Result<File> {
        // Whatever an agent has put in the folder's place is replaced.
        self.disk.restore_dir(&self.root, &self.folder).map_err(io::Error::other)?;
        let path = self.folder.join(name);
        self.disk.clear(&path, std::fs::Metadata::is_file).map_err(io::Error::other)?;
        options.mode(0o600).custom_flags(private_open_flags());
        self.disk.open(&path, &options)
    }
}
