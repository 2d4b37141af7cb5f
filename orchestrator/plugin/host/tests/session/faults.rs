//! What goes wrong.

use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, Description, Event, Report};
use ralph_orchestrator_plugin_host::{CallEvent, CallOutcome, Inbound, OpenError, Session};
use ralph_orchestrator_plugin_protocol::{
    Answer, Done, EventSent, HostFrame, ItemKind, Method, Opened, PluginFrame, Pong, Provided,
};
use serde_json::Value;

use crate::plugin::{agent, context, run, session, task, transport};

fn report(call: u64) -> PluginFrame {
    PluginFrame::Done(Done { call, answer: Answer::Report(Report::default()) })
}

async fn begin_with(news: Vec<Inbound>) -> String {
    let (transport, inbound, plugin) = transport();
    for one in news {
        plugin.inbound(one).await;
    }
    match Session::start(transport, inbound).await {
        Ok(_) => panic!("it should not have begun"),
        Err(closed) => closed.0,
    }
}

#[tokio::test]
async fn no_session_begins_without_a_proper_hello() {
    let line = |text: &str| Inbound::Frame(text.into());
    let of = begin_with(vec![line("Starting bot…")]).await;
    assert!(of.contains("`Starting bot…` is not a frame"), "{of}");
    let of = begin_with(vec![line(r#"{"frame":"pong","n":1}"#)]).await;
    assert!(of.contains("the frame `pong` before `hello`"), "{of}");
    let of = begin_with(vec![line(r#"{"frame":"hello","protocol":9,"name":"x","provides":[]}"#)]);
    assert!(of.await.contains("version 9"));
    let of = begin_with(vec![line(r#"{"frame":"hello","protocol":1}"#)]).await;
    assert!(of.contains("invalid frame `hello`: it lacks `name`: {\"frame\":\"hello\""), "{of}");
    let trouble = Inbound::Stderr("ModuleNotFoundError: No module named 'bot'".into());
    let of = begin_with(vec![trouble, Inbound::Ended("exit 1".into())]).await;
    assert!(of.starts_with("exit 1; its standard error: ModuleNotFoundError"), "{of}");
    let of = begin_with(vec![Inbound::TooLong { bytes: 1 << 30 }]).await;
    assert!(of.contains("a frame of 1073741824 bytes"), "{of}");
}

#[tokio::test(start_paused = true)]
async fn a_hello_that_does_not_come_is_not_waited_for_for_ever() {
    let (wire, inbound, _plugin) = transport();
    let closed = Session::start(wire, inbound).await.err().unwrap();
    let expected = "no reply to `hello` within 10 s; it has printed no line: does it end each one, and \
                    flush its standard output then?";
    assert_eq!(closed.0, expected);
    let (transport, inbound, plugin) = transport();
    plugin.inbound(Inbound::Stderr("loading the model".into())).await;
    let closed = Session::start(transport, inbound).await.err().unwrap();
    assert_eq!(closed.0, "no reply to `hello` within 10 s; its standard error: loading the model");
}

#[tokio::test]
async fn the_standard_error_beside_a_violation_is_reported_with_it() {
    let garbage = || Inbound::Frame("Starting bot…".into());
    let trouble = || Inbound::Stderr("ImportError: no module".into());
    let of = begin_with(vec![garbage(), trouble(), Inbound::Ended("exit 1".into())]).await;
    assert!(of.contains("is not a frame") && of.ends_with("ImportError: no module"), "{of}");
    // Another frame between, and a pipe that is read later.
    let (transport, inbound, plugin) = transport();
    let late = async {
        plugin.inbound(garbage()).await;
        tokio::task::yield_now().await;
        plugin.inbound(garbage()).await;
        plugin.inbound(trouble()).await;
        drop(plugin.to_host);
    };
    let (started, ()) = tokio::join!(Session::start(transport, inbound), late);
    assert!(started.err().unwrap().0.ends_with("ImportError: no module"));
}

#[tokio::test]
async fn an_invalid_frame_is_explained_in_words_of_the_protocol() {
    for (frame, expected) in [
        (r#"{"frame":"done","call":1}"#, "it answered call 1 of `run` without `report`"),
        (r#"{"frame":"done","call":1,"text":"x"}"#, "it answered call 1 of `run` without `report`"),
        (
            r#"{"frame":"event","call":1,"event":{"type":"text"}}"#,
            "the event `text` lacks `text`: {\"frame\":\"event\"",
        ),
        (r#"{"frame":"event","call":1}"#, "it lacks `event`"),
        (
            r#"{"frame":"event","event":{"type":"text","text":"x"}}"#,
            "the event `text` lacks `call`",
        ),
        (r#"{"frame":"done","call":9}"#, "it has none of the keys `found`, `report`"),
        (r#"{"frame":"opened","instance":1}"#, "it has none of the keys `agent`, `detector`"),
        (r#"{"frame":"failed","call":1,"message":"x"}"#, "it lacks `class`"),
    ] {
        let (_session, mut running, _call, plugin) = run(&[]).await;
        plugin.bytes(frame).await;
        let CallOutcome::SessionClosed(why) = running.outcome().await else { panic!("{frame}") };
        assert!(why.contains(expected), "{frame}: {why}");
        assert!(!why.contains("enum"), "{why}");
    }
}

#[tokio::test]
async fn output_between_calls_reaches_the_next_run_whole() {
    let (session, instance, mut plugin) = agent(&[]).await;
    for number in 0..2_000 {
        plugin.inbound(Inbound::Stderr(format!("line {number}"))).await;
    }
    // What follows in the same channel is answered after it was read.
    let context = context();
    let opens = session.open(ItemKind::Agent, None, Value::Null, &context);
    let answers = async {
        let HostFrame::Open(open) = plugin.hears().await else { panic!() };
        let provided = Provided::Agent(Description::default());
        plugin.say(&PluginFrame::Opened(Opened { instance: open.instance, provided })).await;
    };
    let (opened, ()) = tokio::join!(opens, answers);
    opened.unwrap();
    let mut running = session.call(instance, task()).await.unwrap();
    for number in 0..2_000 {
        let CallEvent::Stderr(line) = running.next_event().await else { panic!("{number}") };
        assert_eq!(line, format!("line {number}"));
    }
}

#[tokio::test]
async fn half_of_a_surrogate_pair_is_replaced() {
    let (_session, mut running, _call, plugin) = run(&[]).await;
    let texts = [
        (r"a\ud83d", "a\u{fffd}"),
        (r"\udE00b", "\u{fffd}b"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\\ud83d \ud83d\ude00", "\\ud83d \u{1f600}"),
        (r"\ud83d\n", "\u{fffd}\n"),
    ];
    for (sent, expected) in texts {
        let frame =
            format!(r#"{{"frame":"event","call":1,"event":{{"type":"text","text":"{sent}"}}}}"#);
        plugin.bytes(frame).await;
        let CallEvent::Agent(Event::Text { text }) = running.next_event().await else {
            panic!("{sent}")
        };
        assert_eq!(text, expected, "{sent}");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_is_the_answer_to_open() {
    let (session, _plugin) = session(&["ping"]).await;
    let error = session.open(ItemKind::Agent, None, Value::Null, &context()).await.unwrap_err();
    let OpenError::SessionClosed(closed) = error else { panic!() };
    assert_eq!(closed.0, "no reply to `open` within 30 s");
    let error = session.open(ItemKind::Agent, None, Value::Null, &context()).await.unwrap_err();
    assert_eq!(error, OpenError::SessionClosed(closed.clone()));
    assert_eq!(session.call(1, task()).await.err(), Some(closed));
}

#[tokio::test]
async fn the_end_in_a_call_is_reported_after_what_came_before() {
    let (session, mut running, call, plugin) = run(&[]).await;
    plugin.event(call, "nearly").await;
    plugin.inbound(Inbound::Ended("signal 9 (SIGKILL)".into())).await;
    assert!(matches!(running.next_event().await, CallEvent::Agent(_)));
    let CallOutcome::SessionClosed(why) = running.outcome().await else { panic!() };
    assert_eq!(why, "signal 9 (SIGKILL) before it answered call 1 of `run`");
    assert_eq!(session.closed().unwrap().0, why);
}

#[tokio::test]
async fn a_violation_breaks_all_calls_with_the_same_reason() {
    let (session, instance, mut plugin) = agent(&["credit"]).await;
    let mut first = session.call(instance, task()).await.unwrap();
    let mut second = session.call(instance, task()).await.unwrap();
    plugin.called().await;
    plugin.event(77, "whose?").await;
    for running in [&mut first, &mut second] {
        let CallOutcome::SessionClosed(why) = running.outcome().await else { panic!() };
        let expected = "it violated the protocol: it sent `event` for the unknown call 77";
        assert_eq!(why, expected);
    }
}

#[tokio::test]
async fn more_events_than_credit_are_not_kept() {
    let (session, mut running, call, plugin) = run(&["credit"]).await;
    for _ in 0..65 {
        plugin.event(call, "flood").await;
    }
    // Nothing is taken, so that no more credit is given.
    while session.closed().is_none() {
        tokio::task::yield_now().await;
    }
    let mut events = 0;
    let why = loop {
        match running.next_event().await {
            CallEvent::Agent(_) => events += 1,
            CallEvent::Ended(CallOutcome::SessionClosed(why)) => {
                break why;
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(events, 64);
    assert!(why.contains("more events in the call 1 than it had credit for"), "{why}");
}

#[tokio::test]
async fn a_frame_after_the_end_of_its_call_closes_the_session() {
    let event =
        |call| PluginFrame::Event(EventSent { call, event: Event::Text { text: "late".into() } });
    for late in [report, event] {
        let (session, mut running, call, plugin) = run(&["credit"]).await;
        plugin.say(&report(call)).await;
        assert!(matches!(running.outcome().await, CallOutcome::Done(_)));
        plugin.say(&late(call)).await;
        let error = session.open(ItemKind::Agent, None, Value::Null, &context()).await.unwrap_err();
        assert!(matches!(error, OpenError::SessionClosed(_)), "{error}");
        assert!(session.closed().unwrap().0.contains("already ended"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_answers_no_ping_hangs() {
    let (_session, mut running, _call, mut plugin) = run(&["ping", "credit"]).await;
    let answer = async {
        // It answers for a while.
        for _ in 0..20 {
            let HostFrame::Ping(ping) = plugin.hears().await else { panic!() };
            plugin.say(&PluginFrame::Pong(Pong { n: ping.n })).await;
        }
        tokio::time::Instant::now()
    };
    let (outcome, fell_silent) = tokio::join!(running.outcome(), answer);
    let CallOutcome::SessionClosed(why) = outcome else { panic!() };
    assert!(why.contains("it hangs"), "{why}");
    let waited = fell_silent.elapsed();
    assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(40), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_never_announced_ping_is_not_asked() {
    let (_session, mut running, call, mut plugin) = run(&[]).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(plugin.from_host.try_recv().is_err());
    plugin.say(&report(call)).await;
    assert!(matches!(running.outcome().await, CallOutcome::Done(_)));
}

#[tokio::test]
async fn a_plugin_that_takes_no_frames_breaks_the_conversation() {
    let (session, mut running, _call, plugin) = run(&[]).await;
    let crate::plugin::Plugin { from_host, to_host: _to_host } = plugin;
    drop(from_host);
    running.cancel(CancelReason::Idle, Duration::ZERO);
    let CallOutcome::SessionClosed(why) = running.outcome().await else { panic!() };
    assert_eq!(why, "it takes no frames any more");
    assert!(session.closed().is_some());
}

#[tokio::test]
async fn what_cannot_be_said_breaks_nothing() {
    let (session, instance, mut plugin) = agent(&["credit"]).await;
    let prompt = "x".repeat(ralph_orchestrator_plugin_protocol::MAX_FRAME);
    let error = session.call(instance, Method::StripClaims { prompt }).await.err().unwrap();
    assert!(error.0.contains("at most"), "{error}");
    let mut running = session.call(instance, task()).await.unwrap();
    let call = plugin.called().await;
    plugin.say(&report(call)).await;
    assert!(matches!(running.outcome().await, CallOutcome::Done(_)));
}

#[tokio::test]
async fn a_session_that_is_dropped_tells_its_calls() {
    let (session, mut running, _call, _plugin) = run(&["credit"]).await;
    drop(session);
    let CallOutcome::SessionClosed(why) = running.outcome().await else { panic!() };
    assert_eq!(why, "the session was closed");
}
