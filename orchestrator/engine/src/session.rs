//! The session of a run: performs the machine's effects and feeds its inputs.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use ralph_orchestrator_checkout::CheckoutError;
use ralph_orchestrator_machine::{
    Effect, EscalationStep, Input, LaunchDigests, Limit, ObservedEvidence, Record, RunLimits,
    RunStarted, SaveOrder, StartIteration, StartOptions, State, StopReason,
};
use ralph_orchestrator_store::{FORMAT_VERSION, Layout, StateError};
use ralph_orchestrator_workspace::TreeHasher;
use serde::Serialize;
use tokio::task::JoinHandle;
use tracing::{Instrument as _, info_span};

use super::agent_slot::AgentSlot;
use super::clock::{self, Clock};
use super::controls::RunControls;
use super::error::EngineError;
use super::feedback;
use super::fingerprint::AgentPrompt;
use super::kept_prompts::RunPrompts;
use super::location;
use super::memory::hooks::MemorySlot;
use super::observation::{WorkspaceObservation, WorkspaceObserver};
use super::phase_guard::{GuardedPhase, HeldPrompt, OpenPhase};
use super::pinned_paths;
use super::prompt::{PromptContext, with_part};
use super::protection::ProtectedChanges;
use super::redact::Redactor;
use super::run_checkout::RunCheckout;
use super::run_context::RunContext;
use super::run_event::RunObserver;
use super::run_journal::RunJournal;
use super::saving::{Saving, end_for_now};
use super::stop::{StopRequests, stop_input};
use super::test_floor::TestFloor;
use super::user_budget::{RunBudget, check_budget};
use super::validation_policy;
use super::validation_task::Selection;
use super::work_places::WorkPlaces;

/// How a run ended, or ended for now.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The run.
    pub run: String,
    /// Why.
    pub reason: StopReason,
    /// The message for people.
    pub message: String,
    /// The state at the end.
    pub state: State,
}

/// A run that can begin or be resumed: its parts, and what needs several of them.
pub struct Session {
    pub(super) context: Arc<RunContext>,
    pub(super) journal: RunJournal,
    pub(super) controls: RunControls,
    pub(super) observer: WorkspaceObserver,
    pub(super) prompts: RunPrompts,
    pub(super) agent: AgentSlot,
    pub(super) saving: Saving,
    pub(super) memory: MemorySlot,
    pub(super) start: StartNotes,
    /// Its part in the budget of all runs of the user, if there is one.
    pub(super) budget: Option<RunBudget>,
    /// In which checks run, if they do not run in the workspace.
    pub(super) checkout: Option<RunCheckout>,
    /// While what counted when the run began is copied.
    pub(super) start_copies: Option<JoinHandle<Result<(), CheckoutError>>>,
    /// What checks ran before any agent worked.
    pub(super) test_floor: Arc<TestFloor>,
}

/// Findings of the start, recorded once the run has begun or is resumed.
pub(super) struct StartNotes {
    pub(super) notes: Vec<String>,
    /// Why the agents before the first available one are not available.
    pub(super) unavailable: Vec<String>,
    /// What validators left in the run before this new one.
    pub(super) artefacts: Vec<String>,
    /// The limits that the command line states.
    pub(super) stated: BTreeSet<Limit>,
    /// The agent with which it begins, and those that take over when that cannot continue.
    pub(super) agent: EscalationStep,
}

/// What would be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DryRun {
    /// The adapter's name.
    pub agent: String,
    /// The names of the agents that would take over.
    pub fallback: Vec<String>,
    /// The names of the stronger agents that would take over, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<String>,
    /// The agent's program, resolved.
    pub program: Option<String>,
    /// The workspace.
    pub workspace: PathBuf,
    /// The command that prepares the workspace before each iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupPlan>,
    /// The detectors.
    pub detectors: Vec<String>,
    /// The validators and what they demand.
    pub validators: Vec<String>,
    /// Whether any of that is required.
    pub validation_required: bool,
    /// Whether all that is required only reads what the agent wrote.
    pub evidence_only: bool,
    /// Names of the agent's environment variables.
    pub env: Vec<String>,
    /// Where the state lies.
    pub state_dir: PathBuf,
    /// The block after the prompt that explains how to claim completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The number of the next iteration; `None` if none would begin.
    pub next_iteration: Option<u64>,
    /// Why none would begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The limits in force.
    #[serde(skip)]
    pub limits: RunLimits,
}

