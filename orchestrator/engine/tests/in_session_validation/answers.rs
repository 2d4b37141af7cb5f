//! What an agent is told, and that it decides nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    CancelSignal, ClaimKind, Event, EventSink, Iteration, Tokens, Usage, Usd, ValidationContext,
    ValidationPreview, Verdict,
};
use ralph_orchestrator_machine::{Record, StopReason};
use tokio::sync::Notify;

use super::play::{Play, Stage, run};

/// Claims, is refused, mends what is missing in the same session.
struct Mender;

#[async_trait]
impl Play for Mender {
    async fn work(&self, stage: &Stage, _task: Iteration, events: &dyn EventSink) {
        stage.judge(events, Some("nothing to see")).await;
        stage.claim(events).await;
        stage.claim(events).await;
        if let ValidationPreview::Rejected { .. } = stage.judge(events, None).await {
            stage.write("done", "1\n");
        }
        stage.judge(events, None).await;
    }
}

#[tokio::test]
async fn a_refused_claim_is_mended_in_the_same_session() {
    let after = run(Mender, "").await;
    assert_eq!(
        after.said,
        ["no claim", "rejected: played: there is no file called done", "accepted"]
    );
    assert_eq!(
        after.story(),
        ["claimed", "preview rejected", "preview accepted", "ended", "accepted"]
    );
    assert_eq!(after.finished.reason, StopReason::Completed);
    assert_eq!(
        (after.finished.state.iterations, after.finished.state.validation.rejections),
        (1, 0)
    );
    let tool = after.records.iter().find_map(|record| match record {
        Record::Claimed { iteration, claim } => Some((*iteration, claim.detector.clone())),
        _ => None,
    });
    assert_eq!(tool, Some((1, "tool".into())));
}

/// Asks about a message that claims, and then ends without any.
struct Messenger;

#[async_trait]
impl Play for Messenger {
    async fn work(&self, stage: &Stage, _task: Iteration, events: &dyn EventSink) {
        stage.write("done", "1\n");
        stage.judge(events, Some("DONE")).await;
        stage.judge(events, Some("DONE")).await;
    }
}

#[tokio::test]
async fn a_claim_that_the_look_finds_is_a_claim_from_then_on() {
    let after = run(Messenger, "").await;
    assert_eq!(after.said, ["accepted", "accepted"]);
    let story = ["claimed", "preview accepted", "preview accepted", "ended", "accepted"];
    assert_eq!(after.story(), story);
}

#[tokio::test]
async fn a_preview_asks_for_no_review_and_where_nobody_reviews_nothing_is_accepted() {
    let review = "max_iterations = 1\n[agents.judge]\nadapter = \"played\"\n\
                  [[validator]]\nkind = \"reviewed\"\n";
    let after = run(Messenger, review).await;
    assert_eq!(after.said, ["accepted", "accepted"]);
    let story = ["claimed", "preview accepted", "preview accepted", "ended", "rejected"];
    assert_eq!(after.story(), story);
    let reasons = after.records.iter().find_map(|record| match record {
        Record::Validated { reasons, .. } => Some(reasons.clone()),
        _ => None,
    });
    assert_eq!(reasons.unwrap(), ["reviewed: it did not run"]);
}

/// Claims finished work whose check does not run the first time.
#[derive(Default)]
struct Unchecked(AtomicBool);

#[async_trait]
impl Play for Unchecked {
    async fn work(&self, stage: &Stage, _task: Iteration, events: &dyn EventSink) {
        stage.write("done", "1\n");
        stage.claim(events).await;
        stage.judge(events, None).await;
    }

    async fn validate(
        &self,
        stage: &Stage,
        _context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        if self.0.swap(true, Ordering::Relaxed) {
            return stage.verdict();
        }
        Verdict::Error { message: "there is no such program".into() }
    }
}

#[tokio::test]
async fn work_that_cannot_be_checked_is_not_called_rejected() {
    let after = run(Unchecked::default(), "").await;
    let [said] = after.said.as_slice() else { panic!("{:?}", after.said) };
    assert!(said.starts_with("not now: played: the check could not run"), "{said}");
    assert!(said.ends_with(": there is no such program"), "{said}");
    assert_eq!(after.story(), ["claimed", "preview rejected", "ended", "accepted"]);
}

/// Is told in the session that all is well, and spoils it before it ends.
struct Spoiler;

