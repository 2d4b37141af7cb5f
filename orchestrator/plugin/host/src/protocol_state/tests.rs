//! Whatever a plugin sends, each call has one outcome.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Findings, Report};
use ralph_orchestrator_plugin_protocol::{Answer, EventSent, Failed, InspectInput, Refused, Task};

use super::*;

fn hello(features: &[&str]) -> PluginFrame {
    PluginFrame::Hello(PluginHello {
        protocol: PROTOCOL,
        name: "bot".into(),
        version: String::new(),
        sdk: None,
        features: features.iter().map(|one| (*one).to_owned()).collect(),
        provides: Vec::new(),
    })
}

fn context() -> BuildContext {
    BuildContext {
        config_dir: "/c".into(),
        workspace: "/w".into(),
        prompt_dir: "/c".into(),
        path: String::new(),
    }
}

fn run() -> Method {
    let task = Task {
        run: "r".into(),
        number: 1,
        prompt: Some(String::new()),
        prompt_base64: None,
        workspace: "/w".into(),
        env: BTreeMap::new(),
        budget: ralph_orchestrator_contract::Budget::default(),
        scratch: "/s".into(),
    };
    Method::Run { task }
}

fn inspect() -> Method {
    let input = InspectInput {
        workspace: "/w".into(),
        prompt_path: None,
        prompt: None,
        final_text: None,
        given: None,
    };
    Method::Inspect { input }
}

fn event(call: u64) -> PluginFrame {
    PluginFrame::Event(EventSent { call, event: Event::Unknown })
}

fn report(call: u64) -> PluginFrame {
    PluginFrame::Done(Done { call, answer: Answer::Report(Report::default()) })
}

fn greeted(features: &[&str]) -> ProtocolState {
    let mut state = ProtocolState::default();
    assert!(matches!(state.handle_frame(hello(features)), Ok(ProtocolEvent::Hello(_))));
    state
}

