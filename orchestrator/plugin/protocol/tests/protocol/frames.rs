//! Frames as bytes and back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ralph_orchestrator_contract::{
    AgentError, BacklogEdit, BacklogItem, Budget, BuildContext, CancelReason, Claim, ClaimKind,
    ClaimSource, Description, ErrorClass, Event, Findings, FormatDefect, FormatDescription,
    FormatError, Guidance, ItemOrder, ItemStatus, Iteration, Launch, NewItem, Report, SetupProblem,
    TextLocation, ValidationPreview, ValidatorDescription, Verdict,
};
use ralph_orchestrator_plugin_protocol::{
    Answer, Call, Cancel, Close, Credit, DecodeError, Decoded, DetectorDescription, Done,
    EditedBacklog, EncodeError, EventSent, Failed, Frame, GuidanceResult, HostFrame, HostHello,
    InspectInput, Item, ItemKind, LogLevel, LogLine, MAX_FRAME, Method, Open, Opened, PROTOCOL,
    Panicked, Ping, PluginFrame, PluginHello, Pong, PreviewRequest, PreviewResult, Provided,
    ReadBacklog, Refused, Span, TakeGuidance, Task, UnknownWord, Validation, ValidatorDetails,
    WINDOW, WriteCheck, WriteCheckResult, decode, encode,
};
use serde_json::{Value, json};

fn claim() -> Claim {
    Claim {
        kind: ClaimKind::Complete,
        detector: "plan".into(),
        source: ClaimSource::State,
        text: "all done".into(),
    }
}

fn iteration(prompt: &[u8]) -> Iteration {
    Iteration {
        run: "r".into(),
        number: 3,
        prompt: prompt.to_vec(),
        workspace: "/w".into(),
        env: BTreeMap::from([("PATH".into(), "/bin".into())]),
        budget: Budget { time: Some(std::time::Duration::from_millis(1500)), ..Budget::default() },
        scratch: "/s".into(),
    }
}

fn backlog_item() -> BacklogItem {
    BacklogItem {
        id: "a".into(),
        title: "A".into(),
        description: "it".into(),
        status: ItemStatus::InProgress,
        priority: -3,
        criteria: vec!["works".into()],
        dependencies: vec!["b".into()],
        notes: vec!["one\ntwo".into()],
        verify: Some("make a".into()),
        location: Some(TextLocation { line: 2, column: 3 }),
    }
}

fn backlog_edits() -> Vec<BacklogEdit> {
    let id = || "a".to_owned();
    vec![
        BacklogEdit::SetStatus { id: id(), status: ItemStatus::Completed },
        BacklogEdit::SetNotes { id: id(), notes: vec!["n".into()] },
        BacklogEdit::Add { item: NewItem { title: "B".into(), ..NewItem::default() } },
    ]
}

fn methods() -> Vec<Method> {
    let env = BTreeMap::from([("A".to_owned(), "b".to_owned())]);
    vec![
        Method::Check { env: env.clone() },
        Method::Run { task: iteration(b"do it").into() },
        Method::Observe { event: Event::Text { text: "hi".into() } },
        Method::Inspect {
            input: InspectInput {
                workspace: "/w".into(),
                prompt_path: None,
                prompt: Some("p".into()),
                final_text: Some("done".into()),
                given: Some("p".into()),
            },
        },
        Method::StripClaims { prompt: "p".into() },
        Method::Launch { task: iteration(b"{prompt}").into() },
        Method::FindSetupProblems { workspace: "/w".into(), env: env.clone() },
        Method::Validate {
            context: Validation {
                run: "r".into(),
                iteration: 1,
                claim: claim(),
                workspace: "/w".into(),
                tree_since: 0,
                written_in: BTreeMap::from([("ab".into(), 2)]),
                evidence_listed: false,
                protected_changes: Vec::new(),
                env,
            },
        },
        Method::ReadBacklog { text: "- a\n".into() },
        Method::EditBacklog { text: "- a\n".into(), edits: backlog_edits() },
    ]
}