#[async_trait]
impl Play for Spoiler {
    async fn work(&self, stage: &Stage, task: Iteration, events: &dyn EventSink) {
        stage.write("done", "1\n");
        stage.claim(events).await;
        stage.judge(events, None).await;
        if task.number == 1 {
            std::fs::remove_file(stage.workspace.join("done")).unwrap();
        }
    }
}

#[tokio::test]
async fn a_preview_completes_nothing() {
    let after = run(Spoiler, "").await;
    assert_eq!(after.said, ["accepted", "accepted"]);
    let story = [
        "claimed",
        "preview accepted",
        "ended",
        "rejected",
        "claimed",
        "preview accepted",
        "ended",
        "accepted",
    ];
    assert_eq!(after.story(), story);
}

/// Asks again and again about work that is not done.
struct Nagger;

#[async_trait]
impl Play for Nagger {
    async fn work(&self, stage: &Stage, task: Iteration, events: &dyn EventSink) {
        stage.claim(events).await;
        for _ in 0..5 {
            stage.judge(events, None).await;
        }
        if task.number == 3 {
            stage.write("done", "1\n");
        }
    }
}

#[tokio::test]
async fn refusals_in_the_session_are_no_rejections() {
    let after = run(Nagger, "max_rejections = 3\nmax_stagnant = 9\n").await;
    assert_eq!(after.finished.reason, StopReason::Completed);
    assert_eq!(after.finished.state.validation.rejections, 2);
    let judged = after.story().into_iter().filter(|word| *word == "preview rejected").count();
    assert_eq!(judged, 15);
}

/// Tells much while the validator works, which waits for it.
struct Talker {
    answered: Arc<Notify>,
}

#[async_trait]
impl Play for Talker {
    async fn work(&self, stage: &Stage, _task: Iteration, events: &dyn EventSink) {
        stage.write("done", "1\n");
        stage.claim(events).await;
        let talk = async {
            for count in 1..=500 {
                let tokens = Some(Tokens { output: count, ..Tokens::default() });
                let usage = Usage { tokens, cost: Some(Usd::from_nanos(count)), estimated: false };
                events.emit(Event::Usage { usage }).await;
            }
            events.emit(Event::Note { text: "said meanwhile, not s3cret-value".into() }).await;
            stage.judge(events, None).await;
            self.answered.notify_one();
        };
        tokio::join!(stage.judge(events, None), talk);
    }

    async fn validate(
        &self,
        stage: &Stage,
        _context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        if !stage.said.lock().unwrap().iter().any(|said| said == "accepted") {
            self.answered.notified().await;
        }
        stage.verdict()
    }
}

#[tokio::test]
async fn events_that_come_meanwhile_are_neither_lost_nor_in_the_way() {
    let after = run(Talker { answered: Arc::default() }, "").await;
    assert_eq!(after.said, ["not now: another validation is running", "accepted"]);
    assert_eq!(after.finished.state.tokens().output, 500);
    let of = |what: fn(&Record) -> bool| after.records.iter().position(what).unwrap();
    let judged = of(|record| matches!(record, Record::Previewed { .. }));
    assert!(of(|record| matches!(record, Record::Note { .. })) < judged);
    let usages = after.records.iter().filter(|record| matches!(record, Record::Usage { .. }));
    let usages = usages.count();
    assert!((1..=20).contains(&usages), "few of many are written down: {usages}");
    let note = after.records.iter().find_map(|record| match record {
        Record::Note { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(note.as_deref(), Some("said meanwhile, not ***"));
}

/// Makes evidence and asks.
struct Witness;

#[async_trait]
impl Play for Witness {
    async fn work(&self, stage: &Stage, task: Iteration, events: &dyn EventSink) {
        if task.number == 2 {
            stage.write("done", "1\n");
            stage.write("evidence/a.txt", "passed\n");
        }
        events.emit(Event::Claim { kind: ClaimKind::Complete, text: "mine".into() }).await;
        events.preview(None).await;
    }

    async fn validate(
        &self,
        stage: &Stage,
        context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        let seen: Vec<u64> = context.written_in.values().copied().collect();
        stage.say(format!("{} {} {seen:?}", context.iteration, context.tree_since));
        stage.verdict()
    }
}

#[tokio::test]
async fn work_is_as_fresh_in_the_session_as_it_will_be_after_it() {
    let after = run(Witness, "").await;
    assert_eq!(after.said, ["1 0 []", "1 0 []", "2 2 [2]", "2 2 [2]"]);
}