impl DryRun {
    /// Returns why no iteration would begin, if none would.
    #[must_use]
    pub fn into_stop(self) -> Option<(StopReason, String)> {
        self.stop_reason.zip(self.message)
    }
}

/// The setup that would be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetupPlan {
    /// The command as one would type it.
    pub command: String,
    /// The file of the workspace that it runs, as long as that does not exist: it is skipped until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<PathBuf>,
}

impl Session {
    /// Whether it goes on with a run that was there.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.context.resumed
    }

    /// Returns what its start warns of.
    #[must_use]
    pub fn start_notes(&self) -> &[String] {
        &self.start.notes
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.context.run
    }

    /// Returns the paths of its state.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        self.journal.store.layout()
    }

    /// Returns what removes the secrets of this run from texts.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        self.context.redactor.clone()
    }

    /// Returns the globs of what must be as it was when the run began.
    #[must_use]
    pub fn protects(&self) -> Vec<String> {
        self.context.policy.protects()
    }

    /// Whether the run commits the work.
    #[must_use]
    pub const fn commits(&self) -> bool {
        self.saving.mode.commits()
    }

    /// Returns the state before the run begins or is resumed.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.journal.state
    }

    /// Records a human's answer to the open question before the run is resumed.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn answer(&mut self, text: &str) -> Result<(), EngineError> {
        let record = Record::Answered { text: text.to_owned(), origin: None };
        self.journal.store.append(&record)?;
        self.journal.state.apply(&record);
        Ok(())
    }

    /// Returns what would be run.
    #[must_use]
    pub fn plan(&self) -> DryRun {
        let EscalationStep { agent, fallback } = &self.start.agent;
        let first = &self.agent.agents.named(agent).configured.description;
        let (limits, state) = (self.limits(), &self.journal.state);
        let resumed = self.context.resumed.then(|| state.resumed_with(limits.clone()));
        let stop = resumed.as_ref().and_then(State::find_stop);
        let next_iteration = stop.is_none().then(|| state.iterations.saturating_add(1));
        let (stop_reason, message) = stop.map(|stop| (stop.reason, stop.message)).unzip();
        DryRun {
            agent: agent.clone(),
            fallback: fallback.clone(),
            escalate: self.agent.agents.stronger_than(agent),
            program: first.program.as_ref().map(|program| program.display().to_string()),
            workspace: self.context.workspace.clone(),
            setup: self
                .context
                .setup
                .as_ref()
                .map(|setup| SetupPlan { command: setup.command(), missing: setup.missing_file() }),
            detectors: self.context.policy.detectors.iter().map(|d| d.name().to_owned()).collect(),
            validators: self.context.policy.demands(),
            validation_required: self.context.recorded_policy.validates(),
            evidence_only: self.context.recorded_policy.is_evidence_only(),
            env: self.context.env.keys().cloned().collect(),
            state_dir: self.journal.store.layout().root().to_owned(),
            instructions: self
                .prompts
                .source
                .read_text()
                .map(|prompt| {
                    let part = self.context.part_text(&prompt);
                    with_part(prompt, part.as_deref())
                })
                .and_then(|prompt| self.context.instructions(&prompt, false))
                .map(|block| block.trim_matches(['\n', '-']).to_owned()),
            next_iteration,
            stop_reason,
            message,
            limits: resumed.map_or(limits, |resumed| resumed.limits),
        }
    }

    /// Runs the loop to its end.
    ///
    /// # Errors
    /// The state cannot be written, or the workspace or prompt cannot be read. The run can be resumed.
    pub async fn drive(
        mut self,
        observer: Arc<dyn RunObserver>,
        stop: StopRequests,
    ) -> Result<Finished, EngineError> {
        self.journal.observer = observer;
        self.controls.stop = stop;
        Clock::keep(&self.journal.clock, self.journal.store.heartbeat()).map_err(|error| {
            EngineError::Internal(format!("no thread for the clock could be started: {error}"))
        })?;
        let span = info_span!("run", run = self.context.run);
        // It is large, and awaited by others that are.
        let finished = Box::pin(self.run_loop().instrument(span)).await;
        self.saving.discard_checkpoint().await;
        if self.journal.state.completion().is_some() {
            self.discard_checkout().await;
        }
        finished
    }

    async fn run_loop(&mut self) -> Result<Finished, EngineError> {
        if self.context.resumed {
            super::scratch::remove_scratch_dirs(std::slice::from_ref(&self.context.run));
        }
        if let Some(hooks) = &self.context.hooks {
            let folder = self.journal.store.layout().run(&self.context.run);
            hooks.begin(&folder).map_err(StateError::io("write", &folder))?;
        }
        if let Some(budget) = &mut self.budget {
            budget.begin(&self.journal.state)?;
        }
        self.saving.open_repository(&mut self.journal, &mut self.controls).await?;
        let mut inputs = VecDeque::new();
        let Some(started) = self.run_start().await? else {
            // Nothing is recorded, so the next start begins anew.
            return Ok(if self.controls.stop.borrow().times > 0 {
                self.finished(StopReason::Interrupted, "asked to stop before the run began".into())
            } else {
                let message = "limits.max_runtime was used up before the workspace was observed";
                self.finished(StopReason::MaxRuntime, message.into())
            });
        };
        inputs.push_back(Input::Started(StartOptions { fresh: started }));
        inputs.extend(self.find_changed_task().await);
        inputs.push_back(Input::Artefacts(std::mem::take(&mut self.start.artefacts)));
        inputs.extend(self.find_artefacts().await?);
        inputs.extend(
            std::mem::take(&mut self.start.unavailable).into_iter().map(Input::AgentUnavailable),
        );
        for note in std::mem::take(&mut self.start.notes) {
            inputs.push_back(Input::Warning(note));
        }
        // The effects of the start come after its notes.
        let mut next = Vec::new();
        loop {
            while let Some(input) = inputs.pop_front() {
                next.extend(self.journal.advance(input)?);
            }
            let effects = std::mem::take(&mut next);
            if effects.is_empty() {
                return Err(EngineError::Internal("the loop has nothing left to do".into()));
            }
            for effect in effects {
                let effect = match self.begin_effect(effect).await? {
                    Ok(effect) => effect,
                    Err(instead) => {
                        inputs.extend(instead);
                        continue;
                    }
                };
                if let Effect::Finish { reason, message } = effect {
                    self.memory.close(&self.journal);
                    return Ok(self.finished(reason, message));
                }
                // Where an agent was ordered to start, it has to be there to be cancelled.
                if !matches!(effect, Effect::Start(_)) {
                    self.controls.take_controls(&mut self.journal)?;
                }
                inputs.extend(self.perform(effect).await?);
            }
        }
    }

    /// Looks whether the agent's provider and the budget of all runs allow an effect, then runs the user's commands that are due before it. Returns
    /// the effect as it is to be performed, or the inputs that take its place.
    async fn begin_effect(
        &mut self,
        effect: Effect,
    ) -> Result<Result<Effect, Vec<Input>>, EngineError> {
        let (journal, controls) = (&mut self.journal, &mut self.controls);
        if matches!(effect, Effect::Prepare(_)) && !journal.state.process.attached {
            let agent = &journal.state.agent.name;
            if let Some(refused) = journal.providers.find_refusal(agent, clock::unix_ms()) {
                return Ok(Err(vec![refused]));
            }
        }
        // What a command before an iteration does is to be of use when that begins, not a day later.
        let effect = match check_budget(&mut self.budget, journal, controls, effect).await? {
            Ok(effect) => effect,
            Err(instead) => return Ok(Err(instead)),
        };
        let ended = Box::pin(self.run_due_hook(&effect)).await?;
        Ok(ended.map_or(Ok(effect), Err))
    }

    /// Observes what a new run begins with; `None` if that took too long.
    async fn run_start(&mut self) -> Result<Option<RunStarted>, EngineError> {
        let (tree, evidence) = if self.context.resumed {
            self.observer.pinned = Arc::new(pinned_paths::read(&self.journal.store)?);
            self.resume_checkout().await?;
            self.resume_test_floor()?;
            (String::new(), ObservedEvidence::default())
        } else {
            let Some(observed) = self.finish_observation().await? else { return Ok(None) };
            if let Some(snapshot) = &observed.snapshot {
                self.encode_baseline_snapshot(snapshot);
                self.observer.pin_paths(&mut self.journal.store, snapshot)?;
                let notes = self.observer.hasher.iter().flat_map(TreeHasher::rule_notes);
                self.start.notes.extend(notes.cloned());
                self.keep_steering_files(snapshot)?;
            }
            self.begin_checkout().await?;
            // With what else the run begins with: before an agent works, nobody has to wait for it.
            self.prompts.keep_prompts(&mut self.journal.store)?;
            // Nothing changes the workspace until the first observation, which would find the same.
            self.observer.observation = Some(WorkspaceObservation::Done(observed.clone()));
            (observed.tree, observed.evidence)
        };
        let contents: BTreeSet<String> = evidence.contents.into_values().collect();
        Ok(Some(RunStarted {
            version: FORMAT_VERSION,
            agent: self.start.agent.agent.clone(),
            fallback: self.start.agent.fallback.clone(),
            workspace: self.context.workspace.display().to_string(),
            policy: self.context.recorded_policy.clone(),
            limits: self.limits(),
            tree,
            evidence: contents.into_iter().collect(),
            evidence_overflowed: evidence.overflowed,
            baseline: validation_policy::baseline_mode(self.context.config.completion.baseline),
            saves: self.saving.mode,
            once: self.context.once,
            attached: self.context.attached,
            identities: location::pins(&self.observer.held, &self.prompts.source),
            task: self.first_task().await,
            checkout: self.checkout.is_some(),
            hooks: self.context.hook_events.clone(),
            escalation: self.agent.agents.escalation.clone(),
        }))
    }

    /// Returns the limits of this start.
    fn limits(&self) -> RunLimits {
        let RunContext { config, part, .. } = &*self.context;
        let initializer = config.initializer.as_ref();
        RunLimits {
            max_initializer_attempts: initializer.map(|initializer| initializer.max_attempts),
            ends_initialized: part.as_ref().is_some_and(|part| part.products.is_some()),
            stated: self.start.stated.clone(),
            ..self.agent.agents.limits(&config.limits, config.handoff)
        }
    }

    /// Checks, before a run goes on, what people have changed since code of the agent ran last, at that time.
    pub(super) async fn check_changes(
        &mut self,
        worked: Option<Timestamp>,
    ) -> Result<(), EngineError> {
        self.check_protected(worked).await?;
        if self.find_changed_task().await.is_some() {
            self.start.notes.push(self.describe_changed_task());
        }
        Ok(())
    }

    /// Refuses to go on with a run that would reject whatever is done, if a person has changed what it protects since code of
    /// the agent ran last, at that time. What the agent may have changed, it is told to put back, and only said here.
    async fn check_protected(&mut self, worked: Option<Timestamp>) -> Result<(), EngineError> {
        let RunContext { policy, baseline, workspace, .. } = &*self.context;
        let has_checkout = self.journal.state.started.as_ref().is_some_and(|run| run.checkout);
        let seen = has_checkout.then(|| pinned_paths::read(&self.journal.store)).transpose()?;
        let (since, baseline) = ((worked, seen.as_ref()), Arc::clone(baseline));
        let changes = ProtectedChanges::find(policy, baseline, workspace, since).await?;
        let Some(ProtectedChanges { text, is_by_person }) = changes else { return Ok(()) };
        if !self.context.attached && is_by_person {
            return Err(EngineError::Workspace(text));
        }
        self.start.notes.push(text);
        Ok(())
    }

    /// Returns that a person has changed the prompt since the last iteration, if that is so.
    async fn find_changed_task(&self) -> Option<Input> {
        let given = &self.journal.state.started.as_ref()?.task;
        self.prompts.changed_task(&self.context.policy, given).await.map(Input::TaskChanged)
    }

    fn describe_changed_task(&self) -> String {
        let path = self.prompts.source.path().map(|path| path.display().to_string());
        format!(
            "{} asks for something else than when run {} stopped, which goes on with it as it is now; \
             `run --restart` begins a run of its own",
            path.as_deref().unwrap_or("run.prompt_text"),
            self.context.run
        )
    }

    /// Returns the digest of the task that a new run begins with. That of a part is its item's.
    async fn first_task(&self) -> String {
        let text = self
            .prompts
            .source
            .read_text()
            .filter(|_| !self.context.resumed && self.context.part.is_none());
        match text {
            Some(text) => self.context.policy.task_digest(&text).await,
            None => String::new(),
        }
    }

    /// Performs an effect. What must not change while code of the agent runs is guarded meanwhile.
    async fn perform(&mut self, effect: Effect) -> Result<Vec<Input>, EngineError> {
        self.finish_start_copies(&effect).await?;
        let setup = self.setup_before(&effect);
        let phase =
            if setup.is_some() { Some(GuardedPhase::Setup) } else { GuardedPhase::of(&effect) };
        let open = phase.map(|phase| self.begin_phase(phase)).transpose()?;
        let performed = match setup {
            Some(setup) => {
                let span = info_span!("setup", iterations = self.journal.state.iterations);
                self.set_up(setup).instrument(span).await
            }
            None => self.perform_unguarded(effect).await,
        };
        let mut inputs = open.map_or(Ok(Vec::new()), |open| self.end_phase(open))?;
        inputs.extend(performed?);
        Ok(inputs)
    }

    async fn perform_unguarded(&mut self, effect: Effect) -> Result<Vec<Input>, EngineError> {
        match effect {
            Effect::Observe => self.observe_workspace().await,
            Effect::CheckBaseline => {
                self.check_baseline().await.map(|done| vec![Input::Baseline(done)])
            }
            Effect::Save(order) => {
                let span = info_span!("saving", iteration = order.iteration);
                self.save(order).instrument(span).await
            }
            Effect::Validate(claim) => {
                let span = info_span!("validation", iteration = self.journal.state.iterations);
                let done = self.validate(Selection::All, claim).instrument(span).await?;
                // A review was charged; where the work is complete, no further start would record it.
                if let Some(budget) = &mut self.budget {
                    budget.settle(&self.journal.state)?;
                }
                Ok(vec![Input::Validated(done)])
            }
            Effect::Explain => {
                let span = info_span!("explanation", iteration = self.journal.state.iterations);
                let found = self.explain_completion().instrument(span).await?;
                Ok(vec![Input::Explained(found)])
            }
            Effect::Prepare(start) => {
                self.memory.close(&self.journal);
                self.prepare_saved(start).await
            }
            Effect::Start(start) => {
                let (iteration, attempt) = (start.iteration, start.attempt);
                let span = info_span!("iteration", iteration, attempt);
                self.memory.begin(&self.journal);
                self.run_iteration(start).instrument(span).await
            }
            Effect::Pause { failures } => {
                self.memory.close(&self.journal);
                self.controls.pause(&mut self.journal, failures).await
            }
            Effect::WaitUntil(until_ms) => {
                self.memory.close(&self.journal);
                self.controls.wait_until(&mut self.journal, until_ms).await
            }
            Effect::Hold => {
                self.memory.close(&self.journal);
                self.controls.hold(&mut self.journal).await
            }
            // Outside an iteration there is nothing to cancel; the others are done already.
            Effect::Cancel(_) | Effect::Append(_) | Effect::Latch | Effect::Finish { .. } => {
                Ok(Vec::new())
            }
        }
    }

    pub(super) async fn prepare(
        &mut self,
        start: StartIteration,
        commits: &[String],
    ) -> Result<Vec<Input>, EngineError> {
        self.observer.held.verify()?;
        let is_initializing = self.journal.state.is_initializing();
        let now = PromptContext {
            is_initializing,
            iteration: start.iteration,
            max_iterations: self.journal.state.limits.max_iterations,
            workspace: &self.context.workspace,
        };
        let (prompt, warnings) = self.prompts.source.read_for(now)?;
        // A text of the configuration stays the same while the run is active.
        let changed_task = match self.prompts.source.place() {
            Some(_) => self.find_changed_task().await,
            None => None,
        };
        self.prompts.keep_prompts(&mut self.journal.store)?;
        let part = self.context.part_text(&prompt.text());
        let prompt = prompt.followed_by(part.as_deref());
        // Before the iteration is recorded as started: from then on the feedback counts as given.
        let instructions: Vec<String> =
            self.context.policy.detectors.iter().map(|detector| detector.instructions()).collect();
        self.memory.prepare(&self.journal, &start);
        let memory = self.memory.block(&self.context, commits) + &self.context.context_block();
        let feedback = feedback::block(&self.journal.state, &instructions, &memory);
        let bytes = [feedback.as_bytes(), &prompt.bytes].concat();
        let warnings = warnings.into_iter().map(Input::Warning);
        let mut inputs: Vec<Input> = changed_task.into_iter().chain(warnings).collect();
        let mut task = self.agent.iteration_task(&self.journal.state, &start, bytes)?;
        let instructions = if is_initializing {
            String::new()
        } else {
            self.agent.instructions(&self.journal.state, &prompt.text(), &task).unwrap_or_default()
        };
        task.prompt.extend_from_slice(instructions.as_bytes());
        let agent = self.agent.current(&self.journal.state).name.clone();
        let config_dir = self.observer.config_file.path.parent().unwrap_or_else(|| Path::new(""));
        let (inputs_of, store) = (&mut self.agent.fingerprints.inputs, &mut self.journal.store);
        let changed = inputs_of.put_back(&self.agent.agents, &agent, &task, config_dir, store)?;
        inputs.extend(changed.into_iter().map(|path| {
            Input::Warning(format!(
                "{path}, which the agent `{agent}` reads, was changed; it was put back"
            ))
        }));
        let (feedback, instructions) = (feedback.as_bytes(), instructions.as_bytes());
        let role = prompt.role.as_ref();
        let handed = AgentPrompt { feedback, instructions, role, task: &task };
        let (given, seen) = self.agent.fingerprints.take(
            &self.agent.agents,
            &self.journal.state,
            handed,
            &self.journal.store,
            &self.context.redactor,
        );
        let given = LaunchDigests { controls: feedback::controls(&self.journal.state), ..given };
        self.agent.prepared = Some((task, seen));
        inputs.extend(stop_input(&self.controls.stop));
        inputs.push(Input::Prepared { start, prompt: prompt.digest, given });
        Ok(inputs)
    }

    fn finished(&self, reason: StopReason, message: String) -> Finished {
        self.journal.announce_end(reason, &message);
        Finished {
            run: self.context.run.clone(),
            reason,
            message,
            state: self.journal.state.clone(),
        }
    }

    /// Prepares an iteration, once it is recorded what git ignores, and what is not committed, before its agent starts.
    pub(super) async fn prepare_saved(
        &mut self,
        start: StartIteration,
    ) -> Result<Vec<Input>, EngineError> {
        if !self.saving.mode.is_off() {
            let commits = self.saving.mode.commits();
            let (repository, iteration) = (self.saving.repository()?, start.iteration);
            // A comparison runs filters.
            let open = self.begin_phase(GuardedPhase::Git)?;
            let begun = self
                .saving
                .run_git(&mut self.journal, &mut self.controls, move || match commits {
                    true => repository.begin_iteration(iteration),
                    false => repository.record_ignored(),
                })
                .await;
            for input in self.end_phase(open)? {
                self.journal.advance(input)?;
            }
            let begun = begun?;
            if let (Err(problem), Some(why)) = (&begun.result, begun.interruption) {
                let problem = format!("the iteration does not begin: {problem}, since {why}");
                return Ok(end_for_now(&self.controls, problem));
            }
            self.saving.begin_problem = begun.result.err();
        }
        let commits = self.recent_commits().await?;
        self.prepare(start, &commits).await
    }

    /// Saves what the last iteration left.
    async fn save(&mut self, order: SaveOrder) -> Result<Vec<Input>, EngineError> {
        let is_commit = order.commit.is_some();
        let saved = self.saving.save(&mut self.journal, &mut self.controls, order).await?;
        let mut result = match saved {
            Ok(result) => result,
            Err(inputs) => return Ok(inputs),
        };
        if is_commit {
            result.tree_changed = self.has_tree_changed().await?;
        }
        let signal = stop_input(&self.controls.stop);
        Ok(signal.into_iter().chain([Input::Saved(result)]).collect())
    }

    /// Whether the tree is another than observed, as after a hook that formats files.
    async fn has_tree_changed(&mut self) -> Result<bool, EngineError> {
        self.observer.known_tree.set(None);
        let tree = self.observer.tree(&self.journal, &self.controls, &self.prompts.source).await?;
        self.observer.known_tree.set(tree.clone());
        Ok(tree.is_some_and(|tree| tree != self.journal.state.workspace.tree))
    }

    /// Returns the subjects of the last commits, if the agent is given any.
    async fn recent_commits(&mut self) -> Result<Vec<String>, EngineError> {
        let most = self.context.config.memory.recent_commits;
        if most == 0 || !self.context.config.memory.mode.is_given() {
            return Ok(Vec::new());
        }
        self.saving.recent_subjects(&mut self.journal, &mut self.controls, most).await
    }

    /// Begins a phase in which code of the agent may run.
    ///
    /// # Errors
    /// It cannot be recorded that the agent's code runs.
    pub(super) fn begin_phase(&mut self, phase: GuardedPhase) -> Result<OpenPhase, EngineError> {
        self.record_work()?;
        let mut prompts = Vec::new();
        // What the agent may edit in an iteration, it edits then; the rest is put back when that is read again.
        if phase != GuardedPhase::Iteration {
            prompts = self.prompts.source.hold();
            self.memory.keep(&self.journal);
        }
        if let Some(guard) = self.context.part.as_ref().and_then(|part| part.guard.as_ref()) {
            let warnings =
                guard.begin_phase(&self.context.run, self.journal.state.iterations, phase);
            warnings.iter().for_each(|warning| self.journal.warn_unrecorded(warning));
        }
        Ok(OpenPhase { phase, prompts })
    }

    /// Ends a phase: takes back what was changed in it and may not be. Returns what there is to record of that.
    pub(super) fn end_phase(&mut self, open: OpenPhase) -> Result<Vec<Input>, EngineError> {
        // What a person accepted meanwhile, the agent may have changed since.
        self.record_work()?;
        let OpenPhase { phase, prompts } = open;
        let mut inputs = Vec::new();
        for held in prompts {
            if let Some(changed) = held.restore(&self.context.workspace)? {
                inputs.push(Input::Warning(self.describe_restored(&held, phase, &changed)));
            }
        }
        if phase == GuardedPhase::Iteration {
            self.prompts.keep_edits(&mut self.journal.store)?;
        } else {
            inputs.extend(self.memory.release());
        }
        if let Some(guard) = self.context.part.as_ref().and_then(|part| part.guard.as_ref()) {
            guard.end_phase().iter().for_each(|warning| self.journal.warn_unrecorded(warning));
        }
        Ok(inputs)
    }

    fn record_work(&mut self) -> Result<(), EngineError> {
        Ok(self.agent.work_places.as_mut().map_or(Ok(()), WorkPlaces::record)?)
    }

    /// Stores what a prompt was changed to, which may be a person's edit, and says what was done.
    fn describe_restored(&self, held: &HeldPrompt, phase: GuardedPhase, changed: &[u8]) -> String {
        let message = held.describe(phase);
        if changed.is_empty() {
            return message;
        }
        let name = held.place.configured().file_name().unwrap_or_default().to_string_lossy();
        let copy =
            self.journal.store.layout().run(&self.context.run).join(format!("replaced-{name}"));
        match self.journal.store.disk().write_unsynced(&copy, &self.context.redactor.bytes(changed))
        {
            Ok(()) => format!("{message}, and the changed text is kept in {}", copy.display()),
            Err(_) => message,
        }
    }
}
