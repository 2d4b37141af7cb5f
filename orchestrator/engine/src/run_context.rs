//! The facts of a run that hold from its start to its end: nothing of this changes while it is under way.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_config::{CompletionTrigger, Config, InstructionsMode};
use ralph_orchestrator_machine::FrozenPolicy;

use super::processes::Processes;
use super::protection::ProtectedState;
use super::redact::Redactor;
use super::request::RunPart;
use super::validation_policy::CompletionPolicy;
use crate::workspace_setup::WorkspaceSetup;

/// A run, and what it has to work with.
pub(super) struct RunContext {
    pub(super) run: String,
    pub(super) workspace: PathBuf,
    pub(super) config: Config,
    pub(super) policy: Arc<CompletionPolicy>,
    pub(super) recorded_policy: FrozenPolicy,
    /// The environment of validators: that of the first agent, whichever works.
    pub(super) env: BTreeMap<String, String>,
    pub(super) redactor: Redactor,
    pub(super) baseline: Arc<ProtectedState>,
    /// What it works on, if it is one of a series.
    pub(super) part: Option<RunPart>,
    pub(super) processes: Arc<dyn Processes>,
    /// The command that prepares the workspace before each iteration.
    pub(super) setup: Option<Arc<dyn WorkspaceSetup>>,
    pub(super) once: bool,
    pub(super) attached: bool,
    pub(super) resumed: bool,
}

impl RunContext {
    /// Returns what follows the prompt now, if anything does.
    pub(super) fn part_text(&self, prompt: &str) -> Option<String> {
        let text = self.part.as_ref().map(|part| (part.text)(prompt));
        text.filter(|text| !text.is_empty())
    }

    /// Returns the block that follows this prompt: how to claim completion. `None` if the prompt says it, if no claim is
    /// needed, or if the configuration forbids it.
    pub(super) fn possible_instructions(&self, prompt: &str) -> Option<String> {
        let completion = &self.config.completion;
        let is_needed = completion.instructions == InstructionsMode::Auto
            && completion.when == CompletionTrigger::Claimed;
        if !is_needed || self.shows_form(prompt) {
            return None;
        }
        // One way is enough: that of the first detector.
        let mut instructions = self.policy.detectors.iter().map(|detector| detector.instructions());
        let first = instructions.find(|text| !text.trim().is_empty())?;
        Some(format!("\n\n---\n\n{}\n", first.trim()))
    }

    /// Returns whether a text shows a form in which completion can be claimed.
    pub(super) fn shows_form(&self, text: &str) -> bool {
        let forms = self.policy.detectors.iter().flat_map(|detector| detector.forms());
        forms.into_iter().any(|form| !form.is_empty() && text.contains(&form))
    }
}
