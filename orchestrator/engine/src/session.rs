//! The session of a run: performs the machine's effects and feeds its inputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ralph_orchestrator_config::Config;
use ralph_orchestrator_contract::{Iteration, NearMiss};
use ralph_orchestrator_machine::{
    Effect, FrozenPolicy, Input, LaunchDigests, Now, ObservedEvidence, Record, RunLimits,
    RunStarted, StartIteration, StartOptions, State, StopReason, step,
};
use ralph_orchestrator_store::{FORMAT_VERSION, Layout, Store};
use ralph_orchestrator_workspace::{
    EvidenceHasher, PinnedPaths, PromptWatch, TreeHasher, WorkspaceHandle,
};
use serde::Serialize;
use tracing::{Instrument as _, info_span};

use super::agents::AgentPool;
use super::clock::{self, Clock};
use super::controls::ControlInbox;
use super::error::EngineError;
use super::feedback;
use super::fingerprint::{AgentPrompt, Fingerprints, StartDetails};
use super::kept_prompts::KeptPrompts;
use super::location;
use super::memory::RunMemory;
use super::observation::{KnownTree, WorkspaceObservation};
use super::open::RunPart;
use super::phase_guard::GuardedPhase;
use super::pinned_paths;
use super::processes::Processes;
use super::prompt::{PromptContext, PromptSource, with_part};
use super::protection::{ProtectedState, Protection};
use super::redact::Redactor;
use super::run_event::RunObserver;
use super::saving::Saving;
use super::scratch::ScratchDir;
use super::stop::StopRequests;
use super::trace;
use super::validation_policy::{self, CompletionPolicy, ConfiguredValidator};
use super::validation_task::Selection;
use super::work_places::WorkPlaces;
use crate::workspace_setup::WorkspaceSetup;

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

/// A run that can begin or be resumed.
pub struct Session {
    pub(super) run: String,
    pub(super) workspace: PathBuf,
    /// The folder that has to be at that path.
    pub(super) held: WorkspaceHandle,
    /// The lock of the workspace.
    pub(super) occupied: Arc<File>,
    pub(super) state: State,
    pub(super) store: Store,
    pub(super) agents: AgentPool,
    pub(super) policy: Arc<CompletionPolicy>,
    /// The environment of validators: that of the first agent, whichever works.
    pub(super) env: BTreeMap<String, String>,
    pub(super) redactor: Redactor,
    pub(super) config: Config,
    pub(super) baseline: Arc<ProtectedState>,
    pub(super) prompt: PromptSource,
    /// What it works on, if it is one of a series.
    pub(super) part: Option<RunPart>,
    /// Where its agents can write, if it is one of the user's.
    pub(super) work_places: Option<WorkPlaces>,
    /// What it was before the last iteration, for the next start.
    pub(super) kept_prompts: KeptPrompts,
    /// Watches the prompt file for changes while an agent runs; one for the whole run.
    pub(super) prompt_watch: Option<PromptWatch>,
    /// What people ask of the run.
    pub(super) inbox: ControlInbox,
    /// The paths that counted in the workspace when the run began, and count to its end.
    pub(super) pinned: Arc<PinnedPaths>,
    /// `None` while an observation runs, or if one was interrupted.
    pub(super) hasher: Option<TreeHasher>,
    pub(super) evidence_hasher: EvidenceHasher,
    /// An observation that was begun, until its result is needed.
    pub(super) observation: Option<WorkspaceObservation>,
    pub(super) known_tree: KnownTree,
    pub(super) clock: Arc<Clock>,
    pub(super) observer: Arc<dyn RunObserver>,
    pub(super) stop: StopRequests,
    /// Runtime when the agent was last started, in milliseconds.
    pub(super) began_ms: u64,
    /// Near misses, until the workspace is observed.
    pub(super) near_misses: Option<Vec<NearMiss>>,
    /// What the agent is given in the iteration that is about to start.
    pub(super) prepared: Option<(Iteration, StartDetails)>,
    /// What the agent was given in the iteration that was started last, as text.
    pub(super) sent_prompt: Option<String>,
    pub(super) processes: Arc<dyn Processes>,
    pub(super) fingerprints: Fingerprints,
    pub(super) config_file: ConfigFile,
    pub(super) saving: Saving,
    /// What iterations leave in words, if that is configured.
    pub(super) memory: Option<RunMemory>,
    /// The command that prepares the workspace before each iteration.
    pub(super) setup: Option<Arc<dyn WorkspaceSetup>>,
    pub(super) scratch: ScratchDir,
    /// Whether an agent's command line explains how to claim completion, by its name.
    pub(super) argv_shows_form: BTreeMap<String, bool>,
    /// Digest of the prompt that was stored last.
    pub(super) stored_prompt: Option<blake3::Hash>,
    /// How an agent was started, as stored last.
    pub(super) stored_start: Option<StartDetails>,
    pub(super) recorded_policy: FrozenPolicy,
    pub(super) notes: Vec<String>,
    /// Why the agents before the first available one are not available.
    pub(super) unavailable: Vec<String>,
    /// What validators left in the run before this new one.
    pub(super) artefacts: Vec<String>,
    pub(super) once: bool,
    pub(super) attached: bool,
    pub(super) resumed: bool,
}

