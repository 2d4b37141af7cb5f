//! Where the prompt comes from.

use std::path::{Path, PathBuf};

use super::location;
use crate::machine::PathIdentities;
use crate::workspace::{Prompt, PromptError, PromptPlace};
use ralph_orchestrator_config as config;

/// A prompt file, or a prompt in the configuration.
#[derive(Clone, Debug)]
pub(super) enum PromptSource {
    /// A file that the agent may or may not edit.
    File { place: PromptPlace, mutable: bool, last: Option<Prompt> },
    /// Text that never changes.
    Text(String),
}

impl PromptSource {
    /// Returns the prompt of a run that begins: links to it are followed now and never again.
    pub(super) fn find(run: &config::Run) -> Self {
        Self::new(run, PromptPlace::locate)
    }

    /// Returns the prompt of a run that has begun, with what was recorded of it.
    pub(super) fn recorded(run: &config::Run, pins: &PathIdentities) -> Self {
        Self::new(run, |configured| {
            location::recorded_prompt(pins, configured)
                .unwrap_or_else(|| PromptPlace::locate(configured))
        })
    }

    fn new(run: &config::Run, place: impl FnOnce(&Path) -> PromptPlace) -> Self {
        match (&run.prompt_text, &run.prompt) {
            (Some(text), _) => Self::Text(text.clone()),
            (None, path) => Self::File {
                place: place(path.as_deref().unwrap_or(Path::new("PROMPT.md"))),
                mutable: run.prompt_editable,
                last: None,
            },
        }
    }

    /// Returns its place, if it is a file.
    pub(super) const fn place(&self) -> Option<&PromptPlace> {
        match self {
            Self::File { place, .. } => Some(place),
            Self::Text(_) => None,
        }
    }

    /// Returns the path in the configuration, if it is a file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.place().map(PromptPlace::configured)
    }

    /// Returns the path of the file without links.
    pub(super) fn file(&self) -> Option<&Path> {
        self.place().map(PromptPlace::file)
    }

    /// Returns the text as it is now, if it can be read.
    pub(super) fn read_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::File { place, .. } => place.read().ok().map(|prompt| prompt.text),
        }
    }

    /// Returns the text as it was read last, whatever has become of the file since.
    pub(super) fn last_text(&self) -> Option<String> {
        match self {
            Self::File { last: Some(prompt), .. } => Some(prompt.text.clone()),
            _ => self.read_text(),
        }
    }

    /// Returns the text as it is at this moment, finished or not: what is found in it costs a validation at
    /// most. `None` if it cannot be read.
    pub(super) fn glance(&self) -> Option<String> {
        let bytes = self.place()?.read_now()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads the prompt as it is now. A file that the agent deleted, put a link in the place of, or edited
    /// though it may not, is restored; the second value says so.
    pub(super) fn read(
        &mut self,
        workspace: &Path,
    ) -> Result<(Prompt, Option<String>), PromptError> {
        let (place, mutable, last) = match self {
            Self::Text(text) => return Ok((Prompt::new(text.clone().into_bytes()), None)),
            Self::File { place, mutable, last } => (place, *mutable, last),
        };
        let (prompt, why) = match (place.read(), last.as_ref()) {
            (Ok(prompt), Some(before)) if !mutable && prompt.bytes != before.bytes => {
                (before.clone(), "was edited, which run.prompt_editable = false forbids")
            }
            (Ok(prompt), _) => {
                *last = Some(prompt.clone());
                return Ok((prompt, None));
            }
            (Err(error), Some(before)) => (before.clone(), reason(&error)),
            (Err(error), None) => return Err(error),
        };
        place.restore(&prompt.bytes, workspace)?;
        let path: PathBuf = place.configured().to_owned();
        Ok((prompt, Some(format!("{} {why}; it was restored", path.display()))))
    }
}

const fn reason(error: &PromptError) -> &'static str {
    match error {
        PromptError::Link { .. } => "is a link now, which is not followed",
        PromptError::HardLink { .. } => "is another file's hard link now, which is not read",
        _ => "could not be read any more",
    }
}
