//! Telling the agent how to claim completion, where nothing else does.

use super::session::Session;
use ralph_orchestrator_config::{CompletionTrigger, InstructionsMode};
use ralph_orchestrator_contract::Iteration;

impl Session {
    /// The block that follows this prompt: how to claim completion. `None` if the agent is told by the
    /// prompt or by its command line, if no claim is needed, or if the configuration forbids it.
    pub(super) fn instructions(&mut self, prompt: &str, task: &Iteration) -> Option<String> {
        let block = self.possible_instructions(prompt)?;
        let agent = self.drivers.of(&self.state);
        let name = agent.name.clone();
        // What it is started with is the same each time, but for the prompt and the budget.
        let told = self.told_by_argv.get(&name).copied();
        let told = told.unwrap_or_else(|| {
            let launch = agent.driver.agent.launch(task).unwrap_or_default();
            launch.argv.iter().any(|word| self.shows_form(word))
        });
        self.told_by_argv.insert(name, told);
        (!told).then_some(block)
    }

    /// The same before anything is known of how the agent is started.
    pub(super) fn possible_instructions(&self, prompt: &str) -> Option<String> {
        let completion = &self.config.completion;
        let is_needed = completion.instructions == InstructionsMode::Auto
            && completion.when == CompletionTrigger::Claimed;
        if !is_needed || self.shows_form(prompt) {
            return None;
        }
        // One way is enough: that of the first detector.
        let mut instructions = self.judges.detectors.iter().map(|detector| detector.instructions());
        let first = instructions.find(|text| !text.trim().is_empty())?;
        Some(format!("\n\n---\n\n{}\n", first.trim()))
    }

    /// Whether a text shows a form in which completion can be claimed.
    fn shows_form(&self, text: &str) -> bool {
        let forms = self.judges.detectors.iter().flat_map(|detector| detector.forms());
        forms.into_iter().any(|form| !form.is_empty() && text.contains(&form))
    }
}
