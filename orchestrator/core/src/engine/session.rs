//! The driver: performs the machine's effects and feeds its inputs.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

use super::clock::{self, Clock};
use super::error::EngineError;
use super::feedback;
use super::notice::{Notice, Observer};
use super::plan::{self, Driver, Judges};
use super::prompt::PromptSource;
use super::redact::Redactor;
use super::scratch::Scratch;
use crate::config::Config;
use crate::machine::{
    Effect, Input, Now, Outcome, Policy, Record, RunStarted, StartIteration, StartOptions, State,
    StopReason, Timer, step,
};
use crate::state::{FORMAT_VERSION, Found, Layout, Store};
use crate::workspace::{Baseline, TreeHasher};

/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// The longest time between two notes of how much time has passed.
pub(super) const LONGEST_REST_MS: u64 = 10_000;

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
    pub(super) driver: Driver,
    pub(super) judges: Judges,
    pub(super) env: BTreeMap<String, String>,
    pub(super) notes: Vec<String>,
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
    pub(super) driver: Driver,
    pub(super) judges: Arc<Judges>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) redactor: Redactor,
    pub(super) config: Config,
    pub(super) baseline: Baseline,
    pub(super) prompt: PromptSource,
    /// `None` while a look at the tree goes on.
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
    once: bool,
    resumed: bool,
}