pub(crate) fn host_frames() -> Vec<HostFrame> {
    let mut frames = vec![
        HostFrame::Hello(HostHello {
            protocol: PROTOCOL,
            host: "ralph-orchestrator 0".into(),
            features: vec!["credit".into()],
            window: WINDOW,
            log: LogLevel::Warn,
        }),
        HostFrame::Open(Open {
            instance: 1,
            kind: ItemKind::Detector,
            name: None,
            config: json!({"a": [1, null]}),
            context: BuildContext {
                config_dir: "/c".into(),
                workspace: "/w".into(),
                prompt_dir: "/c".into(),
                path: "/bin".into(),
            },
        }),
        HostFrame::Cancel(Cancel { call: 1, reason: CancelReason::Idle, grace_ms: 5000 }),
        HostFrame::PreviewResult(PreviewResult {
            call: 1,
            request: 2,
            preview: ValidationPreview::Rejected { reasons: vec!["no".into()] },
        }),
        HostFrame::WriteCheckResult(WriteCheckResult { call: 1, request: 2, refused: true }),
        HostFrame::GuidanceResult(GuidanceResult {
            call: 1,
            request: 2,
            guidance: vec![Guidance { id: "g".into(), text: "look there".into() }],
        }),
        HostFrame::Credit(Credit { call: 1, events: 32 }),
        HostFrame::Ping(Ping { n: u64::MAX }),
        HostFrame::Close(Close {}),
    ];
    let call = |(call, method)| HostFrame::Call(Call { call, instance: 1, method });
    frames.extend((1..).zip(methods()).map(call));
    frames
}

fn answers() -> Vec<Answer> {
    vec![
        Answer::Found("bot 1.2".into()),
        Answer::Report(Report { final_text: Some("done".into()), ..Report::default() }),
        Answer::Claims(vec![claim()]),
        Answer::Findings(Findings { claims: vec![claim()], ..Findings::default() }),
        Answer::Text("p".into()),
        Answer::Launch(Some(Launch {
            program: Some("/bin/bot".into()),
            argv: vec!["{prompt}".into()],
            env: BTreeMap::from([("A".into(), "b".into())]),
        })),
        Answer::SetupProblems(vec![SetupProblem {
            key: vec!["level".into()],
            message: "too low".into(),
            is_fatal: true,
        }]),
        Answer::Verdict(Verdict::rejected("no")),
        Answer::Backlog(ReadBacklog { items: vec![backlog_item()], defects: Vec::new() }),
        Answer::Edited(EditedBacklog::Text("- b\n".into())),
    ]
}

/// Other answers to the methods that have several.
fn other_answers() -> Vec<Answer> {
    vec![
        Answer::Launch(None),
        Answer::Backlog(ReadBacklog { items: Vec::new(), defects: vec![format_defect()] }),
        Answer::Edited(EditedBacklog::NotStorable("a priority".into())),
        Answer::Edited(EditedBacklog::InvalidItem("it has no title".into())),
    ]
}

fn format_defect() -> FormatDefect {
    let location = Some(TextLocation { line: 1, column: 1 });
    FormatDefect { location, item: Some("a".into()), message: "what is this?".into() }
}

pub(crate) fn plugin_frames() -> Vec<PluginFrame> {
    let mut frames = vec![
        PluginFrame::Hello(PluginHello {
            protocol: PROTOCOL,
            name: "bot".into(),
            version: "1".into(),
            sdk: Some("sdk 0.1".into()),
            features: vec!["ping".into()],
            provides: vec![Item {
                kind: ItemKind::Agent,
                name: "bot".into(),
                summary: "a bot".into(),
                schema: Some(json!({"type": "object"})),
            }],
        }),
        PluginFrame::Opened(Opened {
            instance: 1,
            provided: Provided::Agent(Description { name: "bot".into(), ..Description::default() }),
        }),
        PluginFrame::Opened(Opened {
            instance: 2,
            provided: Provided::Detector(DetectorDescription {
                instructions: "say so".into(),
                forms: vec!["<done>".into()],
                observes: true,
                strips: false,
            }),
        }),
        PluginFrame::Opened(Opened {
            instance: 3,
            provided: Provided::Validator(ValidatorDetails {
                description: ValidatorDescription { kind: "v".into(), demands: "d".into() },
                evidence_dirs: vec!["/e".into()],
                protects: vec!["tests/**".into()],
                reserved_paths: vec!["override".into()],
                outside_files: vec!["/bin/check".into()],
                passed_paths: vec!["/w/../tests".into()],
                read_only: true,
                runs_check: false,
                passes_required: 2,
            }),
        }),
        PluginFrame::Opened(Opened {
            instance: 4,
            provided: Provided::Backlog(FormatDescription {
                order: ItemOrder::Lowest,
                statuses: ItemStatus::ALL.to_vec(),
                example: "- a\n".into(),
                instructions: "One line each.".into(),
            }),
        }),
        PluginFrame::Refused(Refused {
            instance: 1,
            key: vec!["steps".into(), "0".into()],
            unknown_key: Some("modle".into()),
            message: "unknown field".into(),
        }),
        PluginFrame::Event(EventSent { call: 1, event: Event::Note { text: "n".into() } }),
        PluginFrame::Preview(PreviewRequest { call: 1, request: 1, final_text: None }),
        PluginFrame::TakeGuidance(TakeGuidance { call: 1, request: 2 }),
        PluginFrame::WriteCheck(WriteCheck { call: 1, request: 1, path: "/w/spec.md".into() }),
        PluginFrame::Failed(Failed::new(
            2,
            AgentError::new(ErrorClass::RateLimited { until_ms: Some(5) }, "later"),
        )),
        PluginFrame::Panicked(Panicked {
            call: 3,
            message: "index out of bounds".into(),
            location: Some("src/lib.rs:1:2".into()),
        }),
        PluginFrame::Log(LogLine {
            level: LogLevel::Debug,
            target: "bot::http".into(),
            message: "sent".into(),
            fields: json!({"bytes": 3}).as_object().unwrap().clone(),
            spans: vec![Span { name: "request".into(), fields: serde_json::Map::new() }],
        }),
        PluginFrame::Pong(Pong { n: 1 }),
    ];
    let done = |(call, answer)| PluginFrame::Done(Done { call, answer });
    frames.extend((1..).zip(answers().into_iter().chain(other_answers())).map(done));
    frames
}

