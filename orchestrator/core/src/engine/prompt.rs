//! Where the prompt comes from.

use std::path::{Path, PathBuf};

use crate::config::Loaded;
use crate::state::read_regular;
use crate::workspace::{Prompt, PromptError, read_prompt, restore_prompt};

const LARGEST_GLANCE: u64 = 8 * 1024 * 1024;

/// A prompt file, or a prompt in the configuration.
#[derive(Clone, Debug)]
pub(super) enum PromptSource {
    /// A file that the agent may or may not edit.
    File { path: PathBuf, mutable: bool, last: Option<Vec<u8>> },
    /// Text that never changes.
    Text(String),
}

impl PromptSource {
    pub(super) fn of(loaded: &Loaded) -> Self {
        Self::from_run(&loaded.config.run)
    }

    pub(super) fn from_run(run: &crate::config::Run) -> Self {
        match (&run.prompt_text, &run.prompt) {
            (Some(text), _) => Self::Text(text.clone()),
            (None, path) => Self::File {
                path: path.clone().unwrap_or_else(|| PathBuf::from("PROMPT.md")),
                mutable: run.prompt_mutable,
                last: None,
            },
        }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Text(_) => None,
        }
    }

    /// The text as it is now, if it can be read.
    pub(super) fn read_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::File { path, .. } => read_prompt(path).ok().map(|prompt| prompt.text),
        }
    }

    /// The text as it is at this very moment, finished or not: what is seen in it costs a validation
    /// at most. `None` if it cannot be read.
    pub(super) fn glance(&self) -> Option<String> {
        let bytes = read_regular(self.path()?, LARGEST_GLANCE).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The prompt as it is now. A file that the agent deleted, or edited though it may not, is
    /// restored; the second value says so.
    pub(super) fn read(&mut self) -> Result<(Prompt, Option<String>), PromptError> {
        let (path, mutable, last) = match self {
            Self::Text(text) => return Ok((prompt_of(text.clone().into_bytes()), None)),
            Self::File { path, mutable, last } => (path, *mutable, last),
        };
        let (prompt, warning) = match (read_prompt(path), last.as_ref()) {
            (Ok(prompt), Some(before)) if !mutable && prompt.bytes != *before => {
                restore_prompt(path, before)?;
                let why = "was edited, which run.prompt_mutable = false forbids";
                (prompt_of(before.clone()), Some(why))
            }
            (Ok(prompt), _) => (prompt, None),
            (Err(_), Some(before)) => {
                restore_prompt(path, before)?;
                (prompt_of(before.clone()), Some("could not be read any more"))
            }
            (Err(error), None) => return Err(error),
        };
        *last = Some(prompt.bytes.clone());
        let path = path.display();
        Ok((prompt, warning.map(|why| format!("{path} {why}; it was restored"))))
    }
}

fn prompt_of(bytes: Vec<u8>) -> Prompt {
    Prompt {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        digest: blake3::hash(&bytes).to_hex().to_string(),
        bytes,
    }
}
