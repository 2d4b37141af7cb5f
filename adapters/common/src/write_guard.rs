//! What agents are refused.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Says of an absolute path whether writing tools are refused it.
#[derive(Clone)]
pub struct Guarded(Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl Guarded {
    /// What this function says. It is asked before each call of a writing tool, and may look at the
    /// disk.
    #[must_use]
    pub fn new(guards: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(guards))
    }

    /// Whether writing this path is refused.
    #[must_use]
    pub fn guards(&self, path: &Path) -> bool {
        (self.0)(path)
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guarded")
    }
}
