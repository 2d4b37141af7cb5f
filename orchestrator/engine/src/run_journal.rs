//! The journal of a run while it is under way: feeds the machine, writes its records, and makes the run events that
//! observers see of them.

use std::sync::Arc;

use ralph_orchestrator_contract::{Event, NearMiss, Usage, Usd};
use ralph_orchestrator_machine::{
    Changes, Control, Effect, Input, IterationOutcome, Latch, Now, PauseState, Record, RunStarted,
    State, StopReason, Timer, step,
};
use ralph_orchestrator_store::Store;

use super::clock::{self, Clock};
use super::error::EngineError;
use super::provider_limits::RunProviders;
use super::run_context::RunContext;
use super::run_event::{RunEvent, RunObserver};
use super::trace;

/// The state of a run, the store of its records, and who sees them.
pub(super) struct RunJournal {
    pub(super) context: Arc<RunContext>,
    pub(super) state: State,
    pub(super) store: Store,
    pub(super) clock: Arc<Clock>,
    pub(super) observer: Arc<dyn RunObserver>,
    pub(super) providers: RunProviders,
    /// Runtime when the agent was last started, in milliseconds.
    pub(super) began_ms: u64,
}

impl RunJournal {
    /// Feeds one input to the machine and writes its records. Returns the other effects.
    pub(super) fn advance(&mut self, input: Input) -> Result<Vec<Effect>, EngineError> {
        let now = Now { runtime_ms: self.clock.runtime_ms(), unix_ms: clock::unix_ms() };
        let state = std::mem::take(&mut self.state);
        let input = self.context.redactor.input(input);
        trace::input(&input);
        // What others have learned is no news to them.
        let is_own = !matches!(input, Input::UserBudgetReached { .. } | Input::ProviderRefused(_));
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
                    if is_own {
                        self.providers.learn(&self.state, &record, now.unix_ms);
                    }
                    self.announce(&record);
                }
                Effect::Latch => self.store.latch(&self.state.latch)?,
                other => rest.push(other),
            }
        }
        Ok(rest)
    }

    /// Records the runtime, so that a crash does not lose it.
    pub(super) fn tick(&mut self) -> Result<(), EngineError> {
        self.advance(Input::Timer(Timer::Clock)).map(drop)
    }

    pub(super) fn emit(&self, event: &RunEvent) {
        self.observer.on_event(&self.context.run, event);
    }

    /// Warns without a record.
    pub(super) fn warn_unrecorded(&self, message: &str) {
        let message = self.context.redactor.text(message).into_owned();
        self.emit(&RunEvent::Warning { iteration: self.state.iterations, message });
    }

    /// Announces a pause between iterations.
    pub(super) fn announce_pause(&self, ms: u64) {
        self.emit(&RunEvent::Paused { iteration: self.state.iterations, ms });
    }

    /// Announces a wait for something outside.
    pub(super) fn announce_wait(&self, ms: u64, reason: String) {
        self.emit(&RunEvent::Waiting { iteration: self.state.iterations, ms, reason });
    }

    /// Announces that these validators begin.
    pub(super) fn announce_validators(&self, validators: Vec<String>) {
        self.emit(&RunEvent::Validating { iteration: self.state.iterations, validators });
    }

    /// Announces that it is looked for what made the checks green.
    pub(super) fn announce_explaining(&self, budget_ms: u64) {
        self.emit(&RunEvent::Explaining { iteration: self.state.iterations, budget_ms });
    }

    /// Announces the end of the run, or of this start of it.
    pub(super) fn announce_end(&self, reason: StopReason, message: &str) {
        let state = &self.state;
        self.emit(&RunEvent::RunFinished {
            iteration: state.iterations,
            stop_reason: reason,
            message: message.to_owned(),
            agent: state.agent.name.clone(),
            agent_changed: state.agent.last_change.clone(),
            ended_well: matches!(state.last_outcome, Some(IterationOutcome::Succeeded)),
            validated: state.completion().is_some_and(|completion| completion.validated),
            evidence_only: self.context.recorded_policy.is_evidence_only(),
            iterations: state.iterations,
            cost_usd: state.known_cost(),
            cost_estimated: state.budget.cost_estimated,
            cost_reported: state.budget.cost_reported,
            tokens: state.tokens(),
            runtime_ms: state.budget.runtime_ms,
        });
    }

    fn run_started(&self, started: RunStarted) -> RunEvent {
        RunEvent::RunStarted {
            agent: started.agent,
            workspace: self.context.workspace.clone(),
            state_dir: self.store.layout().root().to_owned(),
            validation_required: started.policy.validates(),
            evidence_only: started.policy.is_evidence_only(),
            max_runtime_ms: started.limits.max_runtime_ms,
            max_cost_usd: started.limits.max_cost_usd,
            validators: started.policy.validators.into_iter().map(|info| info.name).collect(),
        }
    }

    /// Returns the number of iterations without progress, and how many are allowed.
    fn stagnation(&self) -> (u32, Option<u32>) {
        let max = self.state.limits.max_stagnant;
        (self.state.progress.stagnant, (max < u32::MAX).then_some(max))
    }

    fn announce_changes(&self, changes: Option<Changes>) {
        let Some(changes) = changes else { return };
        let (stagnant, max_stagnant) = self.stagnation();
        let is_claimed =
            matches!(&self.state.latch, Latch::Claimed { claim, .. } if !claim.is_automatic());
        let standing = self.state.standing_rejection().filter(|_| !is_claimed);
        self.emit(&RunEvent::Changes {
            iteration: self.state.iterations,
            changes,
            stagnant,
            max_stagnant,
            claim_pending: matches!(self.state.latch, Latch::Claimed { .. }) && standing.is_none(),
            rejected: standing.and_then(|rejection| rejection.reasons.first().cloned()),
        });
    }

    fn run_resumed(&self, agent: String) -> RunEvent {
        RunEvent::RunResumed {
            agent,
            workspace: self.context.workspace.clone(),
            state_dir: self.store.layout().root().to_owned(),
            iterations: self.state.iterations,
            cost_usd: self.state.cost(),
            cost_reported: self.state.budget.cost_reported,
            tokens: self.state.tokens(),
            runtime_ms: self.state.budget.runtime_ms,
            max_runtime_ms: self.state.limits.max_runtime_ms,
            max_cost_usd: self.state.limits.max_cost_usd,
        }
    }

    fn announce_near_misses(&self, near_misses: Vec<NearMiss>) {
        let iteration = self.state.iterations;
        for near_miss in near_misses {
            self.emit(&RunEvent::NearMiss { iteration, near_miss });
        }
    }

    fn iteration_finished(
        &self,
        iteration: u64,
        outcome: IterationOutcome,
        usage: Usage,
        cost_usd: Usd,
        runtime_ms: u64,
    ) -> RunEvent {
        RunEvent::IterationFinished {
            iteration,
            outcome,
            usage,
            cost_usd,
            total_cost_usd: self.state.budget.cost_charged,
            max_cost_usd: self.state.limits.max_cost_usd,
            duration_ms: runtime_ms.saturating_sub(self.began_ms),
            agent: self.state.agent.name.clone(),
        }
    }

    fn iteration_started(&self, record: Record) -> Option<RunEvent> {
        let Record::IterationStarted {
            iteration,
            attempt,
            trigger,
            role,
            prompt_file,
            runtime_ms,
            ..
        } = record
        else {
            return None;
        };
        let max_iterations = self.state.limits.max_iterations;
        Some(RunEvent::IterationStarted {
            iteration,
            attempt,
            trigger,
            max_iterations,
            role,
            prompt_file,
            runtime_ms,
        })
    }

    /// Announces that the setup begins, why it failed, or what the initializer left missing.
    fn announce_preparation(&self, record: &Record) {
        match record {
            Record::ProductsMissing { missing, .. } => {
                self.emit(&products_missing(self.state.iterations, missing));
            }
            Record::SetupStarted { iteration } => {
                let Some(setup) = &self.context.setup else { return };
                let command = setup.command();
                self.emit(&RunEvent::SetupStarted { iteration: *iteration, command });
            }
            Record::SetupFinished { iteration, problem: Some(problem), .. } => {
                self.emit(&setup_failed(*iteration, problem));
            }
            _ => {}
        }
    }

    /// Announces a record that was written, and what it means.
    pub(super) fn announce(&self, record: &Record) {
        if let Some((seq, time)) = self.store.last_record() {
            self.observer.on_record(&self.context.run, seq, time, record);
        }
        self.announce_event(record);
    }

    /// Announces what a record says.
    fn announce_event(&self, record: &Record) {
        let iteration = self.state.iterations;
        let notice = match record.clone() {
            Record::RunStarted(started) => self.run_started(started),
            Record::RunResumed { agent, .. } => self.run_resumed(agent),
            started @ Record::IterationStarted { .. } => match self.iteration_started(started) {
                Some(started) => started,
                None => return,
            },
            Record::IterationEnded { iteration, outcome, usage, cost_usd, runtime_ms, .. } => {
                self.iteration_finished(iteration, outcome, usage, cost_usd, runtime_ms)
            }
            Record::Claimed { claim, .. } if claim.is_automatic() => return,
            Record::Claimed { claim, .. } => RunEvent::Claim { iteration, claim },
            Record::Artefacts { validator, paths, .. } => {
                RunEvent::Artefacts { iteration, validator, paths }
            }
            Record::Saved { iteration, checkpoint, commit, skipped, problems, .. } => {
                RunEvent::Saved { iteration, checkpoint, commit, skipped, problems }
            }
            Record::Observed { near_misses, changes, .. } => {
                self.announce_changes(changes);
                return self.announce_near_misses(near_misses);
            }
            Record::Validated { accepted, verdicts, reasons, .. } => {
                let (stagnant, max_stagnant) = self.stagnation();
                RunEvent::Verdict { iteration, accepted, verdicts, reasons, stagnant, max_stagnant }
            }
            Record::Baseline { .. } | Record::Explained { .. } | Record::Previewed { .. } => {
                return self.announce_checks(record);
            }
            Record::Note { text, .. } => RunEvent::Note { iteration, text },
            Record::AgentChanged { from, to, reason, .. } => {
                RunEvent::AgentChanged { iteration, from, to, reason }
            }
            Record::Warning { message } => RunEvent::Warning { iteration, message },
            Record::SetupStarted { .. }
            | Record::SetupFinished { .. }
            | Record::ProductsMissing { .. } => return self.announce_preparation(record),
            Record::GuidanceDelivered { ids, .. } => RunEvent::GuidanceDelivered { iteration, ids },
            Record::Answered { .. } | Record::ControlReceived { .. } | Record::Paused { .. } => {
                return self.announce_control(record);
            }
            Record::Usage { usage, .. } => RunEvent::Usage { iteration, usage },
            // What failed is in the warning, or in the message of the stop.
            Record::HookFinished { .. }
            | Record::ReviewStarted { .. }
            | Record::ReviewEnded { .. }
            | Record::Clock { .. }
            | Record::TaskChanged { .. }
            | Record::WorkspaceMade { .. }
            | Record::Initialized { .. }
            | Record::Model { .. }
            | Record::Context { .. }
            | Record::RateWindow(_)
            | Record::MarkerRemoved { .. }
            | Record::Cancelling { .. }
            | Record::Completed { .. }
            | Record::Waiting { .. }
            | Record::Stopped { .. } => return,
        };
        self.emit(&notice);
    }

    /// Announces what checks said beside the validations of claims.
    fn announce_checks(&self, record: &Record) {
        let iteration = self.state.iterations;
        match record.clone() {
            Record::Previewed { accepted, reasons, .. } => {
                self.emit(&RunEvent::Previewed { iteration, accepted, reasons });
            }
            Record::Baseline { accepted, verdicts, .. } => {
                self.emit(&RunEvent::Baseline { accepted, verdicts });
            }
            Record::Explained { summary, explanation, .. } => {
                self.emit(&RunEvent::Explained { iteration, summary, explanation });
            }
            _ => {}
        }
    }

    fn announce_control(&self, record: &Record) {
        if let Some(event) = self.control_event(record) {
            self.emit(&event);
        }
    }

    /// Returns the event for what a person asked of the run.
    fn control_event(&self, record: &Record) -> Option<RunEvent> {
        let iteration = self.state.iterations;
        Some(match record.clone() {
            Record::Answered { text, origin } => {
                let (origin, control) = (origin?, Control::Answer { text });
                RunEvent::ControlReceived { iteration, origin, control, refused: None }
            }
            Record::ControlReceived { origin, control, refused } => {
                RunEvent::ControlReceived { iteration, origin, control, refused }
            }
            Record::Paused { .. } => {
                let PauseState { origin, .. } = self.state.controls.pause.clone()?;
                RunEvent::PauseBegan { iteration, origin }
            }
            _ => return None,
        })
    }
}

