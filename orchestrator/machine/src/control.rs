//! Controls: how people steer a run while it is active, or between two of its starts.

use std::collections::BTreeSet;

use ralph_orchestrator_contract::{CancelReason, Guidance};
use serde::{Deserialize, Serialize};

use super::during_iteration;
use super::limit_overrides::{LimitChanges, LimitOverrides};
use super::limits::{self, Limit, RunLimits};
use super::record::Record;
use super::state::{Answer, State};
use super::transition::Transition;

/// How many texts that were read by an agent stay known, for people.
const MOST_SEEN: usize = 20;

/// Where a control came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlOrigin {
    /// Its id: unique, and sorted by time.
    pub id: String,
    /// The name of the user who sent it.
    pub user: String,
    /// The program that sent it, such as `command line`.
    pub program: String,
    /// When, in milliseconds since the Unix epoch.
    pub sent_ms: u64,
}

/// What a person asks of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Control {
    /// Guidance for the agent, at the top of the next prompt.
    Steer {
        /// The text.
        text: String,
    },
    /// The answer to the open question; guidance if there is none.
    Answer {
        /// The text.
        text: String,
    },
    /// Start no further iteration.
    Pause {
        /// Cancel the running one; it is begun again after the pause.
        now: bool,
    },
    /// End the pause.
    Resume,
    /// Change limits, from now on and over restarts.
    Limits(LimitChanges),
    /// Stop the run, which can be resumed.
    Stop,
}

impl Control {
    /// Returns its name: that of the command that sends it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Steer { .. } => "steer",
            Self::Answer { .. } => "answer",
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
            Self::Limits(_) => "limits",
            Self::Stop => "stop",
        }
    }
}

/// A control, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedControl {
    /// Where it came from.
    pub origin: ControlOrigin,
    /// What it asks for.
    pub control: Control,
}

/// A pause that was requested and has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PauseState {
    /// Who requested it.
    pub origin: ControlOrigin,
    /// The running iteration is cancelled for it.
    pub now: bool,
    /// Nothing goes on any more: the run waits for its end.
    pub in_effect: bool,
}

/// What people asked of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlState {
    /// The ids of all controls: one that is delivered again changes nothing.
    pub received: BTreeSet<String>,
    /// The pause that was requested and has not ended.
    pub pause: Option<PauseState>,
    /// The limits of the configuration, which those that were set here replace.
    pub configured_limits: RunLimits,
    /// The limits that were set here.
    pub limits: LimitOverrides,
}

impl ControlState {
    /// Returns who set the limit that is in force; `None` if it is that of the configuration.
    #[must_use]
    pub fn set_by(&self, limit: Limit) -> Option<&ControlOrigin> {
        let stated = self.configured_limits.stated.change(limit);
        self.limits.origin(limit).filter(|_| !self.limits.is_beaten(limit, stated))
    }
}

impl State {
    /// Whether no further iteration may be started for now.
    #[must_use]
    pub const fn is_pause_requested(&self) -> bool {
        self.controls.pause.is_some()
    }

    /// Returns the answers and the guidance that the next agent is given: no iteration that was given them
    /// has ended well yet.
    pub fn open_answers(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(|answer| !answer.is_seen)
    }

    /// Whether a limit on what the run may use is reached, so that no iteration may follow.
    #[must_use]
    pub fn is_out_of_budget(&self) -> bool {
        limits::budget_exceeded(self).is_some()
    }

    pub(super) const fn set_pause_in_effect(&mut self, in_effect: bool) {
        if let Some(pause) = &mut self.controls.pause {
            pause.in_effect = in_effect;
        }
    }

