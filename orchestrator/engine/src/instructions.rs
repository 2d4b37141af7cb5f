//! Instructions for claiming completion, for agents that do not have them otherwise.

use ralph_orchestrator_config::{CompletionTrigger, InstructionsMode};
use ralph_orchestrator_contract::Iteration;

use super::session::Session;

impl Session {
    /// Returns the block that follows this prompt: how to claim completion. `None` if the prompt or the
    /// agent's command line says it, if no claim is needed, or if the configuration forbids it.
    pub(super) fn instructions(&mut self, prompt: &str, task: &Iteration) -> Option<String> {
        let block = self.possible_instructions(prompt)?;
        let agent = self.agents.current(&self.state);
        let name = agent.name.clone();
        // What it is started with is the same each time, but for the prompt and the budget.
        let is_shown = self.argv_shows_form.get(&name).copied();
        let is_shown = is_shown.unwrap_or_else(|| {
            let launch = agent.configured.agent.launch(task).unwrap_or_default();
            launch.argv.iter().any(|word| self.shows_form(word))
        });
        self.argv_shows_form.insert(name, is_shown);
        (!is_shown).then_some(block)
    }

    /// Returns the same block before it is known how the agent is started.
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
    fn shows_form(&self, text: &str) -> bool {
        let forms = self.policy.detectors.iter().flat_map(|detector| detector.forms());
        forms.into_iter().any(|form| !form.is_empty() && text.contains(&form))
    }
}
