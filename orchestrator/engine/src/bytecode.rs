//! Where Python keeps compiled bytecode while validators run.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_store::StateError;

use super::error::EngineError;
use super::scratch;

/// A new folder for bytecode, gone when dropped.
#[derive(Debug)]
pub(super) struct BytecodeDir(PathBuf);

impl BytecodeDir {
    /// The variable that passes it to Python.
    pub(super) const VARIABLE: &str = "PYTHONPYCACHEPREFIX";

    pub(super) fn create(run: &str) -> Result<Self, EngineError> {
        // A folder whose name cannot be guessed cannot have been prepared.
        let name = format!("{}bytecode-{}", scratch::prefix(run), uuid::Uuid::now_v7().simple());
        let path = std::env::temp_dir().join(name);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(StateError::io("create", &path))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BytecodeDir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
