//! Which files the paths of a run stood for when it began.

use serde::{Deserialize, Serialize};

/// The files that must not be exchanged: the paths in the configuration say where they are, this says
/// which they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathIdentities {
    /// The workspace's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<FileIdentity>,
    /// The prompt file; none if the prompt is in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptIdentity>,
    /// The files at which the prompts of roles are looked for, whether they exist or not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub role_prompts: Vec<PromptIdentity>,
    /// Identifies the boot of the machine, during which numbers of devices do not change.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// Identifies the machine, beyond which numbers of devices and files mean nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
}

/// A file or folder, whatever path leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The device.
    pub device: u64,
    /// The inode on it.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970, where the file system knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_ns: Option<u64>,
}

impl FileIdentity {
    /// Whether both are the same file. The inode of a deleted file is given to another, and a device can get another
    /// number: when both were made decides, where it is known.
    #[must_use]
    pub fn is_same(self, other: Self) -> bool {
        self.inode == other.inode
            && match (self.made_ns, other.made_ns) {
                (Some(one), Some(other)) => one == other,
                _ => self.device == other.device,
            }
    }

    /// Whether both are the same file if the machine was started in between, which numbers devices anew.
    #[must_use]
    pub fn is_same_after_boot(self, other: Self) -> bool {
        Self { device: other.device, ..self }.is_same(other)
    }
}

/// The prompt file. Bytes of a path that are not UTF-8 are `\xNN`, a backslash is doubled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptIdentity {
    /// The path in the configuration.
    pub configured: String,
    /// The path without links.
    pub file: String,
    /// The file, if it had further hard links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<FileIdentity>,
}