#[test]
fn hello_comes_first_and_once() {
    let mut state = ProtocolState::default();
    let error = state.handle_frame(PluginFrame::Pong(Pong { n: 1 })).unwrap_err();
    assert_eq!(error.to_string(), "sent the frame `pong` before `hello`");
    let mut state = greeted(&[]);
    assert!(matches!(state.handle_frame(hello(&[])), Err(Violation::SecondHello)));
    let PluginFrame::Hello(mut other) = hello(&[]) else { panic!() };
    other.protocol = 2;
    let error = ProtocolState::default().handle_frame(PluginFrame::Hello(other)).unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn a_call_has_one_end_and_nothing_after_it() {
    let mut state = greeted(&[]);
    let call = state.call(1, run()).call;
    assert!(matches!(
        state.handle_frame(event(call)),
        Ok(ProtocolEvent::Call { event: CallEvent::Agent(_), .. })
    ));
    assert!(matches!(
        state.handle_frame(report(call)),
        Ok(ProtocolEvent::Call { event: CallEvent::Ended(_), .. })
    ));
    assert!(!state.has_open_calls());
    for frame in [report(call), event(call)] {
        let error = state.handle_frame(frame).unwrap_err();
        assert!(matches!(error, Violation::AfterEnd { .. }), "{error}");
    }
    let error = state.handle_frame(event(call + 1)).unwrap_err();
    assert!(matches!(error, Violation::UnknownCall { .. }));
}

#[test]
fn an_answer_belongs_to_its_method() {
    let mut state = greeted(&[]);
    let call = state.call(1, inspect()).call;
    let error = state.handle_frame(report(call)).unwrap_err();
    assert!(error.to_string().contains("of `inspect` without `findings`"), "{error}");
    assert!(matches!(state.handle_frame(event(call)), Err(Violation::NotInThisCall { .. })));
    let preview = PluginFrame::Preview(PreviewRequest { call, request: 1, final_text: None });
    assert!(matches!(state.handle_frame(preview), Err(Violation::NotInThisCall { .. })));
    let answer = Answer::Findings(Findings::default());
    assert!(state.handle_frame(PluginFrame::Done(Done { call, answer })).is_ok());
}

#[test]
fn credit_is_the_window_and_what_was_granted() {
    let mut state = greeted(&["credit"]);
    let call = state.call(1, run()).call;
    for _ in 0..WINDOW {
        assert!(state.handle_frame(event(call)).is_ok());
    }
    assert_eq!(state.grant_credit(call, 2).map(|credit| credit.events), Some(2));
    assert!(state.handle_frame(event(call)).is_ok());
    assert!(state.handle_frame(event(call)).is_ok());
    assert!(matches!(state.handle_frame(event(call)), Err(Violation::NoCredit { .. })));
    // Who never announced it needs none.
    let mut state = greeted(&[]);
    let call = state.call(1, run()).call;
    assert!((0..=WINDOW).all(|_| state.handle_frame(event(call)).is_ok()));
    assert_eq!(state.grant_credit(call, 2), None);
}

#[test]
fn one_question_at_a_time_and_only_an_open_one_is_answered() {
    let mut state = greeted(&[]);
    let call = state.call(1, run()).call;
    let preview =
        |request| PluginFrame::Preview(PreviewRequest { call, request, final_text: None });
    assert!(state.handle_frame(preview(7)).is_ok());
    assert_eq!(state.answer_preview(call, 8, ValidationPreview::NoClaim), None);
    assert!(state.answer_preview(call, 7, ValidationPreview::NoClaim).is_some());
    assert_eq!(state.answer_preview(call, 7, ValidationPreview::NoClaim), None);
    assert!(state.handle_frame(preview(8)).is_ok());
    assert!(matches!(state.handle_frame(preview(9)), Err(Violation::PreviewPending { .. })));
}

#[test]
fn one_path_at_a_time_is_asked_about_and_only_an_open_question_is_answered() {
    let mut state = greeted(&[]);
    let call = state.call(1, run()).call;
    let check =
        |request| PluginFrame::WriteCheck(WriteCheck { call, request, path: "/w/spec.md".into() });
    assert!(state.handle_frame(check(7)).is_ok());
    assert_eq!(state.answer_write_check(call, 8, true), None);
    let answer = WriteCheckResult { call, request: 7, refused: true };
    assert_eq!(state.answer_write_check(call, 7, true), Some(answer));
    assert_eq!(state.answer_write_check(call, 7, true), None);
    assert!(state.handle_frame(check(8)).is_ok());
    let error = state.handle_frame(check(9)).unwrap_err();
    assert!(error.to_string().contains("before the last one was answered"), "{error}");
    let other = state.call(1, inspect()).call;
    let check = PluginFrame::WriteCheck(WriteCheck { call: other, request: 1, path: "/x".into() });
    assert!(matches!(state.handle_frame(check), Err(Violation::NotInThisCall { .. })));
}

#[test]
fn an_instance_is_opened_once_and_as_what_was_asked_for() {
    let mut state = greeted(&[]);
    let refused = |instance| {
        PluginFrame::Refused(Refused::new(instance, BuildError::at("steps", "too many")))
    };
    assert!(matches!(state.handle_frame(refused(1)), Err(Violation::UnknownInstance { .. })));
    let open = state.open(ItemKind::Agent, None, Value::Null, &context());
    assert!(matches!(
        state.handle_frame(refused(open.instance)),
        Ok(ProtocolEvent::Opened { result: Err(_), .. })
    ));
    assert!(matches!(
        state.handle_frame(refused(open.instance)),
        Err(Violation::UnknownInstance { .. })
    ));
    let open = state.open(ItemKind::Agent, None, Value::Null, &context());
    let provided =
        Provided::Detector(ralph_orchestrator_plugin_protocol::DetectorDescription::default());
    let error =
        state.handle_frame(PluginFrame::Opened(Opened { instance: open.instance, provided }));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("as a detector instead of an agent"), "{error}");
}

