//! Checks of the files that a configuration names.

use std::path::{Path, PathBuf};

use crate::error::ConfigErrors;
use crate::layers::text_file::{self, TextFileError};
use crate::loaded::LoadedConfig;

/// A larger prompt fits into no agent.
const MAX_PROMPT: usize = 8 << 20;

const NO_PROMPT: &str =
    "write the task into it, or give it as `run --goal TEXT` or `run --prompt TEXT`";

impl LoadedConfig {
    /// Checks what the configuration names: the prompt file is a regular file of UTF-8 text, not
    /// blank, of at most 8 MiB; the workspace is a folder, or can be made from the template.
    ///
    /// # Errors
    /// All that is wrong, each at the place of the key that names it.
    pub fn check_files(&self) -> Result<(), ConfigErrors> {
        let run = &self.config.run;
        let mut errors = Vec::new();
        let mut wrong = |key: &str, message: String| {
            errors.push(self.error_at_key(&["run", key], message));
        };
        let mut no_prompt = false;
        let missing = match std::fs::metadata(&run.workspace) {
            Ok(found) if found.is_dir() => false,
            Ok(_) => {
                wrong("workspace", format!("{} is not a folder", run.workspace.display()));
                false
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                wrong("workspace", format!("{}: {error}", run.workspace.display()));
                false
            }
        };
        match &run.template {
            Some(template) if missing && !template.is_dir() => {
                wrong("template", format!("{} is not a folder", template.display()));
            }
            None if missing => wrong(
                "workspace",
                format!(
                    "{} does not exist; create it, or name a `template` for it",
                    run.workspace.display()
                ),
            ),
            _ => {}
        }
        if let Some(prompt) = &run.prompt {
            let source = self.prompt_source(prompt, missing);
            match text_file::read(&source, MAX_PROMPT) {
                Ok(text) if text.trim().is_empty() => {
                    wrong("prompt", format!("{} is empty", source.display()));
                }
                Ok(_) => {}
                Err(error) => {
                    no_prompt = matches!(error, TextFileError::Missing);
                    wrong("prompt", format!("{}: {error}", source.display()));
                }
            }
        }
        if let Some(error) = errors.last_mut().filter(|_| no_prompt) {
            error.help = Some(NO_PROMPT.to_owned());
        }
        ConfigErrors::ensure_none(errors)
    }

    /// Returns where the prompt is now: in the template, if its workspace does not exist yet.
    fn prompt_source(&self, prompt: &Path, workspace_missing: bool) -> PathBuf {
        let run = &self.config.run;
        let inside = prompt.strip_prefix(&run.workspace).ok().filter(|_| workspace_missing);
        match (inside, &run.template) {
            (Some(inside), Some(template)) => template.join(inside),
            _ => prompt.to_owned(),
        }
    }
}