    pub(super) fn control_received(&mut self, record: &Record) {
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
    pub(super) fn answered(&mut self, text: &str, origin: Option<&ControlOrigin>) {
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

    /// Notes that the agent of an iteration is given these answers, and those without an id.
    pub(super) fn deliver_answers(&mut self, iteration: u64, ids: &[String]) {
        let is_given = |answer: &Answer| {
            let id = answer.origin.as_ref().map(|origin| &origin.id);
            !answer.is_seen && id.is_none_or(|id| ids.contains(id))
        };
        for answer in self.answers.iter_mut().filter(|answer| is_given(answer)) {
            answer.delivered_in = Some(iteration);
        }
    }

    /// Returns the guidance that the running agent was not given yet. Answers to questions are for the next
    /// prompt, which has the question.
    pub fn undelivered_guidance(&self) -> impl Iterator<Item = Guidance> {
        let iteration = self.running.as_ref().map(|running| running.iteration);
        let answers = self.open_answers().filter(move |answer| {
            iteration.is_some() && answer.question.is_none() && answer.delivered_in != iteration
        });
        answers.filter_map(|answer| {
            let id = answer.origin.as_ref()?.id.clone();
            Some(Guidance { id, text: answer.text.clone() })
        })
    }

    /// Notes that the running agent is given this guidance.
    pub(super) fn deliver_guidance(&mut self, iteration: u64, ids: &[String]) {
        for answer in &mut self.answers {
            if answer.origin.as_ref().is_some_and(|origin| ids.contains(&origin.id)) {
                answer.delivered_in = Some(iteration);
            }
        }
    }

    /// Notes that an agent worked to an end of its own on a prompt that had these answers.
    pub(super) fn see_answers(&mut self, iteration: u64) {
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
    pub(super) fn apply_limits(&mut self) {
        self.limits = self.controls.limits.over(&self.controls.configured_limits);
    }
}

impl Record {
    /// Returns where the control came from that it records, if it records one.
    #[must_use]
    pub const fn control_origin(&self) -> Option<&ControlOrigin> {
        match self {
            Self::ControlReceived { origin, .. } => Some(origin),
            Self::Answered { origin, .. } => origin.as_ref(),
            _ => None,
        }
    }

    /// Returns why the control that this record holds cannot take effect, if it cannot.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::ControlReceived { refused, .. } => refused.as_deref(),
            _ => None,
        }
    }
}

/// Records a control, with the reason if it cannot take effect, and performs it. One that is known, or
/// comes after the completion, is none.
pub(super) fn received(next: &mut Transition, received: ReceivedControl) {
    let ReceivedControl { origin, control } = received;
    let state = &next.state;
    if state.started.is_none()
        || state.completion().is_some()
        || state.controls.received.contains(&origin.id)
    {
        return;
    }
    let refused = refusal(state, &control);
    let is_refused = refused.is_some();
    next.record(match control.clone() {
        Control::Answer { text } if !is_refused => Record::Answered { text, origin: Some(origin) },
        control => Record::ControlReceived { origin, control, refused },
    });
    if is_refused {
        return;
    }
    match control {
        Control::Pause { now: true } => cancel_running(next, CancelReason::Pause),
        Control::Limits(_) => enforce_limits(next),
        Control::Stop => during_iteration::signal(next),
        Control::Steer { .. }
        | Control::Answer { .. }
        | Control::Pause { now: false }
        | Control::Resume => {}
    }
}

/// Records that the running agent is given guidance.
pub(super) fn guidance_taken(next: &mut Transition, mut ids: Vec<String>) {
    let Some(iteration) = next.state.running.as_ref().map(|running| running.iteration) else {
        return;
    };
    let undelivered: BTreeSet<String> =
        next.state.undelivered_guidance().map(|guidance| guidance.id).collect();
    ids.retain(|id| undelivered.contains(id));
    if !ids.is_empty() {
        next.record(Record::GuidanceDelivered { iteration, ids });
    }
}

/// Returns why a control cannot take effect.
fn refusal(state: &State, control: &Control) -> Option<String> {
    let reason = match control {
        Control::Steer { text } | Control::Answer { text } if text.trim().is_empty() => {
            "the text is empty"
        }
        Control::Pause { now } => {
            let pause = state.controls.pause.as_ref()?;
            if *now && !pause.now && !pause.in_effect {
                return None;
            }
            return Some(format!("already paused by {}", pause.origin.user));
        }
        Control::Resume if !state.is_pause_requested() => "the run is not paused",
        Control::Limits(changes) if changes.is_empty() => "no limit is given",
        Control::Stop if state.stop.is_some() => "the run has stopped",
        Control::Steer { .. }
        | Control::Answer { .. }
        | Control::Resume
        | Control::Limits(_)
        | Control::Stop => return None,
    };
    Some(reason.to_owned())
}

fn cancel_running(next: &mut Transition, reason: CancelReason) {
    if next.state.running.as_ref().is_some_and(|running| running.cancelling.is_none()) {
        next.cancel(reason);
    }
}

/// Cancels the running iteration if a limit that was set just now is reached already.
fn enforce_limits(next: &mut Transition) {
    let Some(running) = &next.state.running else { return };
    let is_late = next.state.limits.max_runtime_ms.is_some_and(|max| next.runtime_ms() >= max);
    let reached = next.state.limit_reached_by(running.usage);
    if let Some(reason) = reached.or_else(|| is_late.then_some(CancelReason::MaxRuntime)) {
        cancel_running(next, reason);
    }
}