/// What would be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DryRun {
    /// The adapter's name.
    pub agent: String,
    /// The names of the agents that would take over.
    pub fallback: Vec<String>,
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
    /// The number of the next iteration.
    pub next_iteration: u64,
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

/// The configuration file, watched for changes during the run.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) content: Vec<u8>,
}

impl Session {
    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// Returns the paths of its state.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        self.store.layout()
    }

    /// Returns what removes the secrets of this run from texts.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Returns the globs of what must be as it was when the run began.
    #[must_use]
    pub fn protects(&self) -> Vec<String> {
        self.policy.protects()
    }

    /// Whether the run commits the work.
    #[must_use]
    pub const fn commits(&self) -> bool {
        self.saving.mode.commits()
    }

    /// Returns the state before the run begins or is resumed.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Records a human's answer to the open question before the run is resumed.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn answer(&mut self, text: &str) -> Result<(), EngineError> {
        let record = Record::Answered { text: text.to_owned(), origin: None };
        self.store.append(&record)?;
        self.state.apply(&record);
        Ok(())
    }

    /// Returns what would be run.
    #[must_use]
    pub fn plan(&self) -> DryRun {
        let first = &self.agents.first.configured.description;
        DryRun {
            agent: first.name.clone(),
            fallback: self.agents.fallback_names(),
            program: first.program.as_ref().map(|program| program.display().to_string()),
            workspace: self.workspace.clone(),
            setup: self
                .setup
                .as_ref()
                .map(|setup| SetupPlan { command: setup.command(), missing: setup.missing_file() }),
            detectors: self.policy.detectors.iter().map(|d| d.name().to_owned()).collect(),
            validators: self.policy.demands(),
            validation_required: self.recorded_policy.validates(),
            evidence_only: self.recorded_policy.is_evidence_only(),
            env: self.env.keys().cloned().collect(),
            state_dir: self.layout().root().to_owned(),
            instructions: self
                .prompt
                .read_text()
                .map(|prompt| {
                    let part = self.part_text(&prompt);
                    with_part(prompt, part.as_deref())
                })
                .and_then(|prompt| self.possible_instructions(&prompt))
                .map(|block| block.trim_matches(['\n', '-']).to_owned()),
            next_iteration: self.state.iterations.saturating_add(1),
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
        self.observer = observer;
        self.stop = stop;
        Clock::keep(&self.clock, self.store.heartbeat()).map_err(|error| {
            EngineError::Internal(format!("no thread for the clock could be started: {error}"))
        })?;
        let span = info_span!("run", run = self.run);
        // It is large, and awaited by others that are.
        let finished = Box::pin(self.run_loop().instrument(span)).await;
        self.discard_checkpoint().await;
        finished
    }

    async fn run_loop(&mut self) -> Result<Finished, EngineError> {
        if self.resumed {
            super::scratch::remove_scratch_dirs(std::slice::from_ref(&self.run));
        }
        self.open_repository().await?;
        let mut inputs = VecDeque::new();
        let Some(started) = self.run_start().await? else {
            // Nothing is recorded, so the next start begins anew.
            return Ok(if *self.stop.borrow() > 0 {
                self.finished(StopReason::Interrupted, "asked to stop before the run began".into())
            } else {
                let message = "limits.max_runtime was used up before the workspace was observed";
                self.finished(StopReason::MaxRuntime, message.into())
            });
        };
        self.note_protected_changes().await?;
        inputs.push_back(Input::Started(StartOptions { fresh: started }));
        inputs.push_back(Input::Artefacts(std::mem::take(&mut self.artefacts)));
        inputs.extend(self.find_artefacts().await?);
        inputs
            .extend(std::mem::take(&mut self.unavailable).into_iter().map(Input::AgentUnavailable));
        for note in std::mem::take(&mut self.notes) {
            inputs.push_back(Input::Warning(note));
        }
        // The effects of the start come after its notes.
        let mut next = Vec::new();
        loop {
            while let Some(input) = inputs.pop_front() {
                next.extend(self.advance(input)?);
            }
            let effects = std::mem::take(&mut next);
            if effects.is_empty() {
                return Err(EngineError::Internal("the loop has nothing left to do".into()));
            }
            for effect in effects {
                if let Effect::Finish { reason, message } = effect {
                    self.close_memory();
                    return Ok(self.finished(reason, message));
                }
                // Where an agent was ordered to start, it has to be there to be cancelled.
                if !matches!(effect, Effect::Start(_)) {
                    self.take_controls()?;
                }
                inputs.extend(self.perform(effect).await?);
            }
        }
    }

    /// Observes what a new run begins with; `None` if that took too long.
    async fn run_start(&mut self) -> Result<Option<RunStarted>, EngineError> {
        let (tree, evidence) = if self.resumed {
            self.pinned = Arc::new(pinned_paths::read(&self.store)?);
            (String::new(), ObservedEvidence::default())
        } else {
            let Some(observed) = self.finish_observation().await? else { return Ok(None) };
            if let Some(snapshot) = &observed.snapshot {
                self.encode_baseline_snapshot(snapshot);
                self.pin_paths(snapshot)?;
            }
            // Nothing changes the workspace until the first observation, which would find the same.
            self.observation = Some(WorkspaceObservation::Done(observed.clone()));
            (observed.tree, observed.evidence)
        };
        let contents: BTreeSet<String> = evidence.contents.into_values().collect();
        Ok(Some(RunStarted {
            version: FORMAT_VERSION,
            agent: self.agents.first.name.clone(),
            fallback: self.agents.fallback_names(),
            workspace: self.workspace.display().to_string(),
            policy: self.recorded_policy.clone(),
            limits: RunLimits {
                max_initializer_attempts: self
                    .config
                    .initializer
                    .as_ref()
                    .map(|initializer| initializer.max_attempts),
                ends_initialized: self.part.as_ref().is_some_and(|part| part.products.is_some()),
                ..self.agents.limits(&self.config.limits, self.config.handoff)
            },
            tree,
            evidence: contents.into_iter().collect(),
            evidence_overflowed: evidence.overflowed,
            baseline: validation_policy::baseline_mode(self.config.completion.baseline),
            saves: self.saving.mode,
            once: self.once,
            attached: self.attached,
            identities: location::pins(&self.held, &self.prompt),
            task: self.first_task().await,
        }))
    }

    /// Says before anything is started if a run that goes on would reject whatever is done: a person may have changed what
    /// is protected since it stopped.
    async fn note_protected_changes(&mut self) -> Result<(), EngineError> {
        if !self.resumed {
            return Ok(());
        }
        let checks: Vec<&ConfiguredValidator> = self.policy.validators.iter().collect();
        let enough = self.observation_allowance().expired_or_stopped();
        let baseline = Arc::clone(&self.baseline);
        let now = Protection::begin(&checks, baseline, &self.workspace, enough).await?;
        self.notes.extend(now.and_then(|now| now.describe_changes()));
        Ok(())
    }

    /// Returns the digest of the task that a new run begins with. That of a part is its item's.
    async fn first_task(&self) -> String {
        let text = self.prompt.read_text().filter(|_| !self.resumed && self.part.is_none());
        match text {
            Some(text) => self.policy.task_digest(&text).await,
            None => String::new(),
        }
    }

    /// Feeds one input to the machine and writes its records. Returns the other effects.
    pub(super) fn advance(&mut self, input: Input) -> Result<Vec<Effect>, EngineError> {
        let now = Now { runtime_ms: self.clock.runtime_ms(), unix_ms: clock::unix_ms() };
        let state = std::mem::take(&mut self.state);
        let input = self.redactor.input(input);
        trace::input(&input);
        let (state, effects) = step(state, input, now);
        self.state = state;
        let mut rest = Vec::new();
        for effect in effects {
            trace::effect(&effect);
            match effect {
                Effect::Append(record) => {
                    if self.store.append(&record)? {
                        let message =
                            "the state directory was changed from outside; it was written again";
                        self.warn_unrecorded(message);
                    }
                    trace::record(&record);
                    self.announce(&record);
                }
                Effect::Latch => self.store.latch(&self.state.latch)?,
                other => rest.push(other),
            }
        }
        Ok(rest)
    }

    /// Performs an effect. What must not change while code of the agent runs is guarded meanwhile.
    async fn perform(&mut self, effect: Effect) -> Result<Vec<Input>, EngineError> {
        let setup = self.setup_before(&effect);
        let phase =
            if setup.is_some() { Some(GuardedPhase::Setup) } else { GuardedPhase::of(&effect) };
        let open = phase.map(|phase| self.begin_phase(phase)).transpose()?;
        let performed = match setup {
            Some(setup) => {
                let span = info_span!("setup", iterations = self.state.iterations);
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
                let span = info_span!("validation", iteration = self.state.iterations);
                let done = self.validate(Selection::All, claim).instrument(span).await;
                done.map(|done| vec![Input::Validated(done)])
            }
            Effect::Prepare(start) => {
                self.close_memory();
                self.prepare_saved(start).await
            }
            Effect::Start(start) => {
                let (iteration, attempt) = (start.iteration, start.attempt);
                let span = info_span!("iteration", iteration, attempt);
                self.begin_memory();
                self.run_iteration(start).instrument(span).await
            }
            Effect::Pause { failures } => {
                self.close_memory();
                self.pause(failures).await
            }
            Effect::WaitUntil(until_ms) => {
                self.close_memory();
                self.wait_until(until_ms).await
            }
            Effect::Hold => {
                self.close_memory();
                self.hold().await
            }
            // Outside an iteration there is nothing to cancel; the others are done already.
            Effect::Cancel(_) | Effect::Append(_) | Effect::Latch | Effect::Finish { .. } => {
                Ok(Vec::new())
            }
        }
    }

    pub(super) fn prepare(
        &mut self,
        start: StartIteration,
        commits: &[String],
    ) -> Result<Vec<Input>, EngineError> {
        self.held.verify()?;
        let is_initializing = self.state.is_initializing();
        let now = PromptContext {
            is_initializing,
            iteration: start.iteration,
            max_iterations: self.state.limits.max_iterations,
            workspace: &self.workspace,
        };
        let (prompt, warnings) = self.prompt.read_for(now)?;
        self.keep_prompts()?;
        let part = self.part_text(&prompt.text());
        let prompt = prompt.followed_by(part.as_deref());
        // Before the iteration is recorded as started: from then on the feedback counts as given.
        let instructions: Vec<String> =
            self.policy.detectors.iter().map(|detector| detector.instructions()).collect();
        self.prepare_memory(&start);
        let memory = self.memory_block(commits);
        let feedback = feedback::block(&self.state, &instructions, &memory);
        let bytes = [feedback.as_bytes(), &prompt.bytes].concat();
        let mut inputs: Vec<Input> = warnings.into_iter().map(Input::Warning).collect();
        let mut task = self.iteration_task(&start, bytes)?;
        let instructions = if is_initializing {
            String::new()
        } else {
            self.instructions(&prompt.text(), &task).unwrap_or_default()
        };
        task.prompt.extend_from_slice(instructions.as_bytes());
        let agent = self.agents.current(&self.state).name.clone();
        let config_dir = self.config_file.path.parent().unwrap_or_else(|| Path::new(""));
        let (inputs_of, store) = (&mut self.fingerprints.inputs, &mut self.store);
        let changed = inputs_of.put_back(&self.agents, &agent, &task, config_dir, store)?;
        inputs.extend(changed.into_iter().map(|path| {
            Input::Warning(format!(
                "{path}, which the agent `{agent}` reads, was changed; it was put back"
            ))
        }));
        let (feedback, instructions) = (feedback.as_bytes(), instructions.as_bytes());
        let role = prompt.role.as_ref();
        let handed = AgentPrompt { feedback, instructions, role, task: &task };
        let (given, seen) =
            self.fingerprints.take(&self.agents, &self.state, handed, &self.store, &self.redactor);
        let given = LaunchDigests { controls: feedback::controls(&self.state), ..given };
        self.prepared = Some((task, seen));
        if *self.stop.borrow() > 0 {
            inputs.push(Input::Signal);
        }
        inputs.push(Input::Prepared { start, prompt: prompt.digest, given });
        Ok(inputs)
    }

    /// Returns what follows the prompt now, if anything does.
    fn part_text(&self, prompt: &str) -> Option<String> {
        let text = self.part.as_ref().map(|part| (part.text)(prompt));
        text.filter(|text| !text.is_empty())
    }

    fn finished(&self, reason: StopReason, message: String) -> Finished {
        self.announce_end(reason, &message);
        Finished { run: self.run.clone(), reason, message, state: self.state.clone() }
    }
}
