//! Whatever a plugin sends: one outcome a call, never a panic.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use plugin_protocol::{EventSent, Failed, LookAt, Refused, Task};
use proptest::prelude::*;
use ralph_orchestrator_contract::{ErrorClass, Findings, Report};

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
    let view = LookAt {
        workspace: "/w".into(),
        prompt_path: None,
        prompt: None,
        final_text: None,
        given: None,
    };
    Method::Inspect { view }
}

fn event(call: u64) -> PluginFrame {
    PluginFrame::Event(EventSent { call, event: Event::Unknown })
}

fn report(call: u64) -> PluginFrame {
    PluginFrame::Done(Done { call, answer: Answer::Report(Report::default()) })
}

fn greeted(features: &[&str]) -> Talk {
    let mut talk = Talk::default();
    assert!(matches!(talk.take(hello(features)), Ok(News::Hello(_))));
    talk
}

#[test]
fn hello_comes_first_and_once() {
    let mut talk = Talk::default();
    let error = talk.take(PluginFrame::Pong(Pong { n: 1 })).unwrap_err();
    assert_eq!(error.to_string(), "sent the frame `pong` before `hello`");
    let mut talk = greeted(&[]);
    assert!(matches!(talk.take(hello(&[])), Err(Violation::SecondHello)));
    let PluginFrame::Hello(mut other) = hello(&[]) else { panic!() };
    other.protocol = 2;
    let error = Talk::default().take(PluginFrame::Hello(other)).unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn a_call_has_one_end_and_nothing_after_it() {
    let mut talk = greeted(&[]);
    let call = talk.call(1, run()).call;
    assert!(matches!(talk.take(event(call)), Ok(News::Event { .. })));
    assert!(matches!(talk.take(report(call)), Ok(News::Ended { .. })));
    assert!(!talk.is_busy());
    for frame in [report(call), event(call)] {
        let error = talk.take(frame).unwrap_err();
        assert!(error.is_late(), "{error}");
    }
    let error = talk.take(event(call + 1)).unwrap_err();
    assert!(!error.is_late(), "{error}");
    assert!(matches!(error, Violation::UnknownCall { .. }));
}

#[test]
fn an_answer_belongs_to_its_method() {
    let mut talk = greeted(&[]);
    let call = talk.call(1, inspect()).call;
    let error = talk.take(report(call)).unwrap_err();
    assert!(error.to_string().contains("of `inspect` without the key `findings`"), "{error}");
    assert!(matches!(talk.take(event(call)), Err(Violation::NotInThisCall { .. })));
    let judge = PluginFrame::Judge(Judge { call, ask: 1, final_text: None });
    assert!(matches!(talk.take(judge), Err(Violation::NotInThisCall { .. })));
    let answer = Answer::Findings(Findings::default());
    assert!(talk.take(PluginFrame::Done(Done { call, answer })).is_ok());
}

#[test]
fn credit_is_the_window_and_what_was_granted() {
    let mut talk = greeted(&["credit"]);
    let call = talk.call(1, run()).call;
    for _ in 0..WINDOW {
        assert!(talk.take(event(call)).is_ok());
    }
    assert_eq!(talk.credit(call, 2).map(|credit| credit.events), Some(2));
    assert!(talk.take(event(call)).is_ok());
    assert!(talk.take(event(call)).is_ok());
    assert!(matches!(talk.take(event(call)), Err(Violation::NoCredit { .. })));
    // Who never announced it needs none.
    let mut talk = greeted(&[]);
    let call = talk.call(1, run()).call;
    assert!((0..=WINDOW).all(|_| talk.take(event(call)).is_ok()));
    assert_eq!(talk.credit(call, 2), None);
}

#[test]
fn one_question_at_a_time_and_only_an_open_one_is_answered() {
    let mut talk = greeted(&[]);
    let call = talk.call(1, run()).call;
    let judge = |ask| PluginFrame::Judge(Judge { call, ask, final_text: None });
    assert!(talk.take(judge(7)).is_ok());
    assert_eq!(talk.judgement(call, 8, Judgement::NoClaim), None);
    assert!(talk.judgement(call, 7, Judgement::NoClaim).is_some());
    assert_eq!(talk.judgement(call, 7, Judgement::NoClaim), None);
    assert!(talk.take(judge(8)).is_ok());
    assert!(matches!(talk.take(judge(9)), Err(Violation::AskedTwice { .. })));
}

#[test]
fn an_instance_is_opened_once_and_as_what_was_asked_for() {
    let mut talk = greeted(&[]);
    let refused = |instance| {
        PluginFrame::Refused(Refused::new(instance, BuildError::at("steps", "too many")))
    };
    assert!(matches!(talk.take(refused(1)), Err(Violation::UnknownInstance { .. })));
    let open = talk.open(ItemKind::Agent, None, Value::Null, &context());
    assert!(matches!(talk.take(refused(open.instance)), Ok(News::Opened { result: Err(_), .. })));
    assert!(matches!(talk.take(refused(open.instance)), Err(Violation::UnknownInstance { .. })));
    let open = talk.open(ItemKind::Agent, None, Value::Null, &context());
    let provided = Provided::Detector(plugin_protocol::DetectorDescription::default());
    let error = talk.take(PluginFrame::Opened(Opened { instance: open.instance, provided }));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("as a detector, asked was for an agent"), "{error}");
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
            .prop_map(|(call, ask)| PluginFrame::Judge(Judge { call, ask, final_text: None })),
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
        1 => (0..6_u64, 0..3_u64).prop_map(|(call, ask)| Move::Answer(call, ask)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_ends_at_most_once_and_no_more_is_in_flight_than_allowed(
        moves in prop::collection::vec(any_move(), 0..300),
        credit in any::<bool>(),
    ) {
        let mut talk = greeted(if credit { &["credit"] } else { &[] });
        let mut ended: BTreeMap<u64, u32> = BTreeMap::new();
        let mut in_flight: BTreeMap<u64, u32> = BTreeMap::new();
        let mut begun = 0;
        for one in moves {
            match one {
                Move::Call(runs) => {
                    let call = talk.call(1, if runs { run() } else { inspect() });
                    begun += 1;
                    prop_assert_eq!(call.call, begun);
                }
                Move::Open => {
                    talk.open(ItemKind::Agent, None, Value::Null, &context());
                }
                Move::Credit(call, events) => {
                    // The host grants what was taken, and no more.
                    let taken = in_flight.get(&call).copied().unwrap_or_default().min(events);
                    if talk.credit(call, taken).is_some() {
                        in_flight.entry(call).and_modify(|count| *count -= taken);
                    }
                }
                Move::Answer(call, ask) => {
                    talk.judgement(call, ask, Judgement::NoClaim);
                }
                Move::Frame(frame) => match talk.take(frame) {
                    Ok(News::Ended { call, .. }) => *ended.entry(call).or_default() += 1,
                    Ok(News::Event { call, .. }) => {
                        prop_assert!((1..=begun).contains(&call));
                        prop_assert!(!ended.contains_key(&call));
                        let count = in_flight.entry(call).or_default();
                        *count += 1;
                        prop_assert!(!credit || *count <= WINDOW);
                    }
                    Ok(News::Judge { call, .. }) => prop_assert!(!ended.contains_key(&call)),
                    Ok(_) => {}
                    Err(violation) => prop_assert!(!violation.to_string().is_empty()),
                },
            }
        }
        prop_assert!(ended.values().all(|count| *count == 1));
        prop_assert!(ended.keys().all(|call| (1..=begun).contains(call)));
        prop_assert_eq!(talk.is_busy(), u64::try_from(ended.len()).unwrap() < begun);
    }
}