fn value<F: Frame>(frame: &F) -> Value {
    serde_json::from_slice(&encode(frame).unwrap()).unwrap()
}

fn there_and_back<F: Frame + Clone + PartialEq + std::fmt::Debug>(frames: Vec<F>) {
    for frame in frames {
        let bytes = encode(&frame).unwrap();
        assert!(!bytes.contains(&b'\n'));
        let mut newer: Value = serde_json::from_slice(&bytes).unwrap();
        newer["of a newer version"] = json!({"deep": [1]});
        let newer = serde_json::to_vec(&newer).unwrap();
        for bytes in [bytes, newer] {
            assert_eq!(decode(&bytes).unwrap(), Decoded::Known(frame.clone()));
        }
    }
}

#[test]
fn every_frame_comes_back_as_it_was_and_unknown_keys_are_ignored() {
    there_and_back(host_frames());
    there_and_back(plugin_frames());
}

#[test]
fn every_method_has_its_answer() {
    for (method, answer) in methods().into_iter().zip(answers()) {
        assert_eq!(method.name(), answer.method());
        let done = value(&PluginFrame::Done(Done { call: 1, answer }));
        assert!(done.get(method.name().answer_key()).is_some(), "{done}");
        let call = value(&HostFrame::Call(Call { call: 1, instance: 1, method: method.clone() }));
        assert_eq!(call["method"], method.name().word());
    }
}

#[test]
fn frames_look_as_they_are_documented() {
    let failed = Failed::new(2, AgentError::new(ErrorClass::Crashed, "exit 1"));
    let failed = value(&PluginFrame::Failed(failed));
    assert_eq!((&failed["frame"], &failed["class"]), (&json!("failed"), &json!("crashed")));
    let least = br#"{"frame":"failed","call":2,"class":"rate_limited","message":"later"}"#;
    let Decoded::Known(PluginFrame::Failed(failed)) = decode(least).unwrap() else { panic!() };
    assert_eq!(failed.class, ErrorClass::RateLimited { until_ms: None });
    let least = br#"{"frame":"opened","instance":1,"agent":{"summary":"a bot"}}"#;
    let Decoded::Known(PluginFrame::Opened(opened)) = decode(least).unwrap() else { panic!() };
    assert_eq!(opened.provided.kind(), ItemKind::Agent);
    let least = br#"{"frame":"done","call":1,"report":{}}"#;
    let Decoded::Known(PluginFrame::Done(done)) = decode(least).unwrap() else { panic!() };
    assert_eq!(done.answer, Answer::Report(Report::default()));
    let least =
        br#"{"frame":"hello","protocol":1,"name":"x","provides":[{"kind":"soul","name":"s"}]}"#;
    let Decoded::Known(PluginFrame::Hello(hello)) = decode(least).unwrap() else { panic!() };
    assert_eq!(hello.provides[0].kind, ItemKind::Unknown);
}

