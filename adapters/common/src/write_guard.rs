//! Paths that an agent's own tools must not write.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Decides whether an agent's tools are refused to write a path.
#[derive(Clone)]
pub struct WriteGuard(Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl WriteGuard {
    /// Creates a guard from a function of an absolute path. It is called before each call of a writing
    /// tool, and may read the disk.
    #[must_use]
    pub fn new(is_guarded: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_guarded))
    }

    /// Returns whether writing this path is refused.
    #[must_use]
    pub fn is_guarded(&self, path: &Path) -> bool {
        (self.0)(path)
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteGuard")
    }
}