fn products_missing(iteration: u64, missing: &[String]) -> RunEvent {
    let message = format!("the initializer left products missing: {}", missing.join("; "));
    RunEvent::Warning { iteration, message }
}

/// Says why the setup failed, in a line: the agent is given the whole of it.
fn setup_failed(iteration: u64, problem: &str) -> RunEvent {
    let line = problem.lines().next().unwrap_or_default();
    let message = format!("setup: {line} The agent of iteration {iteration} is given this.");
    RunEvent::Warning { iteration, message }
}

/// Returns what observers see of an agent's event: nothing of what is announced once it is recorded, and
/// of what only the transcript keeps.
pub(super) fn event_of_agent(iteration: u64, event: Event) -> Option<RunEvent> {
    Some(match event {
        Event::Usage { .. }
        | Event::Claim { .. }
        | Event::Note { .. }
        | Event::Warning { .. }
        | Event::Raw { .. }
        | Event::Unknown => return None,
        Event::Context { used, window } => RunEvent::Context { iteration, used, window },
        Event::Text { text } => RunEvent::AgentText { iteration, text },
        Event::ToolCall { name, input, .. } => RunEvent::AgentTool { iteration, name, input },
        Event::Waiting { reason, delay_ms } => {
            RunEvent::Waiting { iteration, ms: delay_ms.unwrap_or_default(), reason }
        }
        detail => RunEvent::AgentEvent { iteration, detail },
    })
}
