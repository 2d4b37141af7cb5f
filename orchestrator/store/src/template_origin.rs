//! Records which workspaces were created from a template: only these may be recreated.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use ralph_orchestrator_machine::FileIdentity;
use ralph_orchestrator_safe_fs::{SymlinkPolicy, escape, read_file};
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::error::StateError;
use super::layout::Layout;

const VERSION: u32 = 1;
/// Larger than any such file, in bytes.
const LARGEST: usize = 256 * 1024;

/// A workspace that was made from a template, as `template.json` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateOrigin {
    version: u32,
    workspace: String,
    template: String,
    folder: FileIdentity,
    /// When the folder was made, in nanoseconds since 1970, where the file system tells: numbers of
    /// folders that were deleted are given to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made_ns: Option<u64>,
}

impl TemplateOrigin {
    /// Creates the record for the open folder that was just created.
    ///
    /// # Errors
    /// The folder cannot be looked at.
    pub fn new(
        template: &Path,
        workspace: &Path,
        folder: &fs::File,
        pin: FileIdentity,
    ) -> std::io::Result<Self> {
        Ok(Self {
            version: VERSION,
            workspace: escape(workspace),
            template: escape(template),
            folder: pin,
            made_ns: made_ns(&folder.metadata()?),
        })
    }

    /// Whether the folder that is open is the one that was made for this workspace.
    #[must_use]
    pub fn is_of(&self, workspace: &Path, folder: &fs::File, pin: FileIdentity) -> bool {
        let made = folder.metadata().ok().and_then(|meta| made_ns(&meta));
        self.workspace == escape(workspace) && self.folder.is_same(pin) && self.made_ns == made
    }

    /// Returns the record of a state directory; `None` if there is none that can be read: then nobody
    /// knows.
    #[must_use]
    pub fn read(layout: &Layout) -> Option<Self> {
        let bytes = read_file(&layout.origin(), LARGEST, SymlinkPolicy::Follow).ok()?;
        serde_json::from_slice(&bytes).ok().filter(|origin: &Self| origin.version <= VERSION)
    }

    /// Writes it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, disk: &Disk, layout: &Layout) -> Result<(), StateError> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        let path = layout.origin();
        disk.clear(&path, fs::Metadata::is_file)?;
        disk.write_private(&path, &text)
    }
}

fn made_ns(meta: &fs::Metadata) -> Option<u64> {
    let since = meta.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}
