//! What the paths of a run led to when it began.

use serde::{Deserialize, Serialize};

/// What must not be exchanged: the paths in the configuration say where it is, this says what it is.
/// Empty in journals of before it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pins {
    /// The workspace's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<FilePin>,
    /// The prompt file; none if the prompt is in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptPin>,
    /// Names the time since the machine was started, during which numbers of devices do not change.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot: String,
}

/// A file or folder, told by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePin {
    /// The device.
    pub device: u64,
    /// The number on it.
    pub inode: u64,
}

/// The place of the prompt file. Bytes of a path that are not UTF-8 are `\xNN`, a backslash is doubled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptPin {
    /// The path in the configuration.
    pub configured: String,
    /// Where that led, without links.
    pub file: String,
    /// The file, if it had further names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<FilePin>,
}
