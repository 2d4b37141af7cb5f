//! What the reviews of a validation are made with: the agents, what they may use, and who records what they used.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    Budget, BuildContext, CancelReason, CancelSignal, Event, EventSink, Usage, Usd, Verdict,
};
use ralph_orchestrator_machine::{Input, Rejection, ReviewEnd, ReviewStart, ValidatorVerdict};
use tokio::sync::{mpsc, oneshot, watch};

use super::agent_setup::ConfiguredAgent;
use super::cancel::CancelToken;
use super::read_only_agents::ReadOnlyAgents;
use super::redact::Redactor;

/// Something that is to be recorded before what follows it.
pub(super) struct PendingInput {
    pub(super) input: Input,
    /// Receives a word once it is recorded.
    pub(super) recorded: oneshot::Sender<()>,
}

/// An agent that reviews, with its environment.
#[derive(Clone)]
pub(super) struct ReviewAgent {
    pub(super) configured: ConfiguredAgent,
    pub(super) env: BTreeMap<String, String>,
}

/// What the reviews of a validation need beside the work.
pub(super) struct Reviews {
    pub(super) maker: Arc<dyn ReadOnlyAgents>,
    /// Those that review, by name.
    pub(super) agents: BTreeMap<String, ReviewAgent>,
    pub(super) build: BuildContext,
    pub(super) redactor: Redactor,
    /// What the work is to do.
    pub(super) task: String,
    /// What is left of the budgets of the run and of its user.
    pub(super) left: Budget,
    /// Why nothing is left of the user's, if that is so.
    pub(super) refusal: Option<String>,
    /// What was rejected last, if that was for the same task: the same work stays rejected.
    pub(super) standing: Option<Rejection>,
    /// What a review is charged at least if its end never becomes known.
    pub(super) reservation: Usd,
    pub(super) inputs: mpsc::Sender<PendingInput>,
}

impl Reviews {
    /// Returns why a validator has rejected this tree before, if it has.
    pub(super) fn find_standing(&self, validator: &str, tree: &str) -> Option<Verdict> {
        let rejection = self.standing.as_ref().filter(|rejection| rejection.work.0 == tree)?;
        let is_its = |named: &&ValidatorVerdict| {
            named.validator == validator && matches!(named.verdict, Verdict::Rejected { .. })
        };
        rejection.verdicts.iter().find(is_its).map(|named| named.verdict.clone())
    }

    /// Returns what limit is used up, if one is.
    pub(super) fn find_exceeded(&self) -> Option<CancelReason> {
        find_exceeded(self.left, Usage { cost: Some(Usd::ZERO), ..Usage::default() }, true)
    }

    /// Records that a review begins; `false` if nobody records it any more.
    pub(super) async fn begin(&self, validator: &str, name: &str, agent: &ConfiguredAgent) -> bool {
        let is_paid = agent.is_metered() && !agent.description.capabilities.free;
        let reservation = if is_paid { self.reservation } else { Usd::ZERO };
        let reservation = self.left.cost.map_or(reservation, |left| left.min(reservation));
        let (validator, agent) = (validator.to_owned(), name.to_owned());
        self.record(Input::ReviewStarted(ReviewStart { validator, agent, reservation })).await
    }

    /// Records what a review used; `false` if nobody records it any more.
    pub(super) async fn end(&mut self, end: ReviewEnd) -> bool {
        let tokens = end.usage.tokens.unwrap_or_default().total();
        let cost = end.usage.cost.unwrap_or_default();
        self.left.cost = self.left.cost.map(|left| left.saturating_sub(cost));
        self.left.tokens = self.left.tokens.map(|left| left.saturating_sub(tokens));
        self.record(Input::ReviewEnded(end)).await
    }

    async fn record(&self, input: Input) -> bool {
        let (recorded, answer) = oneshot::channel();
        self.inputs.send(PendingInput { input, recorded }).await.is_ok() && answer.await.is_ok()
    }

    /// Returns what the agent may use, in this time.
    pub(super) fn budget(&self, timeout: Duration) -> Budget {
        let time = Some(self.left.time.map_or(timeout, |left| left.min(timeout)));
        Budget { time, ..self.left }
    }
}

/// Returns the limit that a use reaches, or, `before` anything is used, that is used up.
fn find_exceeded(left: Budget, usage: Usage, before: bool) -> Option<CancelReason> {
    let tokens = usage.tokens.unwrap_or_default().total();
    let cost = usage.cost.unwrap_or_default();
    let costs_too_much = left.cost.is_some_and(|most| cost > most || (before && most == Usd::ZERO));
    let takes_too_many = left.tokens.is_some_and(|most| tokens > most || (before && most == 0));
    match (costs_too_much, takes_too_many) {
        (true, _) => Some(CancelReason::MaxCost),
        (false, true) => Some(CancelReason::MaxTokens),
        (false, false) => None,
    }
}

/// Receives the events of an agent that reviews: counts what it uses, and ends it at the limits of the run. What it claims or
/// asks for counts for nothing.
pub(super) struct ReviewSink {
    cancel: CancelToken,
    over: watch::Sender<Option<CancelReason>>,
    left: Budget,
    meter: Mutex<Meter>,
}

struct Meter {
    agent: ConfiguredAgent,
    usage: Usage,
}

impl ReviewSink {
    pub(super) fn new(agent: &ConfiguredAgent, cancel: CancelToken, left: Budget) -> Self {
        let mut agent = agent.clone();
        agent.pricing().begin();
        let meter = Mutex::new(Meter { agent, usage: Usage::default() });
        Self { cancel, over: watch::channel(None).0, left, meter }
    }

    /// Counts what is used so far.
    pub(super) fn add(&self, usage: Usage) {
        let mut meter = self.lock();
        let usage = meter.agent.with_cost(usage);
        meter.usage = meter.usage.max(usage);
        if let Some(reason) = find_exceeded(self.left, meter.usage, false) {
            self.over.send_replace(Some(reason));
        }
    }

    /// Returns what was used.
    pub(super) fn usage(&self) -> Usage {
        self.lock().usage
    }

    /// Returns the limit of the run that was reached, if one was.
    pub(super) fn exceeded(&self) -> Option<CancelReason> {
        *self.over.borrow()
    }

    fn lock(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CancelSignal for ReviewSink {
    async fn cancelled(&self) -> CancelReason {
        let over = CancelToken::new(self.over.subscribe());
        tokio::select! {
            biased;
            reason = self.cancel.cancelled() => reason,
            reason = over.cancelled() => reason,
        }
    }
}

#[async_trait]
impl EventSink for ReviewSink {
    async fn emit(&self, event: Event) {
        match event {
            Event::Usage { usage } => self.add(usage),
            Event::Session { model: Some(model), .. } => {
                self.lock().agent.pricing().set_model(model);
            }
            _ => {}
        }
    }

    async fn is_write_refused(&self, _path: &Path) -> bool {
        true
    }
}
