//! The facts of a run that hold from its start to its end: nothing of this changes while it is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_config::{CompletionTrigger, Config, InstructionsMode};
use ralph_orchestrator_machine::{FrozenPolicy, HookEvent};
use ralph_orchestrator_text::escape_line;

use super::hooks::{Hooks, context_block};
use super::processes::Processes;
use super::protection::{ProtectedState, join_names};
use super::read_only_agents::ReadOnlyAgents;
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
    /// The user's commands at points of the run, and for which points there are any.
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    pub(super) hook_events: BTreeSet<HookEvent>,
    /// Makes the agents that review the work.
    pub(super) read_only_agents: Option<Arc<dyn ReadOnlyAgents>>,
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

    /// Returns what agents are given of the output of the user's command for that.
    pub(super) fn context_block(&self) -> String {
        let Some(hooks) = &self.hooks else { return String::new() };
        let (commands, output) = (hooks.commands(HookEvent::Context), hooks.context());
        let Some((command, output)) = commands.first().zip(output) else { return String::new() };
        self.redactor.text(&context_block(command, &output)).into_owned()
    }

    /// Returns the block that follows this prompt: how to claim completion, unless the agent's command line shows it, and
    /// what must not be changed. `None` if there is nothing to say, or if the configuration forbids it.
    pub(super) fn instructions(&self, prompt: &str, shows_claim: bool) -> Option<String> {
        if self.config.completion.instructions != InstructionsMode::Auto {
            return None;
        }
        let claim = (!shows_claim).then(|| self.claim_instructions(prompt)).flatten();
        let parts = [claim, self.protected_notice()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("\n\n---\n\n{}\n", parts.join("\n\n")))
    }

    /// Returns how to claim completion, unless the prompt says it or no claim is needed.
    fn claim_instructions(&self, prompt: &str) -> Option<String> {
        if self.config.completion.when != CompletionTrigger::Claimed || self.shows_form(prompt) {
            return None;
        }
        // One way is enough: that of the first detector.
        let mut instructions = self.policy.detectors.iter().map(|detector| detector.instructions());
        let first = instructions.find(|text| !text.trim().is_empty())?;
        Some(first.trim().to_owned())
    }

    /// Returns what required checks protect, if anything.
    fn protected_notice(&self) -> Option<String> {
        let required = self.policy.validators.iter().filter(|check| check.info.required);
        let mut globs: Vec<String> =
            required.flat_map(|check| check.validator.protects()).collect();
        globs.sort();
        globs.dedup();
        let globs: Vec<String> = globs.iter().map(|glob| escape_line(glob)).collect();
        (!globs.is_empty()).then(|| {
            format!(
                "The checks need these files as they were when the run began, so do not change, add or remove any of them: {}.",
                join_names(globs)
            )
        })
    }

    /// Returns whether a text shows a form in which completion can be claimed.
    pub(super) fn shows_form(&self, text: &str) -> bool {
        let forms = self.policy.detectors.iter().flat_map(|detector| detector.forms());
        forms.into_iter().any(|form| !form.is_empty() && text.contains(&form))
    }
}