#[test]
fn a_word_that_is_not_known_costs_nothing_else_that_the_frame_says() {
    let of = |frame: Value| {
        decode::<PluginFrame>(&serde_json::to_vec(&frame).unwrap()).map(|decoded| match decoded {
            Decoded::KnownInPart(frame, unknown) => {
                let said = |one: UnknownWord| (one.place, one.word, one.known.len(), one.instead);
                (frame, unknown.into_iter().map(said).collect::<Vec<_>>())
            }
            other => panic!("{other:?}"),
        })
    };
    let said = |place: &str, word: &str, known, instead| {
        vec![(place.to_owned(), word.to_owned(), known, instead)]
    };
    let report = json!({"usage": {"cost": 0.5}});
    let failed =
        json!({"frame": "failed", "call": 1, "class": "bored", "message": "m", "report": report});
    let (PluginFrame::Failed(failed), unknown) = of(failed).unwrap() else { panic!() };
    assert_eq!((failed.class, failed.message.as_str()), (ErrorClass::Crashed, "m"));
    assert!(failed.report.usage.cost.is_some());
    assert_eq!(unknown, said("error class", "bored", 12, Some("crashed")));
    let claim = json!({"type": "claim", "kind": "half_done", "text": "x"});
    let (PluginFrame::Event(sent), unknown) =
        of(json!({"frame": "event", "call": 1, "event": claim})).unwrap()
    else {
        panic!()
    };
    assert_eq!(sent.event, Event::Unknown);
    assert_eq!(unknown, said("word in the event `claim`", "half_done", 2, None));
    let (PluginFrame::Log(line), unknown) =
        of(json!({"frame": "log", "level": "notice", "message": "m"})).unwrap()
    else {
        panic!()
    };
    assert_eq!((line.level, line.message.as_str()), (LogLevel::Info, "m"));
    assert_eq!(unknown, said("severity", "notice", 5, Some("info")));
    let claim =
        |kind: &str| json!({"kind": kind, "detector": "", "source": "message", "text": kind});
    let claims = json!([claim("complete"), claim("partly"), claim("needs_human")]);
    for answer in [json!({"findings": {"claims": claims}}), json!({"claims": claims})] {
        let mut done = json!({"frame": "done", "call": 1});
        done.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        let (PluginFrame::Done(done), unknown) = of(done).unwrap() else { panic!() };
        let (Answer::Findings(Findings { claims, .. }) | Answer::Claims(claims)) = done.answer
        else {
            panic!()
        };
        let texts: Vec<&str> = claims.iter().map(|claim| claim.text.as_str()).collect();
        assert_eq!(texts, ["complete", "needs_human"]);
        assert_eq!(unknown, said("word in a claim", "partly", 2, None));
    }
    for wrong in [
        json!({"frame": "failed", "call": 1, "class": "bored"}),
        json!({"frame": "failed", "call": 1, "message": "m"}),
        json!({"frame": "event", "call": 1, "event": {"type": "text"}}),
    ] {
        assert!(of(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn a_reason_to_cancel_that_is_not_known_is_a_signal() {
    let cancel = br#"{"frame": "cancel", "call": 1, "reason": "boredom", "grace_ms": 5}"#;
    let Ok(Decoded::Known(HostFrame::Cancel(cancel))) = decode::<HostFrame>(cancel) else {
        panic!()
    };
    assert_eq!(cancel.reason, CancelReason::Signal);
}

#[test]
fn an_unknown_frame_is_no_mistake_and_its_name_is_kept_short() {
    let of = |name: &str| {
        decode::<PluginFrame>(json!({"frame": name, "x": 1}).to_string().as_bytes()).unwrap()
    };
    assert_eq!(of("progress"), Decoded::Unknown("progress".into()));
    let Decoded::Unknown(name) = of(&"é".repeat(1000)) else { panic!() };
    assert_eq!(name, "é".repeat(32));
    // What the host says is nothing that a plugin can say.
    assert_eq!(of("cancel"), Decoded::Unknown("cancel".into()));
}

#[test]
fn what_is_no_frame_is_reported_with_its_beginning() {
    let of = |text: &str| decode::<PluginFrame>(text.as_bytes()).unwrap_err().to_string();
    assert!(of("Traceback (most recent call last):").contains("`Traceback (most recent"));
    assert!(of("[1]").contains("is not a frame"));
    assert!(of("{}").contains("missing field `frame`"));
    assert!(of(r#"{"frame":1}"#).contains("is not a frame"));
    assert!(of(r#"{"frame":"pong"}"#).contains("invalid frame `pong`: it lacks `n`: "));
    assert!(of(r#"{"frame":"pong","n":-1}"#).contains("`pong`"));
    assert!(of(r#"{"frame":"done","call":1}"#).contains("`done`"));
    assert!(of(&"\u{1b}[31m".repeat(100)).contains("\\u{1b}"));
}

#[test]
fn frames_are_bounded_both_ways() {
    let text = |bytes: usize| {
        let event = Event::Text { text: "a".repeat(bytes) };
        PluginFrame::Event(EventSent { call: 1, event })
    };
    let around = encode(&text(0)).unwrap().len();
    let longest = encode(&text(MAX_FRAME - around)).unwrap();
    assert_eq!(longest.len(), MAX_FRAME);
    assert!(decode::<PluginFrame>(&longest).is_ok());
    let error = encode(&text(MAX_FRAME - around + 1)).unwrap_err();
    assert!(matches!(error, EncodeError::TooLarge { bytes } if bytes == MAX_FRAME + 1));
    let longer = [longest.as_slice(), b" "].concat();
    let error = decode::<PluginFrame>(&longer).unwrap_err();
    assert!(matches!(error, DecodeError::TooLarge { bytes } if bytes == MAX_FRAME + 1));
}

#[test]
fn a_prompt_is_text_if_it_can_be_and_arrives_byte_for_byte() {
    for prompt in [&b"caf\xc3\xa9\n"[..], b"", b"\xff\x00\x80", b"\xc3"] {
        let task = Task::from(iteration(prompt));
        assert_eq!(task.prompt.is_some(), std::str::from_utf8(prompt).is_ok());
        assert_ne!(task.prompt.is_some(), task.prompt_base64.is_some());
        assert_eq!(Iteration::try_from(task).unwrap().prompt, prompt);
    }
    let mut task = Task::from(iteration(b""));
    task.prompt = None;
    assert!(Iteration::try_from(task.clone()).unwrap_err().to_string().contains("neither"));
    task.prompt_base64 = Some("%".into());
    assert!(Iteration::try_from(task).unwrap_err().to_string().contains("not Base64"));
}

#[test]
fn a_path_that_is_no_text_cannot_be_said() {
    use std::os::unix::ffi::OsStringExt as _;
    let mut task = iteration(b"");
    task.workspace = std::ffi::OsString::from_vec(vec![0xff]).into();
    let call = Call { call: 1, instance: 1, method: Method::Run { task: task.into() } };
    let error = encode(&HostFrame::Call(call)).unwrap_err();
    assert!(matches!(error, EncodeError::NotJson(_)), "{error}");
}

/// Frames with a piece of their bytes replaced: near enough to right to get far.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let bytes: Vec<Vec<u8>> = plugin_frames()
        .iter()
        .map(|frame| encode(frame).unwrap())
        .chain(host_frames().iter().map(|frame| encode(frame).unwrap()))
        .collect();
    let junk = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        prop::sample::select(vec![
            b"null".to_vec(),
            b"{".to_vec(),
            b"]".to_vec(),
            b"-1".to_vec(),
            b"1e999".to_vec(),
            b"\"\\ud800\"".to_vec(),
            b"18446744073709551616".to_vec(),
            b"\"frame\":".to_vec(),
        ]),
    ];
    (prop::sample::select(bytes), any::<prop::sample::Index>(), 0_usize..12, junk).prop_map(
        |(mut bytes, at, length, junk)| {
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, junk);
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_never_panics_and_what_it_takes_can_be_said_again(bytes in mutated()) {
        if let Ok(Decoded::Known(frame)) = decode::<PluginFrame>(&bytes) {
            let again = encode(&frame).unwrap();
            prop_assert_eq!(decode::<PluginFrame>(&again).unwrap(), Decoded::Known(frame));
        }
        if let Ok(Decoded::Known(frame)) = decode::<HostFrame>(&bytes) {
            prop_assert!(encode(&frame).is_ok());
        }
    }

    #[test]
    fn arbitrary_bytes_are_never_taken_for_a_frame_in_silence(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        if decode::<PluginFrame>(&bytes).is_ok() {
            let object: Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert!(object["frame"].is_string());
        }
    }
}

#[test]
fn a_format_says_only_what_it_has_to() {
    let least = br#"{"frame":"opened","instance":1,"backlog":{}}"#;
    let Decoded::Known(PluginFrame::Opened(opened)) = decode(least).unwrap() else { panic!() };
    assert_eq!(opened.provided, Provided::Backlog(FormatDescription::default()));
    let least = br#"{"frame":"done","call":1,"backlog":{"items":[{"id":"a","title":"A","status":"pending"}]}}"#;
    let Decoded::Known(PluginFrame::Done(done)) = decode(least).unwrap() else { panic!() };
    let Answer::Backlog(read) = done.answer else { panic!() };
    let items = read.into_items().unwrap();
    assert_eq!((items[0].priority, &items[0].notes, items[0].location), (0, &Vec::new(), None));
    let defects = ReadBacklog { items, defects: vec![format_defect()] };
    assert_eq!(defects.into_items(), Err(FormatError::Defects(vec![format_defect()])));
}
