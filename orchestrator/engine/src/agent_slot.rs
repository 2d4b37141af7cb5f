//! The agents of a run, and what they are given: what an iteration's agent is started with, and how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use ralph_orchestrator_config::SandboxMode;
use ralph_orchestrator_contract::{AgentError, ErrorClass, Iteration, Report, survivors_complaint};
use ralph_orchestrator_machine::{IterationEnd, IterationOutcome, StartIteration, State};

use super::agent_setup::ConfiguredAgent;
use super::agents::{AgentPool, AgentRuntime};
use super::completion_phrases::{says_all_done, says_done};
use super::cut::cut;
use super::error::EngineError;
use super::fingerprint::{Fingerprints, StartDetails};
use super::run_context::RunContext;
use super::run_journal::RunJournal;
use super::scratch::ScratchDir;
use super::work_places::WorkPlaces;

/// The longest message of a failure that is stored, in bytes.
const LONGEST_MESSAGE: usize = 8 * 1024;
/// Most names of processes that were left, and the longest of them in bytes.
const MOST_NAMES: usize = 50;
const LONGEST_NAME: usize = 256;

/// The files about the start of an iteration that are to be stored; `None` for one that was stored already.
pub(super) struct KeptStart {
    /// What the agent reads.
    pub(super) prompt: Option<Vec<u8>>,
    /// How it is started.
    pub(super) start: Option<Vec<u8>>,
}

/// The agents of a run, one of which works, and what it was given.
pub(super) struct AgentSlot {
    pub(super) context: Arc<RunContext>,
    pub(super) agents: AgentPool,
    /// Where they can write, if the run is one of the user's.
    pub(super) work_places: Option<WorkPlaces>,
    pub(super) fingerprints: Fingerprints,
    /// What the agent is given in the iteration that is about to start.
    pub(super) prepared: Option<(Iteration, StartDetails)>,
    /// What the agent was given in the iteration that was started last, as text.
    pub(super) sent_prompt: Option<String>,
    pub(super) scratch: ScratchDir,
    /// Whether an agent's command line explains how to claim completion, by its name.
    argv_shows_form: BTreeMap<String, bool>,
    /// Digest of the prompt that was stored last.
    stored_prompt: Option<blake3::Hash>,
    /// How an agent was started, as stored last.
    stored_start: Option<StartDetails>,
}

impl AgentSlot {
    /// Returns the agents of a run that has started none of them.
    pub(super) fn new(
        context: Arc<RunContext>,
        agents: AgentPool,
        work_places: Option<WorkPlaces>,
    ) -> Self {
        Self {
            context,
            agents,
            work_places,
            fingerprints: Fingerprints::default(),
            prepared: None,
            sent_prompt: None,
            scratch: ScratchDir::default(),
            argv_shows_form: BTreeMap::new(),
            stored_prompt: None,
            stored_start: None,
        }
    }

    /// Returns the agent that works in this state.
    pub(super) fn current(&self, state: &State) -> &AgentRuntime {
        self.agents.current(state)
    }

    /// Returns the same, to be changed.
    pub(super) fn current_mut(&mut self, state: &State) -> &mut ConfiguredAgent {
        self.agents.current_mut(state)
    }

    /// Returns the block that follows this prompt, if there is anything to say that neither it nor the agent's command line
    /// says.
    pub(super) fn instructions(
        &mut self,
        state: &State,
        prompt: &str,
        task: &Iteration,
    ) -> Option<String> {
        let agent = self.agents.current(state);
        let name = agent.name.clone();
        // What it is started with is the same each time, but for the prompt and the budget.
        let is_shown = self.argv_shows_form.get(&name).copied();
        let is_shown = is_shown.unwrap_or_else(|| {
            let launch = agent.configured.agent.launch(task).unwrap_or_default();
            launch.argv.iter().any(|word| self.context.shows_form(word))
        });
        self.argv_shows_form.insert(name, is_shown);
        self.context.instructions(prompt, is_shown)
    }

    /// Takes the task of the iteration that begins, and what of its start is to be stored.
    pub(super) fn take_task(&mut self) -> Result<(Iteration, KeptStart), EngineError> {
        let missing = || EngineError::Internal("an iteration without a task".into());
        let (task, seen) = self.prepared.take().ok_or_else(missing)?;
        self.keep_sent_prompt(&task.prompt);
        let (prompt, start) = (self.changed_prompt(&task.prompt), self.changed_start(seen));
        Ok((task, KeptStart { prompt, start }))
    }