/// Any frame of a plugin, with numbers near those that are in use.
fn any_frame() -> impl Strategy<Value = PluginFrame> {
    let answer = prop_oneof![
        Just(Answer::Report(Report::default())),
        Just(Answer::Findings(Findings::default())),
        Just(Answer::Found(String::new())),
    ];
    let class = Just(ErrorClass::Crashed);
    prop_oneof![
        1 => Just(hello(&["credit"])),
        4 => (0..6_u64).prop_map(event),
        2 => (0..6_u64, 0..3_u64)
            .prop_map(|(call, request)| {
                PluginFrame::Preview(PreviewRequest { call, request, final_text: None })
            }),
        4 => (0..6_u64, answer)
            .prop_map(|(call, answer)| PluginFrame::Done(Done { call, answer })),
        1 => (0..6_u64, class).prop_map(|(call, class)| {
            PluginFrame::Failed(Failed::new(call, AgentError::new(class, "x")))
        }),
        1 => (0..6_u64).prop_map(|call| {
            PluginFrame::Panicked(Panicked { call, message: "x".into(), location: None })
        }),
        1 => any::<u64>().prop_map(|n| PluginFrame::Pong(Pong { n })),
        1 => (0..4_u64)
            .prop_map(|n| PluginFrame::Refused(Refused::new(n, BuildError::at("", "x")))),
    ]
}

#[derive(Clone, Debug)]
enum Move {
    Frame(PluginFrame),
    Call(bool),
    Open,
    Credit(u64, u32),
    Answer(u64, u64),
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => any_frame().prop_map(Move::Frame),
        2 => any::<bool>().prop_map(Move::Call),
        1 => Just(Move::Open),
        1 => (0..6_u64, 0..200_u32).prop_map(|(call, events)| Move::Credit(call, events)),
        1 => (0..6_u64, 0..3_u64).prop_map(|(call, request)| Move::Answer(call, request)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_ends_at_most_once_and_no_more_is_in_flight_than_allowed(
        moves in prop::collection::vec(any_move(), 0..300),
        credit in any::<bool>(),
    ) {
        let mut state = greeted(if credit { &["credit"] } else { &[] });
        let mut ended: BTreeMap<u64, u32> = BTreeMap::new();
        let mut in_flight: BTreeMap<u64, u32> = BTreeMap::new();
        let mut begun = 0;
        for one in moves {
            match one {
                Move::Call(runs) => {
                    let call = state.call(1, if runs { run() } else { inspect() });
                    begun += 1;
                    prop_assert_eq!(call.call, begun);
                }
                Move::Open => {
                    state.open(ItemKind::Agent, None, Value::Null, &context());
                }
                Move::Credit(call, events) => {
                    // The host grants what was taken, and no more.
                    let taken = in_flight.get(&call).copied().unwrap_or_default().min(events);
                    if state.grant_credit(call, taken).is_some() {
                        in_flight.entry(call).and_modify(|count| *count -= taken);
                    }
                }
                Move::Answer(call, request) => {
                    state.answer_preview(call, request, ValidationPreview::NoClaim);
                }
                Move::Frame(frame) => match state.handle_frame(frame) {
                    Ok(ProtocolEvent::Call { call, event: CallEvent::Ended(_) }) => {
                        *ended.entry(call).or_default() += 1;
                    }
                    Ok(ProtocolEvent::Call { call, event: CallEvent::Agent(_) }) => {
                        prop_assert!((1..=begun).contains(&call));
                        prop_assert!(!ended.contains_key(&call));
                        let count = in_flight.entry(call).or_default();
                        *count += 1;
                        prop_assert!(!credit || *count <= WINDOW);
                    }
                    Ok(ProtocolEvent::Call { call, .. }) => prop_assert!(!ended.contains_key(&call)),
                    Ok(_) => {}
                    Err(violation) => prop_assert!(!violation.to_string().is_empty()),
                },
            }
        }
        prop_assert!(ended.values().all(|count| *count == 1));
        prop_assert!(ended.keys().all(|call| (1..=begun).contains(call)));
        prop_assert_eq!(state.has_open_calls(), u64::try_from(ended.len()).unwrap() < begun);
    }
}
