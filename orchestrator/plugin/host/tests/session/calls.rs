//! What goes well.

use std::time::Duration;

use ralph_orchestrator_contract::{
    AgentError, BuildError, CancelReason, ErrorClass, Event, Report, ValidationPreview,
};
use ralph_orchestrator_plugin_host::{CallEvent, CallOutcome, Inbound, OpenError};
use ralph_orchestrator_plugin_protocol::{
    Answer, Done, Failed, HostFrame, ItemKind, LogLevel, LogLine, Panicked, PluginFrame,
    PreviewRequest, Refused,
};
use serde_json::Value;
use tokio::time::timeout;

use crate::plugin::{LONG, agent, context, run, session, task};

fn report(call: u64) -> PluginFrame {
    PluginFrame::Done(Done { call, answer: Answer::Report(Report::default()) })
}

#[tokio::test]
async fn a_run_with_events_a_question_and_an_end() {
    let (session, mut running, call, mut plugin) = run(&["credit", "ping"]).await;
    assert_eq!((session.hello().name.as_str(), session.hello().version.as_str()), ("bot", "1.2"));
    plugin.event(call, "working").await;
    plugin
        .say(&PluginFrame::Preview(PreviewRequest {
            call,
            request: 9,
            final_text: Some("all".into()),
        }))
        .await;
    let CallEvent::Agent(Event::Text { text }) = running.next_event().await else { panic!() };
    assert_eq!(text, "working");
    let CallEvent::PreviewRequested { request, final_text } = running.next_event().await else {
        panic!()
    };
    assert_eq!((request, final_text.as_deref()), (9, Some("all")));
    running.send_preview(request, ValidationPreview::Accepted);
    let HostFrame::PreviewResult(result) = plugin.hears().await else { panic!() };
    assert_eq!((result.request, result.preview), (9, ValidationPreview::Accepted));
    plugin.say(&report(call)).await;
    let CallOutcome::Done(Answer::Report(_)) = running.outcome().await else { panic!() };
    session.close();
    assert!(matches!(plugin.hears().await, HostFrame::Close(_)));
    assert_eq!(session.closed(), None);
}

#[tokio::test]
async fn failures_and_panics_are_reported_as_they_are() {
    let (session, instance, mut plugin) = agent(&[]).await;
    let mut running = session.call(instance, task()).await.unwrap();
    let call = plugin.called().await;
    let error = AgentError::new(ErrorClass::Billing, "no credit");
    plugin.say(&PluginFrame::Failed(Failed::new(call, error))).await;
    let CallOutcome::Failed(error) = running.outcome().await else { panic!() };
    assert_eq!((error.class, error.message.as_str()), (ErrorClass::Billing, "no credit"));
    drop(running);
    let mut running = session.call(instance, task()).await.unwrap();
    let call = plugin.called().await;
    let location = Some("src/bot.rs:7:1".into());
    plugin.say(&PluginFrame::Panicked(Panicked { call, message: "boo".into(), location })).await;
    let CallOutcome::Panicked { message } = running.outcome().await else { panic!() };
    assert_eq!(message, "it panicked at src/bot.rs:7:1: boo");
}

#[tokio::test]
async fn a_refused_table_keeps_its_key() {
    let (session, mut plugin) = session(&[]).await;
    let context = context();
    let opens = session.open(ItemKind::Detector, Some("plan"), Value::Null, &context);
    let mistake = BuildError {
        key: vec!["files".into(), "0".into()],
        unknown_key: None,
        message: "no such file".into(),
    };
    let answers = async {
        let HostFrame::Open(open) = plugin.hears().await else { panic!() };
        assert_eq!((open.kind, open.name.as_deref()), (ItemKind::Detector, Some("plan")));
        plugin.say(&PluginFrame::Refused(Refused::new(open.instance, mistake.clone()))).await;
    };
    let (opened, ()) = tokio::join!(opens, answers);
    assert_eq!(opened.unwrap_err(), OpenError::Refused(mistake));
}

#[tokio::test]
async fn credit_is_given_for_what_was_taken() {
    let (_session, mut running, call, mut plugin) = run(&["credit"]).await;
    for n in 0..64 {
        plugin.event(call, &n.to_string()).await;
    }
    for _ in 0..32 {
        assert!(matches!(running.next_event().await, CallEvent::Agent(_)));
    }
    let HostFrame::Credit(credit) = plugin.hears().await else { panic!() };
    assert_eq!((credit.call, credit.events), (call, 32));
    assert!(plugin.from_host.try_recv().is_err());
}