    /// Keeps what the agent is given, as what it repeats of that is no claim. Redacted as its final message will be.
    fn keep_sent_prompt(&mut self, prompt: &[u8]) {
        let prompt = String::from_utf8_lossy(prompt);
        self.sent_prompt = Some(self.context.redactor.text(&prompt).into_owned());
    }

    /// Returns the prompt, unless it is the one that was stored last.
    fn changed_prompt(&mut self, prompt: &[u8]) -> Option<Vec<u8>> {
        let digest = blake3::hash(prompt);
        let other = self.stored_prompt.replace(digest) != Some(digest);
        other.then(|| self.context.redactor.bytes(prompt).into_owned())
    }

    /// Returns how the agent is started, unless it is as it was stored last.
    fn changed_start(&mut self, seen: StartDetails) -> Option<Vec<u8>> {
        let other = self.stored_start.as_ref() != Some(&seen);
        let bytes = other.then(|| serde_json::to_vec_pretty(&seen).unwrap_or_default());
        self.stored_start = Some(seen);
        bytes
    }

    /// Returns what the agent is given.
    pub(super) fn iteration_task(
        &mut self,
        state: &State,
        start: &StartIteration,
        prompt: Vec<u8>,
    ) -> Result<Iteration, EngineError> {
        let scratch = self.scratch.fresh(&self.context.run)?.to_owned();
        let mut env = self.agents.current(state).env.clone();
        let of_part = self.context.part.iter().flat_map(|part| part.env.clone());
        env.extend(of_part);
        env.insert("RALPH_RUN_ID".into(), self.context.run.clone());
        env.insert("RALPH_ITERATION".into(), start.iteration.to_string());
        if self.context.config.sandbox.mode != SandboxMode::Off {
            // The one folder outside the workspace that is its own.
            env.insert("TMPDIR".into(), scratch.display().to_string());
        }
        let timeout = self.context.config.limits.iteration_timeout;
        let mut budget = start.budget;
        budget.time = Some(budget.time.map_or(timeout, |left| left.min(timeout)));
        Ok(Iteration {
            run: self.context.run.clone(),
            number: start.iteration,
            prompt,
            workspace: self.context.workspace.clone(),
            env,
            budget,
            scratch,
        })
    }

    /// Returns the end of an iteration that began at this clock tick and called so many tools.
    pub(super) fn iteration_end(
        &mut self,
        journal: &RunJournal,
        result: Result<Report, AgentError>,
        (began_ticks, tool_calls): (u64, u64),
    ) -> IterationEnd {
        let (outcome, mut report) = match result {
            Ok(report) => (IterationOutcome::Succeeded, report),
            Err(error) => (outcome_of(error.class, error.message), *error.report),
        };
        let final_text = report.final_text.as_deref().unwrap_or_default();
        let (says_done, says_all_done) = (says_done(final_text), says_all_done(final_text));
        let capabilities = self.agents.current(&journal.state).configured.description.capabilities;
        let is_counted = capabilities.tool_calls;
        let count = report.left_behind.len();
        let left_behind = shortened(std::mem::take(&mut report.left_behind));
        if !left_behind.is_empty() {
            let names = left_behind.join(", ");
            let message = match count {
                1 => format!("the agent left a process behind, which was ended: {names}"),
                _ => format!("the agent left {count} processes behind, which were ended: {names}"),
            };
            journal.warn_unrecorded(&message);
        }
        // It cannot have started these: they are somebody else's, and may run for ever.
        let (survived, older): (Vec<_>, Vec<_>) =
            report.survived.into_iter().partition(|one| one.started >= began_ticks);
        if !older.is_empty() {
            let names = shortened(older.iter().map(ToString::to_string).collect()).join(", ");
            journal.warn_unrecorded(&format!(
                "the agent reports as surviving what is older than the iteration, and is not waited for: {names}"
            ));
        }
        if let Some(complaint) = survivors_complaint(&survived) {
            journal.warn_unrecorded(&complaint);
        }
        IterationEnd {
            outcome,
            usage: self.agents.current_mut(&journal.state).with_cost(report.usage),
            promises_cost: capabilities.cost && !capabilities.free,
            says_done,
            says_all_done,
            tool_calls: is_counted.then_some(tool_calls),
            left_behind,
            survived,
        }
    }
}

/// Returns at most as many names, and each at most as long, as a reader can use.
fn shortened(mut names: Vec<String>) -> Vec<String> {
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    for name in &mut names {
        cut(name, LONGEST_NAME);
    }
    names.extend((more > 0).then(|| format!("and {more} more")));
    names
}

fn outcome_of(class: ErrorClass, mut message: String) -> IterationOutcome {
    cut(&mut message, LONGEST_MESSAGE);
    IterationOutcome::from_error(class, message)
}
