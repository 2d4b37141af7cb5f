//! How each record changes the state.

use ralph_orchestrator_contract::{CancelReason, Claim, ClaimKind, ClaimSource, ErrorClass, Usage};
use serde_json::json;

use super::control::{Control, ControlOrigin};
use super::escalation::EscalationState;
use super::hook::HookEvent;
use super::outcome::IterationOutcome;
use super::record::{Record, RunStarted};
use super::state::{
    AgentChange, AgentState, Answer, Completion, ExplainedCompletion, InitializerState, LastError,
    Latch, Note, PauseState, ProviderWait, RunningIteration, State,
};
use super::stop::{Stop, StopReason};

/// The name of the initializer's role in records.
const INITIALIZER: &str = "initializer";
/// The most notes that the next iteration is given.
const MOST_NOTES_GIVEN: usize = 16;
/// How many texts that were read by an agent stay known, for people.
const MOST_SEEN: usize = 20;

impl State {
    /// Returns the fold of a journal.
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut state = Self::default();
        for record in records {
            state.apply(record);
        }
        state
    }

    /// Applies one record.
    pub fn apply(&mut self, record: &Record) {
        let runtime_ms = self.budget.runtime_ms.max(record.runtime_ms().unwrap_or_default());
        self.budget.runtime_ms = runtime_ms;
        match record {
            Record::RunStarted(started) => self.run_started(started),
            Record::RunResumed { .. } => self.run_resumed(record),
            Record::TaskChanged { task } => self.task_changed(task),
            Record::WorkspaceMade { workspace } => self.identities.workspace = Some(*workspace),
            Record::IterationStarted { .. } => self.iteration_started(record),
            Record::Initialized { .. } => self.initializer.finish(),
            Record::ProductsMissing { missing, .. } => {
                self.initializer.missing.clone_from(missing);
            }
            Record::Usage { usage, .. } => self.report_usage(*usage),
            Record::Context { used, window } => self.agent.set_context(*used, *window),
            Record::RateWindow(window) => self.agent.set_rate_window(window),
            Record::Model { model, .. } => self.agent.reported_model = Some(model.clone()),
            Record::Note { iteration, text } => self.add_note(*iteration, text),
            Record::AgentChanged { .. } => self.agent_changed(record),
            Record::Claimed { iteration, claim } => self.claimed(*iteration, claim),
            Record::MarkerRemoved { detector } => {
                self.claims.standing.remove(detector);
            }
            Record::Cancelling { reason, is_hangup } => self.cancelling(*reason, *is_hangup),
            Record::IterationEnded { .. } => self.iteration_ended(record),
            Record::Baseline { .. } => self.baseline_checked(record),
            Record::Saved { .. } => self.saved(record),
            Record::SetupStarted { .. } => {
                (self.setup.is_done, self.setup.is_unobserved) = (false, true);
            }
            Record::SetupFinished { problem, tree, .. } => {
                self.setup_finished(tree.as_deref(), problem.as_deref());
            }
            Record::Observed { .. } => self.observed(record),
            Record::Artefacts { paths, .. } => {
                self.workspace.artefacts.extend(paths.iter().cloned());
            }
            Record::HookFinished { event, commands, .. } => self.hooks.end(*event, commands),
            Record::ReviewStarted { .. } | Record::ReviewEnded { .. } => self.reviewed(record),
            Record::Validated { .. } => self.validated(record),
            Record::Completed { .. } => self.completed(record),
            Record::Explained { .. } => self.set_explained(record),
            Record::Waiting { until_ms, reason, wait_ms } => {
                self.waits(*until_ms, reason, *wait_ms);
            }
            Record::Answered { text, origin } => self.answered(text, origin.as_ref()),
            Record::ControlReceived { .. } => self.control_received(record),
            Record::GuidanceDelivered { iteration, ids } => self.deliver_answers(*iteration, ids),
            Record::Paused { .. } => self.set_pause_in_effect(true),
            Record::Stopped { reason, message, .. } => {
                self.stop = Some(Stop { reason: *reason, message: message.clone() });
            }
            // A preview decides nothing, so it changes nothing but the time.
            Record::Clock { .. } | Record::Previewed { .. } | Record::Warning { .. } => {}
        }
        self.find_due_hooks(record);
    }

    /// Takes note of what happens with this record and has commands of the user.
    fn find_due_hooks(&mut self, record: &Record) {
        let hooks = &mut self.hooks;
        match record {
            Record::IterationStarted { .. } | Record::Paused { .. } => {
                hooks.passed.remove(&HookEvent::BeforeIteration);
                hooks.passed.remove(&HookEvent::Context);
            }
            Record::IterationEnded { iteration, outcome, cost_usd, .. } => {
                let details = json!({
                    "iteration": iteration,
                    "attempt": self.attempt,
                    "outcome": outcome,
                    "iteration_cost_usd": cost_usd,
                });
                hooks.happen(HookEvent::AfterIteration, &details);
            }
            Record::Validated { iteration, accepted, reasons, .. } => {
                hooks.passed.remove(&HookEvent::BeforeValidation);
                // A stronger one may have taken over when the commands run.
                let details = json!({
                    "agent": self.agent.name,
                    "iteration": iteration,
                    "accepted": accepted,
                    "reasons": reasons,
                });
                hooks.happen(HookEvent::AfterValidation, &details);
            }
            Record::Completed { validated, .. } => {
                let reason = StopReason::Completed;
                let details = json!({"stop_reason": reason, "validated": validated});
                for event in [HookEvent::AfterItem, HookEvent::AfterCompletion, HookEvent::AfterRun]
                {
                    hooks.happen(event, &details);
                }
            }
            Record::Stopped { reason, message, .. } => {
                let details = json!({"stop_reason": reason, "message": message});
                for event in [HookEvent::AfterItem, HookEvent::AfterStop, HookEvent::AfterRun] {
                    hooks.happen(event, &details);
                }
            }
            _ => {}
        }
    }

    fn run_started(&mut self, started: &RunStarted) {
        self.controls.configured_limits = started.limits.clone();
        self.apply_limits();
        self.agent.name.clone_from(&started.agent);
        self.agent.fallback.clone_from(&started.fallback);
        self.process.once = started.once;
        self.process.attached = started.attached;
        self.validation.baseline_mode = started.baseline;
        self.saves.mode = started.saves;
        self.identities.clone_from(&started.identities);
        self.hooks.begin(&started.hooks);
        let plan = started.escalation.as_ref();
        self.agent.escalation = plan.map(|plan| EscalationState::begin(plan, &started.agent));
        self.claims.stats.set_trigger(started.policy.when);
        self.workspace.tree.clone_from(&started.tree);
        self.progress.trees_seen.insert(started.tree.clone());
        self.workspace.evidence_history.begin(&started.evidence, started.evidence_overflowed);
        self.first_task.clone_from(&started.task);
        self.started = Some(started.clone());
    }

    fn task_changed(&mut self, task: &str) {
        self.validation.task_changed_since_rejection = true;
        if let Some(started) = &mut self.started {
            task.clone_into(&mut started.task);
        }
        // What was claimed of another task says nothing about this one; why it was rejected may.
        if matches!(self.latch, Latch::Claimed { .. }) {
            self.latch = Latch::Open;
        }
    }

    fn run_resumed(&mut self, record: &Record) {
        let Record::RunResumed {
            agent,
            fallback,
            limits,
            once,
            attached,
            baseline,
            saves,
            identities,
            hooks,
            escalation,
        } = record
        else {
            return;
        };
        self.charge_lost_review();
        self.hooks.begin(hooks);
        self.agent.escalation = match (self.agent.escalation.take(), escalation) {
            (Some(mut before), Some(plan)) => {
                before.adopt(plan);
                Some(before)
            }
            (None, Some(plan)) => Some(EscalationState::begin(plan, agent)),
            (_, None) => None,
        };
        self.saves.mode = *saves;
        self.identities.clone_from(identities);
        if self.agent.name != *agent {
            self.agent.rate_windows.clear();
        }
        agent.clone_into(&mut self.agent.name);
        fallback.clone_into(&mut self.agent.fallback);
        limits.clone_into(&mut self.controls.configured_limits);
        self.controls.limits.resume();
        self.apply_limits();
        self.set_pause_in_effect(false);
        self.validation.baseline_mode = *baseline;
        self.agent.last_change = None;
        self.agent.retrying = false;
        self.process.once = *once;
        self.process.attached = *attached;
        self.process.iterations_ended = 0;
        self.process.stop_requested = false;
        self.forgive_stop();
        self.process.resumed = true;
        self.setup.is_done = false;
    }

    /// Resets what the run stopped for: whoever resumes it has seen that. A run that was killed before it could stop keeps
    /// its counters.
    fn forgive_stop(&mut self) {
        match self.stop.take().map(|stop| stop.reason) {
            Some(StopReason::NeedsHuman) => {
                self.validation.errors_in_a_row.clear();
                self.agent.waited_ms = 0;
            }
            Some(StopReason::Budget) => self.agent.waited_ms = 0,
            Some(StopReason::Failures | StopReason::AgentUnavailable) => self.agent.failures = 0,
            Some(StopReason::Stagnation) => {
                self.progress.reset_stagnation();
                self.claims.says_all_done = 0;
            }
            None
            | Some(
                StopReason::Completed
                | StopReason::MaxIterations
                | StopReason::MaxRuntime
                | StopReason::MaxCost
                | StopReason::MaxTokens
                | StopReason::Thrashing
                | StopReason::InitFailed
                | StopReason::Initialized
                | StopReason::Baseline
                | StopReason::Interrupted
                | StopReason::Once,
            ) => {}
        }
    }

    fn iteration_started(&mut self, record: &Record) {
        let Record::IterationStarted {
            iteration,
            attempt,
            role,
            reservation,
            runtime_ms: began_ms,
            controls,
            model,
            agent,
            ..
        } = record
        else {
            return;
        };
        self.agent.ask_for_model(model.as_deref());
        let (iteration, attempt) = (*iteration, *attempt);
        self.iterations = self.iterations.max(iteration);
        self.deliver_answers(iteration, controls);
        self.attempt = attempt;
        self.agent.retrying = false;
        self.agent.has_worked = false;
        self.agent.context = None;
        self.running = Some(RunningIteration {
            iteration,
            attempt,
            usage: Usage::default(),
            reservation: *reservation,
            began_ms: *began_ms,
            cancelling: None,
            notes: 0,
            is_initializer: role.as_deref() == Some(INITIALIZER),
            agent: if agent.is_empty() { self.agent.name.clone() } else { agent.clone() },
        });
        self.waiting = None;
        self.setup.is_done = false;
        self.process.resumed = false;
        self.claims.stats.expect_validation();
        self.workspace.observed_since_validation = false;
        self.progress.since_iteration_start = false;
        // Only in a journal of an older version does one begin while a question is open.
        self.claims.human_request = None;
        self.claims.near_misses.clear();
        // An attempt before this one may have been saved.
        self.saves.iteration = self.saves.iteration.filter(|saved| *saved < iteration);
        self.last_changes = None;
    }

    fn report_usage(&mut self, usage: Usage) {
        if let Some(running) = &mut self.running {
            running.usage = running.usage.max(usage);
        }
    }

    /// Newer notes are worth more than older ones.
    fn add_note(&mut self, iteration: u64, text: &str) {
        if let Some(running) = &mut self.running {
            running.notes = running.notes.saturating_add(1);
        }
        self.notes.push(Note { iteration, text: text.to_owned() });
        let excess = self.notes.len().saturating_sub(MOST_NOTES_GIVEN);
        self.notes.drain(..excess);
    }

    /// The agent that takes over starts with counters of its own.
    fn agent_changed(&mut self, record: &Record) {
        let Record::AgentChanged { from, to, reason, escalated } = record else { return };
        let agent = &mut self.agent;
        to.clone_into(&mut agent.name);
        match agent.escalation.as_mut().filter(|_| *escalated) {
            Some(escalation) => {
                *escalation = EscalationState::begin(&escalation.plan, to);
                let step = escalation.step();
                agent.fallback = step.map(|step| step.fallback.clone()).unwrap_or_default();
                agent.retrying = false;
                // What the others could not get accepted is no work of this one.
                if let Some(rejection) = &mut self.validation.rejection {
                    rejection.times = 0;
                }
            }
            None => {
                agent.fallback.retain(|name| name != to);
                agent.retrying = self.process.iterations_ended > 0;
            }
        }
        (agent.failures, agent.deferrals, agent.waited_ms) = (0, 0, 0);
        agent.last_change =
            Some(AgentChange { from: from.clone(), to: to.clone(), reason: reason.clone() });
        self.progress.reset_stagnation();
        self.waiting = None;
        (self.agent.window, self.agent.reported_model) = (None, None);
        self.agent.rate_windows.clear();
    }

    fn claimed(&mut self, iteration: u64, claim: &Claim) {
        if claim.source == ClaimSource::State && !claim.is_automatic() {
            self.claims.standing.insert(claim.detector.clone(), claim.kind);
        }
        (self.claims.says_done, self.claims.says_all_done) = (0, 0);
        match claim.kind {
            ClaimKind::NeedsHuman => self.claims.human_request = Some(claim.clone()),
            ClaimKind::Complete if self.completion().is_none() => {
                self.claims.stats.expect_validation();
                if !claim.is_automatic() {
                    self.claims.stats.count_claim();
                }
                self.latch = Latch::Claimed { claim: claim.clone(), iteration };
            }
            ClaimKind::Complete => {}
        }
    }

    fn waits(&mut self, until_ms: u64, reason: &str, wait_ms: u64) {
        self.waiting = Some(ProviderWait { until_ms, reason: reason.to_owned(), wait_ms });
        self.agent.waited_ms = self.agent.waited_ms.saturating_add(wait_ms);
    }

    fn cancelling(&mut self, reason: CancelReason, is_hangup: bool) {
        if reason == CancelReason::Signal {
            self.process.stop_requested = true;
            self.process.hung_up = is_hangup;
        }
        if let Some(running) = &mut self.running {
            running.cancelling.get_or_insert(reason);
        }
    }

    fn iteration_ended(&mut self, record: &Record) {
        let Record::IterationEnded {
            outcome,
            usage,
            cost_usd,
            tool_calls,
            left_behind,
            survived,
            ..
        } = record
        else {
            return;
        };
        self.agent.survivors.clone_from(survived);
        let Some(running) = self.running.take() else { return };
        let usage = running.usage.max(*usage);
        self.charge(&running.agent, usage, *cost_usd);
        self.budget.largest_charge = self.budget.largest_charge.max(*cost_usd);
        self.process.iterations_ended = self.process.iterations_ended.saturating_add(1);
        self.count_done_statements(record);
        self.agent.count_failure(outcome);
        self.agent.has_worked = tool_calls.is_some_and(|calls| calls > 0);
        if outcome.is_regular() {
            self.agent.left_behind.clone_from(left_behind);
            // It has read the older notes, and left those that the next iteration needs.
            self.notes.retain(|note| note.iteration == running.iteration);
            self.see_answers(running.iteration);
        }
        if running.is_initializer {
            self.count_initializer_attempt(outcome);
        }
        // An agent that failed had no chance to call one, and its failures are counted apart.
        self.progress.called_no_tool = *tool_calls == Some(0) && outcome.is_regular();
        self.progress.awaiting_observation = counts_for_stagnation(outcome);
        self.validation.iterated_since_rejection |= self.progress.awaiting_observation;
        self.last_outcome = Some(outcome.clone());
    }

    fn completed(&mut self, record: &Record) {
        let Record::Completed { iteration, tree, evidence, policy, task, validated, .. } = record
        else {
            return;
        };
        let Latch::Claimed { claim, .. } = &self.latch else { return };
        self.latch = Latch::Completed(Completion {
            claim: claim.clone(),
            iteration: *iteration,
            tree: tree.clone(),
            evidence: evidence.clone(),
            policy: policy.clone(),
            task: task.clone(),
            validated: *validated,
            verdicts: std::mem::take(&mut self.validation.accepted_verdicts),
        });
        self.stop = Some(Stop::new(StopReason::Completed, "the work is proved done"));
    }

    fn set_explained(&mut self, record: &Record) {
        let Record::Explained { summary, explanation, .. } = record else { return };
        let (summary, explanation) = (summary.clone(), explanation.clone());
        self.explained = Some(ExplainedCompletion { summary, explanation });
    }

    const fn set_pause_in_effect(&mut self, in_effect: bool) {
        if let Some(pause) = &mut self.controls.pause {
            pause.in_effect = in_effect;
        }
    }

    fn control_received(&mut self, record: &Record) {
        let Record::ControlReceived { origin, control, refused } = record else { return };
        self.controls.received.insert(origin.id.clone());
        if refused.is_some() {
            return;
        }
        match control {
            Control::Steer { text } => self.add_answer(None, text, Some(origin)),
            Control::Answer { text } => self.answered(text, Some(origin)),
            Control::Pause { now } => {
                let before = self.controls.pause.take();
                let in_effect = before.as_ref().is_some_and(|pause| pause.in_effect);
                let origin = before.map_or_else(|| origin.clone(), |pause| pause.origin);
                self.controls.pause = Some(PauseState { origin, now: *now, in_effect });
            }
            Control::Resume => self.controls.pause = None,
            Control::Limits(changes) => {
                self.controls.limits.apply(changes, origin);
                self.apply_limits();
            }
            Control::Stop => {}
        }
    }

    /// Takes an answer to the open question, if there is one.
    fn answered(&mut self, text: &str, origin: Option<&ControlOrigin>) {
        let question = self.claims.human_request.take().map(|claim| claim.text);
        self.add_answer(question, text, origin);
    }

    fn add_answer(&mut self, question: Option<String>, text: &str, origin: Option<&ControlOrigin>) {
        if let Some(origin) = origin {
            self.controls.received.insert(origin.id.clone());
        }
        let (text, origin) = (text.to_owned(), origin.cloned());
        self.answers.push(Answer { question, text, origin, delivered_in: None, is_seen: false });
        self.progress.reset_stagnation();
    }

    /// Notes that the agent of an iteration is given these answers, and those without an id, which it is given at its
    /// start.
    fn deliver_answers(&mut self, iteration: u64, ids: &[String]) {
        let is_given = |answer: &Answer| {
            let id = answer.origin.as_ref().map(|origin| &origin.id);
            !answer.is_seen && id.is_none_or(|id| ids.contains(id))
        };
        for answer in self.answers.iter_mut().filter(|answer| is_given(answer)) {
            answer.delivered_in = Some(iteration);
        }
    }

    /// Notes that an agent worked to an end of its own on a prompt that had these answers.
    fn see_answers(&mut self, iteration: u64) {
        for answer in &mut self.answers {
            answer.is_seen |= answer.delivered_in == Some(iteration);
        }
        let seen = self.answers.iter().filter(|answer| answer.is_seen).count();
        let mut excess = seen.saturating_sub(MOST_SEEN);
        self.answers.retain(|answer| {
            let drops = answer.is_seen && excess > 0;
            excess = excess.saturating_sub(usize::from(drops));
            !drops
        });
    }

    /// Brings the limits in force up to date.
    fn apply_limits(&mut self) {
        self.limits = self.controls.limits.over(&self.controls.configured_limits);
    }

    fn saved(&mut self, record: &Record) {
        let Record::Saved { iteration, checkpoint, commit, problems, commit_problem, .. } = record
        else {
            return;
        };
        let saves = &mut self.saves;
        saves.iteration = Some(*iteration);
        if let Some(id) = checkpoint {
            saves.checkpoint = Some(id.clone());
            saves.checkpoints.insert(*iteration, id.clone());
        }
        saves.committed = commit.is_some();
        if commit.is_some() {
            saves.commit.clone_from(commit);
        }
        saves.problems.clone_from(problems);
        saves.commit_problem.clone_from(commit_problem);
    }

    fn setup_finished(&mut self, tree: Option<&str>, problem: Option<&str>) {
        self.setup.is_done = true;
        self.setup.problem = problem.map(str::to_owned);
        if let Some(tree) = tree {
            self.tree_set_up(tree);
        }
    }

    /// Takes the tree as the setup left it: no progress, and no older evidence.
    pub(super) fn tree_set_up(&mut self, tree: &str) {
        self.setup.is_unobserved = false;
        let workspace = &mut self.workspace;
        if workspace.is_same_tree(tree) {
            return;
        }
        tree.clone_into(&mut workspace.tree);
        workspace.tree_left = None;
        // What was rejected without it may be accepted with it.
        workspace.changed_since_validation |= self.validation.rejection.is_some();
        self.progress.trees_seen.insert(tree.to_owned());
    }

    /// Counts an iteration of the initializer that came to an end.
    fn count_initializer_attempt(&mut self, outcome: &IterationOutcome) {
        let counts = match outcome {
            IterationOutcome::Deferred { .. } => self.agent.has_worked,
            IterationOutcome::Interrupted
            | IterationOutcome::StoppedEarly { reason: CancelReason::Pause } => false,
            _ => true,
        };
        self.initializer.attempts = self.initializer.attempts.saturating_add(u32::from(counts));
    }
}

