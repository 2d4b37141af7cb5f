//! The driver: performs the machine's effects and feeds its inputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;
use tracing::{Instrument as _, info_span};

use super::clock::{self, Clock};
use super::drivers::Drivers;
use super::error::EngineError;
use super::feedback;
use super::fingerprint::{Fingerprints, Handed, Start};
use super::notice::{Notice, Observer};
use super::observe::{KnownTree, Observation};
use super::pinned;
use super::place;
use super::plan::{self, Judges};
use super::processes::Processes;
use super::prompt::PromptSource;
use super::protection::ProtectedState;
use super::redact::Redactor;
use super::scratch::Scratch;
use super::trace;
use crate::machine::{
    Effect, FrozenPolicy, Input, IterationOutcome, Now, ObservedEvidence, Record, RunStarted,
    StartIteration, StartOptions, State, StopReason, step,
};
use crate::store::{FORMAT_VERSION, Layout, Store, StoredRun};
use crate::workspace::{
    Baseline, EvidenceHasher, PinnedPaths, PromptWatch, TreeHasher, WorkspaceHandle,
};
use ralph_orchestrator_config::Config;
use ralph_orchestrator_contract::{Iteration, NearMiss};

/// How often the run was asked to stop: once is an orderly stop, twice a quick one.
pub type StopRequests = watch::Receiver<u32>;

/// How a run ended, or ended for now.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The run.
    pub run: String,
    /// Why.
    pub reason: StopReason,
    /// For people.
    pub message: String,
    /// The state at the end.
    pub state: State,
}

pub(super) struct New {
    pub(super) run: String,
    pub(super) policy: FrozenPolicy,
    pub(super) baseline: Baseline,
    pub(super) found: Option<StoredRun>,
    pub(super) store: Store,
    pub(super) drivers: Drivers,
    pub(super) judges: Judges,
    pub(super) redactor: Redactor,
    pub(super) notes: Vec<String>,
    pub(super) out: Vec<String>,
    pub(super) config_file: PathBuf,
    pub(super) processes: Arc<dyn Processes>,
    pub(super) once: bool,
    pub(super) config: Config,
    pub(super) workspace: WorkspaceHandle,
    pub(super) occupied: Arc<File>,
    pub(super) prompt: PromptSource,
}

/// A run that can begin or go on.
pub struct Session {
    pub(super) run: String,
    pub(super) workspace: PathBuf,
    /// What has that path must be this.
    pub(super) held: WorkspaceHandle,
    /// What is locked as long as nobody else may work in it.
    pub(super) occupied: Arc<File>,
    pub(super) state: State,
    pub(super) store: Store,
    pub(super) drivers: Drivers,
    pub(super) judges: Arc<Judges>,
    /// The environment of validators: that of the first agent, whoever works.
    pub(super) env: BTreeMap<String, String>,
    pub(super) redactor: Redactor,
    pub(super) config: Config,
    pub(super) baseline: Arc<ProtectedState>,
    pub(super) prompt: PromptSource,
    /// Notices changes of the prompt file while an agent runs; one for the whole run.
    pub(super) prompt_watch: Option<PromptWatch>,
    /// What counted in the workspace when the run began, and counts on.
    pub(super) pinned: Arc<PinnedPaths>,
    /// `None` while a look at the tree goes on, or if one was broken off.
    pub(super) hasher: Option<TreeHasher>,
    pub(super) evidence_hasher: EvidenceHasher,
    /// A look at the workspace that was begun, until its result is needed.
    pub(super) observation: Option<Observation>,
    pub(super) known_tree: KnownTree,
    pub(super) clock: Arc<Clock>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) stop: StopRequests,
    /// Runtime when the agent was last started, in milliseconds.
    pub(super) began_ms: u64,
    /// The final message of the iteration that just ended well.
    pub(super) final_text: Option<String>,
    /// What was nearly a claim, until the workspace is looked at.
    pub(super) near_misses: Option<Vec<NearMiss>>,
    /// What the agent is given in the iteration that is about to start.
    pub(super) prepared: Option<(Iteration, Start)>,
    /// What the agent was given in the iteration that was started last, as text.
    pub(super) given: Option<String>,
    pub(super) processes: Arc<dyn Processes>,
    fingerprints: Fingerprints,
    pub(super) config_file: ConfigFile,
    pub(super) scratch: Scratch,
    /// Whether an agent's command line says how to claim completion, by its name.
    pub(super) told_by_argv: BTreeMap<String, bool>,
    /// Digest of the prompt that was kept last.
    pub(super) kept_prompt: Option<blake3::Hash>,
    /// What was kept last of how an agent was started.
    pub(super) kept_start: Option<Start>,
    policy: FrozenPolicy,
    notes: Vec<String>,
    /// Why agents before the one that can begin cannot.
    out: Vec<String>,
    once: bool,
    resumed: bool,
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
    /// Where it would work.
    pub workspace: PathBuf,
    /// Who would look for claims.
    pub detectors: Vec<String>,
    /// What a completion would have to pass.
    pub validators: Vec<String>,
    /// Whether any of that is required.
    pub validation_required: bool,
    /// Whether all that is required only reads what the agent wrote.
    pub evidence_only: bool,
    /// Names of the agent's environment variables.
    pub env: Vec<String>,
    /// Where the state lies.
    pub state_dir: PathBuf,
    /// What follows the prompt: how to claim completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The number of the next iteration.
    pub next_iteration: u64,
}