#[tokio::test]
async fn without_credit_the_host_stops_reading_and_calls_take_turns() {
    let (session, instance, mut plugin) = agent(&[]).await;
    let mut running = session.call(instance, task()).await.unwrap();
    let call = plugin.called().await;
    let second = session.call(instance, task());
    tokio::pin!(second);
    assert!(timeout(Duration::from_millis(20), &mut second).await.is_err());
    // So many fit into the queues between; then the plugin has to wait.
    let mut said = 0;
    while let Ok(permit) = timeout(Duration::from_millis(200), plugin.to_host.reserve()).await {
        drop(permit);
        plugin.event(call, "more").await;
        said += 1;
        assert!(said < 1000, "nothing holds the plugin back");
    }
    for _ in 0..said {
        assert!(matches!(running.next_event().await, CallEvent::Agent(_)));
    }
    plugin.say(&report(call)).await;
    assert!(matches!(running.outcome().await, CallOutcome::Done(_)));
    drop(running);
    let mut second = timeout(LONG, second).await.unwrap().unwrap();
    let call = plugin.called().await;
    plugin.say(&report(call)).await;
    assert!(matches!(second.outcome().await, CallOutcome::Done(_)));
}

#[tokio::test]
async fn cancelling_is_asked_for_and_the_call_still_ends() {
    let (_session, mut running, call, mut plugin) = run(&["credit"]).await;
    running.cancel(CancelReason::MaxCost, Duration::from_secs(5));
    let HostFrame::Cancel(cancel) = plugin.hears().await else { panic!() };
    assert_eq!((cancel.call, cancel.reason, cancel.grace_ms), (call, CancelReason::MaxCost, 5000));
    plugin.event(call, "a last word").await;
    let error = AgentError::new(ErrorClass::Cancelled, "ended");
    plugin.say(&PluginFrame::Failed(Failed::new(call, error))).await;
    assert!(matches!(running.next_event().await, CallEvent::Agent(_)));
    assert!(matches!(running.next_event().await, CallEvent::Ended(CallOutcome::Failed(_))));
    running.cancel(CancelReason::Signal, Duration::ZERO);
    drop(running);
    assert!(plugin.from_host.try_recv().is_err(), "a call that ended is not cancelled");
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_and_its_answer_harms_nobody() {
    let (session, instance, mut plugin) = agent(&["credit"]).await;
    let running = session.call(instance, task()).await.unwrap();
    let call = plugin.called().await;
    drop(running);
    let HostFrame::Cancel(cancel) = plugin.hears().await else { panic!() };
    assert_eq!((cancel.call, cancel.grace_ms), (call, 0));
    plugin.event(call, "still here").await;
    plugin.say(&report(call)).await;
    let mut next = session.call(instance, task()).await.unwrap();
    let call = plugin.called().await;
    plugin.say(&report(call)).await;
    assert!(matches!(next.outcome().await, CallOutcome::Done(_)));
}

#[tokio::test]
async fn what_is_printed_and_logged_reaches_the_run_even_if_it_came_before() {
    let (session, instance, mut plugin) = agent(&[]).await;
    plugin.inbound(Inbound::Stderr("starting".into())).await;
    let line = LogLine {
        level: LogLevel::Warn,
        target: "bot".into(),
        message: "slow".into(),
        fields: serde_json::Map::new(),
        spans: Vec::new(),
    };
    plugin.say(&PluginFrame::Log(line.clone())).await;
    plugin.bytes(r#"{"frame":"progress","of a newer":"version"}"#).await;
    // What was sent before is taken before the answer to this.
    let opens = context();
    let opens = session.open(ItemKind::Agent, None, Value::Null, &opens);
    let answers = async {
        let HostFrame::Open(open) = plugin.hears().await else { panic!() };
        let error = BuildError::at("", "one is enough");
        plugin.say(&PluginFrame::Refused(Refused::new(open.instance, error))).await;
    };
    tokio::join!(opens, answers).0.unwrap_err();
    let mut running = session.call(instance, task()).await.unwrap();
    let CallEvent::Stderr(text) = running.next_event().await else { panic!() };
    assert_eq!(text, "starting");
    let CallEvent::Log(logged) = running.next_event().await else { panic!() };
    assert_eq!(logged, line);
}
