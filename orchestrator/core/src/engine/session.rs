//! The driver: performs the machine's effects and feeds its inputs.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

use super::clock::{self, Clock};
use super::drivers::Drivers;
use super::error::EngineError;
use super::feedback;
use super::notice::{Notice, Observer};
use super::plan::{self, Judges};
use super::prompt::PromptSource;
use super::redact::Redactor;
use super::scratch::Scratch;
use crate::config::Config;
use crate::machine::{
    Effect, Input, Now, Outcome, Policy, Record, RunStarted, StartIteration, StartOptions, State,
    StopReason, step,
};
use crate::state::{FORMAT_VERSION, Found, Layout, Store};
use crate::workspace::{Baseline, PromptWatch, TreeHasher};

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
    pub(super) policy: Policy,
    pub(super) baseline: Baseline,
    pub(super) found: Option<Found>,
    pub(super) store: Store,
    pub(super) drivers: Drivers,
    pub(super) judges: Judges,
    pub(super) redactor: Redactor,
    pub(super) notes: Vec<String>,
    pub(super) out: Vec<String>,
    pub(super) config_file: PathBuf,
    pub(super) once: bool,
    pub(super) config: Config,
}

/// A run that can begin or go on.
pub struct Session {
    pub(super) run: String,
    pub(super) workspace: PathBuf,
    pub(super) state: State,
    pub(super) store: Store,
    pub(super) drivers: Drivers,
    pub(super) judges: Arc<Judges>,
    /// The environment of validators: that of the first agent, whoever works.
    pub(super) env: BTreeMap<String, String>,
    pub(super) redactor: Redactor,
    pub(super) config: Config,
    pub(super) baseline: Arc<Baseline>,
    pub(super) prompt: PromptSource,
    /// Notices changes of the prompt file while an agent runs; one for the whole run.
    pub(super) prompt_watch: Option<PromptWatch>,
    /// `None` while a look at the tree goes on, or if one was broken off.
    pub(super) hasher: Option<TreeHasher>,
    pub(super) clock: Arc<Clock>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) stop: StopRequests,
    /// Runtime when the agent was last started, in milliseconds.
    pub(super) began_ms: u64,
    /// The final message of the iteration that just ended well.
    pub(super) final_text: Option<String>,
    /// What the agent reads in the iteration that is about to start.
    pub(super) prepared: Option<Vec<u8>>,
    pub(super) config_file: ConfigFile,
    pub(super) scratch: Scratch,
    /// Digest of the prompt that was kept last.
    pub(super) kept_prompt: Option<blake3::Hash>,
    policy: Policy,
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
    pub validated: bool,
    /// Names of the agent's environment variables.
    pub env: Vec<String>,
    /// Where the state lies.
    pub state_dir: PathBuf,
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
        let workspace = plan::real_path(&new.config.run.workspace);
        let resumed = new.found.is_some();
        let state = new.found.map(|found| found.state).unwrap_or_default();
        let clock = Arc::new(Clock::starting_at(state.runtime_ms));
        let content = super::look::read_config(&new.config_file);
        Self {
            prompt: PromptSource::from_run(&new.config.run),
            prompt_watch: None,
            hasher: None,
            run: new.run,
            workspace,
            state,
            store: new.store,
            env: new.drivers.first.env.clone(),
            drivers: new.drivers,
            judges: Arc::new(new.judges),
            redactor: new.redactor,
            config: new.config,
            baseline: Arc::new(new.baseline),
            clock,
            observer: Arc::new(Silent),
            stop: watch::channel(0).1,
            began_ms: 0,
            final_text: None,
            prepared: None,
            config_file: ConfigFile { path: new.config_file, content },
            scratch: Scratch::default(),
            kept_prompt: None,
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
            validated: self.policy.validates(),
            env: self.env.keys().cloned().collect(),
            state_dir: self.layout().root().to_owned(),
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
        self.turns().await
    }

    async fn turns(&mut self) -> Result<Finished, EngineError> {
        if self.resumed {
            super::scratch::sweep(&self.run);
        }
        let mut inputs = VecDeque::new();
        let Some(started) = self.started().await? else {
            // Nothing is recorded, so the next start begins anew.
            return Ok(if *self.stop.borrow() > 0 {
                self.finished(StopReason::Interrupted, "interrupted before the run began".into())
            } else {
                let message = "limits.max_runtime was used up before the workspace was looked at";
                self.finished(StopReason::MaxRuntime, message.into())
            });
        };
        inputs.push_back(Input::Started(StartOptions { fresh: started }));
        inputs.extend(std::mem::take(&mut self.out).into_iter().map(Input::AgentOut));
        for note in std::mem::take(&mut self.notes) {
            inputs.push_back(Input::Warn(note));
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
            (String::new(), Vec::new())
        } else {
            let (tree, evidence) = (self.tree().await?, self.evidence().await?);
            let (Some(tree), Some(evidence)) = (tree, evidence) else { return Ok(None) };
            (tree, evidence)
        };
        Ok(Some(RunStarted {
            version: FORMAT_VERSION,
            agent: self.drivers.first.name.clone(),
            fallback: self.drivers.fallback(),
            workspace: self.workspace.display().to_string(),
            policy: self.policy.clone(),
            limits: self.drivers.limits(&self.config.limits),
            tree,
            evidence,
            once: self.once,
        }))
    }

    /// One step of the machine: records are written here, what else is to be done is handed back.
    pub(super) fn advance(&mut self, input: Input) -> Result<Vec<Effect>, EngineError> {
        let now = Now { runtime_ms: self.clock.runtime_ms(), unix_ms: clock::unix_ms() };
        let state = std::mem::take(&mut self.state);
        let (state, effects) = step(state, self.redactor.input(input), now);
        self.state = state;
        let mut rest = Vec::new();
        for effect in effects {
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
        self.tell(record);
        Ok(())
    }

    async fn perform(&mut self, effect: Effect) -> Result<Vec<Input>, EngineError> {
        match effect {
            Effect::Look => self.look().await,
            Effect::Validate(claim) => {
                self.validate(&claim).await.map(|done| vec![Input::Validated(done)])
            }
            Effect::Prepare(start) => self.prepare(start),
            Effect::Start(start) => self.iterate(start).await,
            Effect::Pause { failures } => self.pause(failures).await,
            Effect::WaitUntil(until_ms) => self.wait_until(until_ms).await,
            // Outside an iteration there is nothing to cancel; the others are done already.
            Effect::Cancel(_) | Effect::Append(_) | Effect::Latch | Effect::Finish { .. } => {
                Ok(Vec::new())
            }
        }
    }

    fn prepare(&mut self, start: StartIteration) -> Result<Vec<Input>, EngineError> {
        let (prompt, warning) = self.prompt.read()?;
        // Before the iteration is recorded as started: then what was to be told counts as told.
        let instructions: Vec<String> =
            self.judges.detectors.iter().map(|detector| detector.instructions()).collect();
        let mut bytes = feedback::block(&self.state, &instructions).into_bytes();
        bytes.extend_from_slice(&prompt.bytes);
        self.prepared = Some(bytes);
        let mut inputs: Vec<Input> = warning.map(Input::Warn).into_iter().collect();
        if *self.stop.borrow() > 0 {
            inputs.push(Input::Signal);
        }
        let fingerprint = self.fingerprint();
        inputs.push(Input::Prepared { start, prompt: prompt.digest, fingerprint });
        Ok(inputs)
    }

    fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let now = self.drivers.of(&self.state);
        let what = serde_json::json!([
            now.driver.description,
            now.driver.config.config,
            self.workspace,
            now.env,
        ]);
        hasher.update(what.to_string().as_bytes());
        hasher.finalize().to_hex().to_string()
    }

    fn finished(&self, reason: StopReason, message: String) -> Finished {
        let state = self.state.clone();
        self.notice(&Notice::RunFinished {
            iteration: state.iterations,
            stop_reason: reason,
            message: message.clone(),
            agent: state.agent.clone(),
            agent_changed: state.changed.clone(),
            ended_well: matches!(state.last_outcome, Some(Outcome::Succeeded)),
            validated: state.completion().is_some_and(|completion| completion.validated),
            iterations: state.iterations,
            cost_usd: state.cost(),
            cost_estimated: state.estimated,
            cost_told: state.cost_told,
            tokens: state.tokens(),
            runtime_ms: state.runtime_ms,
        });
        Finished { run: self.run.clone(), reason, message, state }
    }

    pub(super) fn notice(&self, notice: &Notice) {
        self.observer.notice(&self.run, notice);
    }

    /// Warns without leaving a record.
    pub(super) fn warn_only(&self, message: &str) {
        let message = self.redactor.text(message).into_owned();
        self.notice(&Notice::Warning { iteration: self.state.iterations, message });
    }

    /// Tells those who watch what a record says.
    fn tell(&self, record: &Record) {
        let iteration = self.state.iterations;
        let notice = match record.clone() {
            Record::RunStarted(started) => Notice::RunStarted {
                agent: started.agent,
                workspace: self.workspace.clone(),
                state_dir: self.layout().root().to_owned(),
                validated: started.policy.validates(),
                validators: started.policy.validators.into_iter().map(|info| info.name).collect(),
            },
            Record::RunResumed { agent, .. } => Notice::RunResumed {
                agent,
                workspace: self.workspace.clone(),
                state_dir: self.layout().root().to_owned(),
                iterations: iteration,
                cost_usd: self.state.cost(),
            },
            Record::IterationStarted { iteration, attempt, trigger, .. } => {
                let max_iterations = self.state.limits.max_iterations;
                Notice::IterationStarted { iteration, attempt, trigger, max_iterations }
            }
            Record::IterationEnded { iteration, outcome, usage, cost_usd, runtime_ms, .. } => {
                Notice::IterationFinished {
                    iteration,
                    outcome,
                    usage,
                    cost_usd,
                    total_cost_usd: self.state.charged,
                    max_cost_usd: self.state.limits.max_cost_usd,
                    duration_ms: runtime_ms.saturating_sub(self.began_ms),
                }
            }
            Record::Claimed { claim, .. } => Notice::Claim { iteration, claim },
            Record::Looked { near_misses, .. } => {
                for near_miss in near_misses {
                    self.notice(&Notice::NearMiss { iteration, near_miss });
                }
                return;
            }
            Record::Validated { accepted, verdicts, reasons, .. } => {
                Notice::Verdict { iteration, accepted, verdicts, reasons }
            }
            Record::Note { text, .. } => Notice::Note { iteration, text },
            Record::Judged { accepted, reasons, .. } => {
                Notice::Judged { iteration, accepted, reasons }
            }
            Record::AgentChanged { from, to, reason } => {
                Notice::AgentChanged { iteration, from, to, reason }
            }
            Record::Warning { message } => Notice::Warning { iteration, message },
            Record::Usage { usage, .. } => Notice::Usage { iteration, usage },
            Record::Tick { .. }
            | Record::Context { .. }
            | Record::Withdrawn { .. }
            | Record::Cancelling { .. }
            | Record::Completed { .. }
            | Record::Waiting { .. }
            | Record::Answered { .. }
            | Record::Stopped { .. } => return,
        };
        self.notice(&notice);
    }
}