impl InitializerState {
    fn finish(&mut self) {
        self.is_done = true;
        self.missing.clear();
    }
}

impl AgentState {
    fn count_failure(&mut self, outcome: &IterationOutcome) {
        let timed_out = |message: &str| (ErrorClass::TimedOut, message.to_owned());
        let failure = match outcome {
            IterationOutcome::Failed { class, message } => Some((class.clone(), message.clone())),
            IterationOutcome::StoppedEarly { reason: CancelReason::Timeout } => {
                Some(timed_out("limits.iteration_timeout was reached"))
            }
            IterationOutcome::StoppedEarly { reason: CancelReason::Idle } => {
                Some(timed_out("nothing was heard for limits.idle_timeout"))
            }
            _ => None,
        };
        if let Some((class, message)) = failure {
            self.failures = self.failures.saturating_add(1);
            self.last_error = Some(LastError { class, message });
        } else if outcome.is_regular() {
            self.failures = 0;
        }
        if matches!(outcome, IterationOutcome::Deferred { .. }) {
            self.deferrals = self.deferrals.saturating_add(1);
        } else {
            (self.deferrals, self.waited_ms) = (0, 0);
        }
    }
}

/// Whether an iteration without progress says something of the work. One that somebody interrupted does not.
const fn counts_for_stagnation(outcome: &IterationOutcome) -> bool {
    !matches!(
        outcome,
        IterationOutcome::Deferred { .. }
            | IterationOutcome::Interrupted
            | IterationOutcome::StoppedEarly { reason: CancelReason::Signal | CancelReason::Pause }
    )
}