/// The configuration file, watched for changes while the run goes on.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) content: Vec<u8>,
}

struct Silent;

impl Observer for Silent {
    fn notice(&self, _run: &str, _notice: &Notice) {}
}

impl Session {
    pub(super) fn new(new: New) -> Self {
        let workspace = new.workspace.path().to_owned();
        let resumed = new.found.is_some();
        let state = new.found.map(|found| found.state).unwrap_or_default();
        let clock = Arc::new(Clock::starting_at(state.budget.runtime_ms));
        let state_began_ms = state.running.as_ref().map_or(0, |current| current.began_ms);
        let content = super::look::read_config(&new.config_file);
        Self {
            prompt: new.prompt,
            prompt_watch: None,
            held: new.workspace,
            occupied: new.occupied,
            hasher: None,
            pinned: Arc::default(),
            evidence_hasher: EvidenceHasher::default(),
            observation: None,
            known_tree: KnownTree::default(),
            run: new.run,
            workspace,
            state,
            store: new.store,
            env: new.drivers.first.env.clone(),
            drivers: new.drivers,
            judges: Arc::new(new.judges),
            redactor: new.redactor,
            config: new.config,
            baseline: Arc::new(ProtectedState::new(new.baseline)),
            clock,
            observer: Arc::new(Silent),
            stop: watch::channel(0).1,
            // Of the iteration in which the orchestrator went away, if there is one.
            began_ms: state_began_ms,
            final_text: None,
            near_misses: None,
            prepared: None,
            given: None,
            processes: new.processes,
            fingerprints: Fingerprints::default(),
            config_file: ConfigFile { path: new.config_file, content },
            scratch: Scratch::default(),
            told_by_argv: BTreeMap::new(),
            kept_prompt: None,
            kept_start: None,
            policy: new.policy,
            notes: new.notes,
            out: new.out,
            once: new.once,
            resumed,
        }
    }

    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// Where its state lies.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        self.store.layout()
    }

    /// What takes the secrets of this run out of texts.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Globs of what must be as it was when the run began.
    #[must_use]
    pub fn protects(&self) -> Vec<String> {
        self.judges.protects()
    }

    /// The state as it is before the run begins or goes on.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Records what a human answers to the open question before the run goes on.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn answer(&mut self, text: &str) -> Result<(), EngineError> {
        let record = Record::Answered { text: text.to_owned() };
        self.store.append(&record)?;
        self.state.apply(&record);
        Ok(())
    }

    /// What would be run.
    #[must_use]
    pub fn plan(&self) -> DryRun {
        let first = &self.drivers.first.driver.description;
        DryRun {
            agent: first.name.clone(),
            fallback: self.drivers.fallback(),
            program: first.program.as_ref().map(|program| program.display().to_string()),
            workspace: self.workspace.clone(),
            detectors: self.judges.detectors.iter().map(|d| d.name().to_owned()).collect(),
            validators: self.judges.demands(),
            validation_required: self.policy.validates(),
            evidence_only: self.policy.is_evidence_only(),
            env: self.env.keys().cloned().collect(),
            state_dir: self.layout().root().to_owned(),
            instructions: self
                .prompt
                .read_text()
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
        observer: Arc<dyn Observer>,
        stop: StopRequests,
    ) -> Result<Finished, EngineError> {
        self.observer = observer;
        self.stop = stop;
        Clock::keep(&self.clock).map_err(|error| {
            EngineError::Internal(format!("no thread for the clock could be started: {error}"))
        })?;
        let span = info_span!("run", run = self.run);
        // It is large, and awaited by others that are.
        Box::pin(self.turns().instrument(span)).await
    }

    async fn turns(&mut self) -> Result<Finished, EngineError> {
        if self.resumed {
            super::scratch::sweep(&self.run);
        }
        let mut inputs = VecDeque::new();
        let Some(started) = self.started().await? else {
            // Nothing is recorded, so the next start begins anew.
            return Ok(if *self.stop.borrow() > 0 {
                self.finished(StopReason::Interrupted, "asked to stop before the run began".into())
            } else {
                let message = "limits.max_runtime was used up before the workspace was looked at";
                self.finished(StopReason::MaxRuntime, message.into())
            });
        };
        inputs.push_back(Input::Started(StartOptions { fresh: started }));
        inputs.extend(self.find_artefacts().await?);
        inputs.extend(std::mem::take(&mut self.out).into_iter().map(Input::AgentUnavailable));
        for note in std::mem::take(&mut self.notes) {
            inputs.push_back(Input::Warning(note));
        }
        // The answer to the start comes after what is to be said about it.
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
                    return Ok(self.finished(reason, message));
                }
                inputs.extend(self.perform(effect).await?);
            }
        }
    }

    /// What a new run begins with; `None` if there was no time to look at all of it.
    async fn started(&mut self) -> Result<Option<RunStarted>, EngineError> {
        let (tree, evidence) = if self.resumed {
            self.pinned = Arc::new(pinned::read(&self.store)?);
            (String::new(), ObservedEvidence::default())
        } else {
            let Some(observed) = self.observed().await? else { return Ok(None) };
            self.pin_paths(&observed)?;
            // Nothing happens until the first look, which finds the same.
            self.observation = Some(Observation::Done(observed.clone()));
            (observed.tree, observed.evidence)
        };
        let contents: BTreeSet<String> = evidence.contents.into_values().collect();
        Ok(Some(RunStarted {
            version: FORMAT_VERSION,
            agent: self.drivers.first.name.clone(),
            fallback: self.drivers.fallback(),
            workspace: self.workspace.display().to_string(),
            policy: self.policy.clone(),
            limits: self.drivers.limits(&self.config.limits),
            tree,
            evidence: contents.into_iter().collect(),
            evidence_overflowed: evidence.overflowed,
            baseline: plan::baseline_mode(self.config.completion.baseline),
            once: self.once,
            identities: place::pins(&self.held, &self.prompt),
        }))
    }

    /// One step of the machine: records are written here, what else is to be done is handed back.
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
                Effect::Append(record) => self.append(&record)?,
                Effect::Latch => self.store.latch(&self.state.latch)?,
                other => rest.push(other),
            }
        }
        Ok(rest)
    }

    fn append(&mut self, record: &Record) -> Result<(), EngineError> {
        if self.store.append(record)? {
            let message = "the state directory was changed from outside; it was written again";
            self.warn_only(message);
        }
        trace::record(record);
        self.tell(record);
        Ok(())
    }

    async fn perform(&mut self, effect: Effect) -> Result<Vec<Input>, EngineError> {
        match effect {
            Effect::Observe => self.look().await,
            Effect::CheckBaseline => {
                self.check_baseline().await.map(|done| vec![Input::Baseline(done)])
            }
            Effect::Validate(claim) => {
                let span = info_span!("validation", iteration = self.state.iterations);
                let done = self.validate(&claim).instrument(span).await;
                done.map(|done| vec![Input::Validated(done)])
            }
            Effect::Prepare(start) => self.prepare(start),
            Effect::Start(start) => {
                let (iteration, attempt) = (start.iteration, start.attempt);
                let span = info_span!("iteration", iteration, attempt);
                self.iterate(start).instrument(span).await
            }
            Effect::Pause { failures } => self.pause(failures).await,
            Effect::WaitUntil(until_ms) => self.wait_until(until_ms).await,
            // Outside an iteration there is nothing to cancel; the others are done already.
            Effect::Cancel(_) | Effect::Append(_) | Effect::Latch | Effect::Finish { .. } => {
                Ok(Vec::new())
            }
        }
    }

    fn prepare(&mut self, start: StartIteration) -> Result<Vec<Input>, EngineError> {
        self.held.verify()?;
        let (prompt, warning) = self.prompt.read(&self.workspace)?;
        // Before the iteration is recorded as started: then what was to be told counts as told.
        let instructions: Vec<String> =
            self.judges.detectors.iter().map(|detector| detector.instructions()).collect();
        let feedback = feedback::block(&self.state, &instructions);
        let bytes = [feedback.as_bytes(), &prompt.bytes].concat();
        let mut inputs: Vec<Input> = warning.map(Input::Warning).into_iter().collect();
        let mut task = self.task(&start, bytes)?;
        let instructions = self.instructions(&prompt.text, &task).unwrap_or_default();
        task.prompt.extend_from_slice(instructions.as_bytes());
        let agent = self.drivers.of(&self.state).name.clone();
        let config_dir = self.config_file.path.parent().unwrap_or_else(|| Path::new(""));
        let (inputs_of, store) = (&mut self.fingerprints.inputs, &mut self.store);
        let changed = inputs_of.put_back(&self.drivers, &agent, &task, config_dir, store)?;
        inputs.extend(changed.into_iter().map(|path| {
            Input::Warning(format!(
                "{path}, which the agent `{agent}` reads, was changed; it was put back"
            ))
        }));
        let (feedback, instructions) = (feedback.as_bytes(), instructions.as_bytes());
        let handed = Handed { feedback, instructions, task: &task };
        let (given, seen) =
            self.fingerprints.take(&self.drivers, &self.state, handed, &self.store, &self.redactor);
        self.prepared = Some((task, seen));
        if *self.stop.borrow() > 0 {
            inputs.push(Input::Signal);
        }
        inputs.push(Input::Prepared { start, prompt: prompt.digest, given });
        Ok(inputs)
    }

    fn finished(&self, reason: StopReason, message: String) -> Finished {
        let state = self.state.clone();
        self.notice(&Notice::RunFinished {
            iteration: state.iterations,
            stop_reason: reason,
            message: message.clone(),
            agent: state.agent.name.clone(),
            agent_changed: state.agent.last_change.clone(),
            ended_well: matches!(state.last_outcome, Some(IterationOutcome::Succeeded)),
            validated: state.completion().is_some_and(|completion| completion.validated),
            evidence_only: self.policy.is_evidence_only(),
            iterations: state.iterations,
            cost_usd: state.cost(),
            cost_estimated: state.budget.cost_estimated,
            cost_reported: state.budget.cost_reported,
            tokens: state.tokens(),
            runtime_ms: state.budget.runtime_ms,
        });
        Finished { run: self.run.clone(), reason, message, state }
    }
}
