//! Which files are taken.

/// Which files checkpoints and commits take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePolicy {
    /// The largest file that is taken, in bytes; 64 MiB by default.
    pub max_file_bytes: u64,
}

impl Default for FilePolicy {
    fn default() -> Self {
        Self { max_file_bytes: 64 * 1024 * 1024 }
    }
}