/// What would be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DryRun {
    /// The adapter's name.
    pub agent: String,
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
        let mut exclude = new.judges.evidence_dirs();
        exclude.extend(new.config.run.prompt.clone());
        let hasher = TreeHasher::new(workspace.clone(), exclude);
        let resumed = new.found.is_some();
        let state = new.found.map(|found| found.state).unwrap_or_default();
        let clock = Arc::new(Clock::starting_at(state.runtime_ms));
        let content = super::look::read_config(&new.config_file);
        Self {
            prompt: PromptSource::from_run(&new.config.run),
            hasher: Some(hasher),
            run: new.run,
            workspace,
            state,
            store: new.store,
            driver: new.driver,
            judges: Arc::new(new.judges),
            redactor: Redactor::new(&new.config.env, &new.env),
            env: new.env,
            config: new.config,
            baseline: new.baseline,
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
        let program = self.driver.description.program.as_ref();
        DryRun {
            agent: self.driver.description.name.clone(),
            program: program.map(|program| program.display().to_string()),
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
        let started = self.started().await?;
        inputs.push_back(Input::Started(StartOptions { fresh: started }));
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

    async fn started(&mut self) -> Result<RunStarted, EngineError> {
        let (tree, evidence) = if self.resumed {
            (String::new(), Vec::new())
        } else {
            (self.tree().await?.unwrap_or_default(), self.evidence().await?)
        };
        Ok(RunStarted {
            version: FORMAT_VERSION,
            agent: self.driver.description.name.clone(),
            workspace: self.workspace.display().to_string(),
            policy: self.policy.clone(),
            limits: self.driver.limits(&self.config.limits),
            tree,
            evidence,
            once: self.once,
        })
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
            Effect::Pause { failures } => {
                let pause = self.pause(failures);
                self.pause_for(pause).await
            }
            Effect::WaitUntil(until_ms) => self.wait_until(until_ms).await,
            // Outside an iteration there is nothing to cancel; the others are done already.
            Effect::Cancel(_) | Effect::Append(_) | Effect::Latch | Effect::Finish { .. } => {
                Ok(Vec::new())
            }
        }
    }

    /// `run.delay`, doubled with each failure in a row, and up to a quarter longer at random.
    fn pause(&self, failures: u32) -> Duration {
        let delay = self.config.run.delay;
        let factor = 1_u32 << failures.saturating_sub(1).min(16);
        let pause = delay.saturating_mul(factor).min(LONGEST_PAUSE.max(delay));
        if failures == 0 { pause } else { pause + pause.mul_f64(random_quarter()) }
    }

    async fn wait_until(&mut self, until_ms: u64) -> Result<Vec<Input>, EngineError> {
        let reason =
            self.state.waiting.as_ref().map(|wait| wait.reason.clone()).unwrap_or_default();
        let wait = Wait::new(
            until_ms,
            Now { runtime_ms: self.clock.runtime_ms(), unix_ms: clock::unix_ms() },
            self.state.limits.max_wait_ms,
        );
        let ms = wait.left(wait.began);
        self.notice(&Notice::Waiting { iteration: self.state.iterations, ms, reason });
        self.rest(|runtime_ms| wait.left(Now { runtime_ms, unix_ms: clock::unix_ms() })).await
    }

    async fn pause_for(&mut self, pause: Duration) -> Result<Vec<Input>, EngineError> {
        if !pause.is_zero() {
            self.notice(&Notice::Waiting {
                iteration: self.state.iterations,
                ms: plan::millis(pause),
                reason: "pause".to_owned(),
            });
        }
        let until_ms = self.clock.runtime_ms().saturating_add(plan::millis(pause));
        self.rest(|now_ms| until_ms.saturating_sub(now_ms)).await
    }

    /// Rests as long as `left` says, given the runtime, but no longer than `max_runtime` allows and not
    /// once the run is asked to stop. Notes from time to time how much time has passed.
    async fn rest(&mut self, left: impl Fn(u64) -> u64) -> Result<Vec<Input>, EngineError> {
        loop {
            if *self.stop.borrow() > 0 {
                return Ok(vec![Input::Signal, Input::Rested]);
            }
            let now_ms = self.clock.runtime_ms();
            let allowed = self.state.limits.max_runtime_ms.unwrap_or(u64::MAX);
            let piece = left(now_ms).min(allowed.saturating_sub(now_ms)).min(LONGEST_REST_MS);
            if piece == 0 {
                return Ok(vec![Input::Rested]);
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(piece)) => {}
                () = asked(&mut self.stop, 1) => {}
            }
            self.tick()?;
        }
    }

    /// Notes how much time has passed, so that a crash does not make it undone.
    pub(super) fn tick(&mut self) -> Result<(), EngineError> {
        self.advance(Input::Timer(Timer::Tick)).map(drop)
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
        let what = serde_json::json!([
            self.driver.description,
            self.driver.config.config,
            self.workspace,
            self.env,
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
            Record::Warning { message } => Notice::Warning { iteration, message },
            Record::Usage { usage, .. } => Notice::Usage { iteration, usage },
            Record::Tick { .. }
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

/// A wait for a time of the wall clock, which may be set to anything meanwhile.
struct Wait {
    until_ms: u64,
    longest_ms: u64,
    began: Now,
}

impl Wait {
    fn new(until_ms: u64, began: Now, max_ms: u64) -> Self {
        let longest_ms = until_ms.saturating_sub(began.unix_ms).min(max_ms);
        Self { until_ms, longest_ms, began }
    }

    /// The wall clock ends it, so that a suspended machine does not wait longer than needed, and so
    /// does the runtime, so that a clock that was set back does not prolong it.
    fn left(&self, now: Now) -> u64 {
        let waited = now.runtime_ms.saturating_sub(self.began.runtime_ms);
        self.until_ms.saturating_sub(now.unix_ms).min(self.longest_ms.saturating_sub(waited))
    }
}

/// Resolves once the run was asked to stop that often.
pub(super) async fn asked(stop: &mut StopRequests, times: u32) {
    if stop.wait_for(|count| *count >= times).await.is_err() {
        // Nobody is left who could ask.
        std::future::pending::<()>().await;
    }
}

/// Between 0 and 0.25.
fn random_quarter() -> f64 {
    let mut byte = [0_u8];
    // Without random numbers there is no jitter, which does no harm.
    if getrandom::fill(&mut byte).is_err() {
        return 0.0;
    }
    f64::from(byte[0]) / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_however_the_wall_clock_is_set() {
        let at = |runtime_ms, unix_ms| Now { runtime_ms, unix_ms };
        let wait = Wait::new(10_000, at(500, 4_000), 60_000);
        assert_eq!(wait.left(at(500, 4_000)), 6_000);
        assert_eq!(wait.left(at(1_500, 5_000)), 5_000);
        assert_eq!(wait.left(at(1_500, 20_000)), 0, "set forward, or the machine was suspended");
        assert_eq!(wait.left(at(1_500, 0)), 5_000, "set back");
        assert_eq!(wait.left(at(6_500, 0)), 0, "set back, and the time has passed");
        let far = Wait::new(u64::MAX, at(0, 0), 60_000);
        assert_eq!(far.left(at(0, 0)), 60_000, "no longer than limits.max_wait");
        assert_eq!(Wait::new(0, at(0, 10), 60_000).left(at(0, 10)), 0);
    }
}
