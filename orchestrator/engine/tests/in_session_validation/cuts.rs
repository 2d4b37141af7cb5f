//! What ends an iteration ends it while validators work, too, and them with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    CancelReason, CancelSignal, Event, EventSink, Iteration, Usage, Usd, ValidationContext, Verdict,
};
use ralph_orchestrator_engine::StopRequest;
use ralph_orchestrator_machine::{IterationOutcome, Latch, Record, StopReason};
use tokio::sync::{Notify, watch};

use super::play::{After, Play, Stage, run, run_with};

/// What happens in the first iteration while the validator works.
#[derive(Clone, Copy, PartialEq)]
enum Meanwhile {
    Nothing,
    Spends,
    GivesUp,
    Ends,
}

/// Asks in its first iteration, with a validator that works until it is told to end.
struct Patient {
    meanwhile: Meanwhile,
    begun: Arc<Notify>,
}

#[async_trait]
impl Play for Patient {
    async fn work(&self, stage: &Stage, task: Iteration, events: &dyn EventSink) {
        stage.write("done", "1\n");
        if task.number > 1 {
            return;
        }
        stage.claim(events).await;
        let judge = stage.judge(events, None);
        match self.meanwhile {
            Meanwhile::Nothing => drop(judge.await),
            Meanwhile::Spends => {
                let spend = async {
                    self.begun.notified().await;
                    let cost = Usd::from_dollars(2.0);
                    events.emit(Event::Usage { usage: Usage { cost, ..Usage::default() } }).await;
                };
                tokio::join!(judge, spend);
            }
            Meanwhile::GivesUp => {
                tokio::select! {
                    _ = judge => panic!("it cannot be answered yet"),
                    () = self.begun.notified() => {}
                }
                // The next question is answered only when the first is out of the way.
                while events.preview(None).await
                    != ralph_orchestrator_contract::ValidationPreview::Accepted
                {
                    tokio::task::yield_now().await;
                }
                stage.say("answered");
            }
            Meanwhile::Ends => tokio::select! {
                _ = judge => panic!("it cannot be answered yet"),
                () = self.begun.notified() => {}
            },
        }
    }

    async fn validate(
        &self,
        stage: &Stage,
        _context: ValidationContext<'_>,
        cancel: &dyn CancelSignal,
    ) -> Verdict {
        let first = !stage.said.lock().unwrap().iter().any(|said| said == "began");
        if first {
            stage.say("began");
            self.begun.notify_one();
            let reason = cancel.cancelled().await;
            stage.say(format!("told to end: {reason:?}"));
        }
        stage.verdict()
    }
}

fn patient(meanwhile: Meanwhile) -> Patient {
    Patient { meanwhile, begun: Arc::default() }
}

#[track_caller]
fn cut(after: &After, reason: CancelReason) {
    let cuts = after.records.iter().filter_map(|record| match record {
        Record::IterationEnded {
            iteration: 1,
            outcome: IterationOutcome::StoppedEarly { reason },
            ..
        } => Some(*reason),
        _ => None,
    });
    assert_eq!(cuts.collect::<Vec<_>>(), [reason]);
    assert!(!after.story().contains(&"preview accepted"), "{:?}", after.story());
    assert_eq!(after.said.first().unwrap(), "began");
    assert!(after.said[1].starts_with("told to end"), "{:?}", after.said);
}

#[tokio::test]
async fn the_timeout_of_the_iteration() {
    let after = run(patient(Meanwhile::Nothing), "iteration_timeout = \"1s\"\n").await;
    cut(&after, CancelReason::Timeout);
    assert_eq!(after.finished.reason, StopReason::Completed, "the claim stands and is validated");
}

#[tokio::test]
async fn the_runtime() {
    let after = run(patient(Meanwhile::Nothing), "max_runtime = \"1s\"\n").await;
    cut(&after, CancelReason::MaxRuntime);
}

#[tokio::test]
async fn the_budget() {
    let after = run(patient(Meanwhile::Spends), "max_cost_usd = 1.0\n").await;
    cut(&after, CancelReason::MaxCost);
    assert_eq!(after.finished.state.cost(), Usd::from_dollars(2.0).unwrap());
}

#[tokio::test]
async fn a_signal() {
    let (ask, asked) = watch::channel(StopRequest::default());
    let play = patient(Meanwhile::Nothing);
    let begun = Arc::clone(&play.begun);
    let signal = async {
        begun.notified().await;
        ask.send_replace(StopRequest { times: 1, is_hangup: false });
    };
    let (after, ()) = tokio::join!(run_with(play, "", asked), signal);
    cut(&after, CancelReason::Signal);
    assert_eq!(after.finished.reason, StopReason::Interrupted);
    assert!(matches!(after.finished.state.latch, Latch::Claimed { .. }));
}

#[tokio::test]
async fn an_agent_that_gives_up_waiting_can_ask_again() {
    let after = run(patient(Meanwhile::GivesUp), "").await;
    assert_eq!(after.said, ["began", "told to end: Signal", "answered"]);
    assert_eq!(after.story(), ["claimed", "preview accepted", "ended", "accepted"]);
}

#[tokio::test]
async fn an_agent_that_ends_while_it_is_judged_is_judged_no_more() {
    let after = run(patient(Meanwhile::Ends), "").await;
    assert_eq!(after.said, ["began", "told to end: Signal"]);
    assert_eq!(after.story(), ["claimed", "ended", "accepted"]);
}

/// A validator that takes longer than an agent may be silent.
struct Slow;

#[async_trait]
impl Play for Slow {
    async fn work(&self, stage: &Stage, _task: Iteration, events: &dyn EventSink) {
        stage.write("done", "1\n");
        stage.claim(events).await;
        stage.judge(events, None).await;
    }

    async fn validate(
        &self,
        stage: &Stage,
        _context: ValidationContext<'_>,
        cancel: &dyn CancelSignal,
    ) -> Verdict {
        let until = Instant::now() + Duration::from_millis(2_500);
        tokio::select! {
            reason = cancel.cancelled() => stage.say(format!("{reason:?}")),
            () = tokio::time::sleep_until(until.into()) => {}
        }
        stage.verdict()
    }
}

#[tokio::test]
async fn an_agent_that_waits_is_not_idle() {
    let after = run(Slow, "idle_timeout = \"1s\"\n").await;
    assert_eq!(after.said, ["accepted"]);
    assert_eq!(after.story(), ["claimed", "preview accepted", "ended", "accepted"]);
}
