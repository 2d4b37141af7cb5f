//! The evidence-files validator: demands files that show the finished work.
//! Knows neither the engine nor another validator.
//!
//! Files count by their content. A file counts if it is a regular file of a wanted type that reads as
//! such, is no copy of another one, and is fresh: its content was first seen no earlier than the work
//! it is to prove. What was there before is ignored, not held against anybody.
//!
//! Everything in the folder is written by the agent. So it is opened without following links and
//! without waiting, and is bounded in size, number, depth and time.

mod config;
mod content;
mod cooperative;
mod examine;
mod failure;
mod reasons;
mod walk;

use std::path::PathBuf;

use ralph_orchestrator_contract::{
    BuildContext, BuildError, CancelReason, CancelSignal, EvidenceValidator, ValidationContext,
    ValidatorDescription, Verdict, async_trait, parse_config,
};
use ralph_orchestrator_safe_fs::normalize_lexically;
use serde_json::Value;

/// The keys of `[[validator]]`.
pub use config::Config as Keys;
use config::{Config, Fresh, ReportsFailure, Settings};
use cooperative::Yielder;

/// The validator's kind in `[[validator]] kind`.
pub const KIND: &str = "evidence-files";

/// Builds the validator.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `dir` | `"validation-evidence"` | the folder, relative to the prompt file's |
/// | `min_files` | 3 | files that have to count, at least 1 |
/// | `extensions` | `["png", "txt", "json"]` | types of files that can count |
/// | `fresh` | `"tree"` | `"tree"`: content no older than the present state of the work; `"run"`: than the run; `"any"` |
/// | `must_match` | `[]` | regular expressions, each to be found in a counted text or JSON file |
/// | `must_not_match` | `[]` | regular expressions, none to be found in any counted text or JSON file |
/// | `reports_failure` | `"reject"` | `"reject"`: no counted text or JSON file may report a failure; `"allow"` |
/// | `max_file_size` | `"10 MiB"` | larger files do not count; bytes or a string with a unit |
/// | `max_files` | 200 | more fresh files are refused |
/// | `min_image_size` | 2 | least width and height of an image, in pixels |
///
/// In the regular expressions `^` and `$` stand for the beginning and end of a line.
///
/// A file reports a failure if it has, at the beginning of a line, the exact form in which one of
/// these says that something failed: pytest, unittest, cargo test, cargo-nextest, go test, jest,
/// vitest, mocha, `node --test`, the Test Anything Protocol, JUnit's XML; a Python traceback or a Rust
/// panic that no passing test run follows; an HTTP status line of class 5; a line such as
/// `FAILED: 12 tests failed`; or if it is a JSON object whose top-level `status`, `success`, `ok` or
/// `passed` says no, or whose `status` or `status_code` is one of HTTP's class 5. No single word is
/// held against a file, and neither is a report that is indented or quoted behind `> `.
///
/// # Errors
/// An unknown key or a value that makes no sense, with its key.
pub fn build(
    config: Value,
    context: &BuildContext,
) -> Result<Box<dyn EvidenceValidator>, BuildError> {
    let settings = parse_config::<Config>(config)?.into_settings()?;
    let path = normalize_lexically(&context.prompt_dir.join(&settings.dir));
    for (folder, what) in [(&context.workspace, "workspace"), (&context.prompt_dir, "prompt file")]
    {
        if normalize_lexically(folder).starts_with(&path) {
            let message = format!(
                "`{}` holds the {what}: evidence is no part of the work it proves, so it needs a \
                 folder of its own, such as `validation-evidence`",
                settings.dir.display()
            );
            return Err(BuildError::at("dir", message));
        }
    }
    let shown = path.strip_prefix(normalize_lexically(&context.workspace)).unwrap_or(&path);
    let shown = reasons::show(shown);
    let prompt_dir = context.prompt_dir.clone();
    Ok(Box::new(EvidenceFiles { settings, prompt_dir, path, shown }))
}

struct EvidenceFiles {
    settings: Settings,
    prompt_dir: PathBuf,
    /// The evidence folder, absolute.
    path: PathBuf,
    /// The evidence folder as the agent sees it from its workspace.
    shown: String,
}

impl EvidenceFiles {
    fn types(&self) -> String {
        match self.settings.extensions.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }
}

#[async_trait]
impl EvidenceValidator for EvidenceFiles {
    fn describe(&self) -> ValidatorDescription {
        let Settings { min_files, fresh, .. } = &self.settings;
        let age = match fresh {
            Fresh::Tree => ", made after the last change of the work",
            Fresh::Run => ", made in this run",
            Fresh::Any => "",
        };
        let files = if *min_files == 1 { "file" } else { "different files" };
        let mut demands =
            format!("at least {min_files} {files} ({}) in `{}`{age}", self.types(), self.shown);
        for regex in &self.settings.must_match {
            demands.push_str(&format!("; one matches `{regex}`"));
        }
        for regex in &self.settings.must_not_match {
            demands.push_str(&format!("; none matches `{regex}`"));
        }
        if self.settings.reports_failure == ReportsFailure::Reject {
            demands.push_str("; none reports a failure");
        }
        ValidatorDescription { kind: KIND.into(), demands }
    }

    fn runs_check(&self) -> bool {
        false
    }

    fn evidence_dirs(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        self.examine(context, &mut Yielder::new(cancel)).await.unwrap_or_else(|reason| {
            let why = match reason {
                CancelReason::Timeout => "its time was up",
                _ => "the orchestrator had to stop",
            };
            let message = format!("the examination of `{}` was ended early: {why}", self.shown);
            Verdict::Error { message }
        })
    }
}
