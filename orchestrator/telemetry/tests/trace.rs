//! Traces of recorded and invented runs.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::panic,
    missing_docs
)]

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span as WireSpan;
use proptest::prelude::*;
use ralph_orchestrator_contract::Event;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::JournalEntry;
use ralph_orchestrator_telemetry::{RequestSize, Span, Trace, TraceBuilder};
use serde_json::{Value, json};

const SECRET: &str = "what nobody should read";

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(1_700_000_000, 0).unwrap() + SignedDuration::from_secs(seconds)
}

fn record(value: Value) -> Record {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn started(iteration: u64) -> Value {
    json!({"kind": "iteration_started", "iteration": iteration, "attempt": 1, "trigger": "initial",
        "prompt": "", "fingerprint": "", "agent": "claude", "model": "sonnet", "reservation": 0, "runtime_ms": 0})
}

fn ended(iteration: u64, outcome: Value) -> Value {
    json!({"kind": "iteration_ended", "iteration": iteration, "outcome": outcome,
        "usage": {"tokens": {"input": 5, "output": 7, "cache_read": 11, "cache_write": 13}, "cost": 0.5, "estimated": false},
        "cost_usd": 0.5, "says_done": false, "left_behind": [], "runtime_ms": 0})
}

fn validated(iteration: u64, accepted: bool) -> Value {
    let verdict = match accepted {
        true => json!({"verdict": "accepted", "summary": "exit 0", "evidence": []}),
        false => json!({"verdict": "rejected", "reasons": [SECRET]}),
    };
    json!({"kind": "validated", "iteration": iteration, "accepted": accepted, "tree": "t",
        "verdicts": [
            {"validator": "tests", "required": true, "duration_ms": 400, "verdict": verdict},
            {"validator": "lint", "required": false, "duration_ms": 300, "verdict": verdict},
        ],
        "reasons": [], "runtime_ms": 0})
}

/// A journal as the program has written it, with other records in the place of its own after the first.
fn journal(records: &[(i64, Value)]) -> Vec<JournalEntry> {
    let first: Value = serde_json::from_str(include_str!("run_started.json")).unwrap();
    let first = (0, first);
    let all = std::iter::once(&first).chain(records);
    let entry = |(seq, (time, value)): (usize, &(i64, Value))| JournalEntry {
        seq: u64::try_from(seq).unwrap() + 1,
        time: at(*time),
        record: record(value.clone()),
    };
    all.enumerate().map(entry).collect()
}

fn build(entries: &[JournalEntry], events: &[(u64, i64, Event)], has_content: bool) -> Trace {
    let mut builder = TraceBuilder::new("01a-run", has_content);
    entries.iter().for_each(|entry| builder.entry(entry));
    for (iteration, time, event) in events {
        builder.event(*iteration, at(*time), event);
    }
    builder.finish()
}

/// The spans as a collector reads them.
fn read(trace: &Trace) -> Vec<WireSpan> {
    let mut spans = Vec::new();
    for request in trace.requests("1.2.3", RequestSize { spans: 3, bytes: 1 << 20 }) {
        let request: ExportTraceServiceRequest = serde_json::from_value(request).unwrap();
        for resource in request.resource_spans {
            let service = &resource.resource.as_ref().unwrap().attributes[0];
            assert_eq!(service.key, "service.name");
            for scope in resource.scope_spans {
                assert!(scope.spans.len() <= 3);
                spans.extend(scope.spans);
            }
        }
    }
    spans
}

fn attribute(span: &WireSpan, key: &str) -> Option<Any> {
    span.attributes.iter().find(|pair| pair.key == key)?.value.clone()?.value
}

fn call(id: &str) -> Event {
    Event::ToolCall {
        id: id.to_owned(),
        name: "Bash".to_owned(),
        input: json!({"command": SECRET}),
    }
}

fn answer(id: &str, is_error: bool) -> Event {
    Event::ToolResult { id: id.to_owned(), is_error, text: SECRET.to_owned() }
}

fn example() -> (Vec<JournalEntry>, Vec<(u64, i64, Event)>) {
    let entries = journal(&[
        (1, started(1)),
        (2, json!({"kind": "model", "iteration": 1, "model": "claude-sonnet-5"})),
        (10, ended(1, json!({"type": "succeeded"}))),
        (12, validated(1, false)),
        (13, json!({"kind": "waiting", "until_ms": 0, "reason": SECRET})),
        (20, started(2)),
        (30, ended(2, json!({"type": "failed", "class": "crashed", "message": SECRET}))),
        (31, validated(2, true)),
        (
            32,
            json!({"kind": "stopped", "reason": "max_iterations", "message": SECRET, "runtime_ms": 0}),
        ),
    ]);
    let events = vec![
        (1, 3, call("a")),
        (1, 4, answer("a", false)),
        (1, 5, call("b")),
        (1, 6, answer("b", true)),
        (2, 21, call("a")),
    ];
    (entries, events)
}

#[test]
fn a_collector_reads_the_whole_run() {
    let (entries, events) = example();
    let spans = read(&build(&entries, &events, false));
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "invoke_workflow ralph-orchestrator",
            "invoke_agent claude",
            "execute_tool Bash",
            "execute_tool Bash",
            "validation",
            "validate tests",
            "validate lint",
            "wait",
            "invoke_agent claude",
            "execute_tool Bash",
            "validation",
            "validate tests",
            "validate lint",
        ]
    );
    let first = &spans[1];
    assert_eq!(
        attribute(first, "gen_ai.operation.name"),
        Some(Any::StringValue("invoke_agent".into()))
    );
    assert_eq!(attribute(first, "gen_ai.usage.input_tokens"), Some(Any::IntValue(29)));
    assert_eq!(attribute(first, "gen_ai.usage.cache_read.input_tokens"), Some(Any::IntValue(11)));
    assert_eq!(attribute(first, "ralph.cost_usd"), Some(Any::DoubleValue(0.5)));
    let model = Any::StringValue("claude-sonnet-5".into());
    assert_eq!(attribute(first, "gen_ai.response.model"), Some(model));
    assert_eq!(first.end_time_unix_nano - first.start_time_unix_nano, 9_000_000_000);
    let failed: Vec<&str> = spans
        .iter()
        .filter(|span| span.status.as_ref().is_some_and(|status| status.code == 2))
        .map(|span| span.name.as_str())
        .collect();
    assert_eq!(
        failed,
        [
            "execute_tool Bash",
            "validation",
            "validate tests",
            "validate lint",
            "invoke_agent claude"
        ]
    );
    let wait = &spans[7];
    assert_eq!(wait.end_time_unix_nano - wait.start_time_unix_nano, 7_000_000_000);
}

#[test]
fn nothing_that_was_written_is_exported_unless_asked_for() {
    let (entries, events) = example();
    let without = build(&entries, &events, false);
    let text: String =
        without.requests("1", RequestSize::UNLIMITED).map(|request| request.to_string()).collect();
    assert!(!text.contains(SECRET), "{text}");
    let with = build(&entries, &events, true);
    let text: String =
        with.requests("1", RequestSize::UNLIMITED).map(|request| request.to_string()).collect();
    assert!(text.contains(SECRET));
    let ids = |trace: &Trace| trace.spans.iter().map(|span| span.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&without), ids(&with));
}

#[test]
fn a_wait_ends_when_the_run_goes_on() {
    let origin = json!({"id": "c", "user": "u", "program": "steer", "sent_ms": 0});
    let steer = json!({"kind": "control_received", "origin": origin,
        "control": {"type": "steer", "text": "x"}});
    let entries = journal(&[
        (10, json!({"kind": "waiting", "until_ms": 0, "reason": "busy"})),
        (12, steer),
        (13, json!({"kind": "warning", "message": "careful"})),
        (40, json!({"kind": "clock", "runtime_ms": 40_000})),
        (41, started(1)),
    ]);
    let spans = build(&entries, &[], false).spans;
    let wait = spans.iter().find(|span| span.name == "wait").unwrap();
    assert_eq!((wait.start, wait.end), (at(10), at(40)));
}

#[test]
fn a_killed_iteration_ends_where_it_was_killed_and_has_what_it_is_charged() {
    let mut resumed: Value = serde_json::from_str(include_str!("run_started.json")).unwrap();
    resumed["kind"] = json!("run_resumed");
    let entries = journal(&[
        (1, started(1)),
        (5, json!({"kind": "clock", "runtime_ms": 4_000})),
        (60, resumed),
        (60, ended(1, json!({"type": "interrupted"}))),
        (61, started(2)),
    ]);
    let events = [(1, 4, call("a")), (1, 5, answer("a", false)), (1, 7, call("b"))];
    let trace = build(&entries, &events, false);
    let killed = &trace.spans[1];
    assert_eq!((killed.start, killed.end), (at(1), at(5)));
    assert_eq!(killed.failure.as_deref(), Some("the orchestrator ended"));
    assert!(killed.attributes.contains(&("ralph.cost_usd", json!(0.5))));
    // What it did after its last record is a part of it, too.
    let tools = trace.spans.iter().filter(|span| span.name == "execute_tool Bash");
    assert!(tools.clone().all(|span| span.parent.as_ref() == Some(&killed.id)));
    assert_eq!(tools.count(), 2);
}

#[test]
fn an_event_belongs_to_the_attempt_in_which_it_happened() {
    let mut second = started(1);
    second["attempt"] = json!(2);
    let entries = journal(&[
        (1, started(1)),
        (10, ended(1, json!({"type": "deferred", "class": "overloaded", "message": "busy"}))),
        (20, second),
        (30, ended(1, json!({"type": "succeeded"}))),
    ]);
    let events = [(1, 5, call("a")), (1, 6, answer("a", false)), (1, 25, call("a"))];
    let spans = build(&entries, &events, false).spans;
    let parents: Vec<_> =
        spans.iter().filter(|s| s.name == "execute_tool Bash").map(|s| s.parent.clone()).collect();
    let attempts: Vec<_> = spans
        .iter()
        .filter(|s| s.name == "invoke_agent claude")
        .map(|s| Some(s.id.clone()))
        .collect();
    assert_eq!(parents, attempts);
}

/// The spans of a run that are taken as soon as they have ended.
fn take_as_they_end(entries: &[JournalEntry], events: &[(u64, i64, Event)]) -> Vec<Span> {
    let mut builder = TraceBuilder::new("01a-run", false);
    let mut spans = Vec::new();
    for entry in entries {
        builder.entry(entry);
        if let Record::IterationEnded { iteration, .. } = entry.record {
            for (of, time, event) in events.iter().filter(|(of, ..)| *of == iteration) {
                builder.event(*of, at(*time), event);
            }
            builder.end_transcript();
        }
        spans.extend(builder.take_ended());
    }
    spans
}

#[test]
fn spans_that_are_taken_as_they_end_are_those_of_the_whole() {
    let (entries, events) = example();
    let mut parts = take_as_they_end(&entries, &events);
    let mut whole = build(&entries, &events, false).spans;
    let by_id = |one: &Span, other: &Span| one.id.cmp(&other.id);
    parts.sort_by(by_id);
    whole.sort_by(by_id);
    assert_eq!(parts, whole);
}

#[test]
fn no_request_is_larger_than_a_collector_takes() {
    let (entries, events) = example();
    let trace = build(&entries, &events, true);
    let count = |bytes| trace.requests("1", RequestSize { spans: 500, bytes }).count();
    assert_eq!(count(1 << 20), 1);
    assert_eq!(count(1), trace.spans.len(), "a span that is too large is sent alone");
    let whole = trace.requests("1", RequestSize::UNLIMITED).next().unwrap().to_string().len();
    assert_eq!(count(whole / 2 + 200), 2);
}

#[test]
fn without_a_beginning_there_is_no_trace() {
    assert_eq!(build(&[], &[(1, 1, call("a"))], true).spans.len(), 0);
    let (entries, _) = example();
    assert_eq!(build(&entries[1..], &[], false).spans.len(), 0);
}

/// Records and times in any order, as no program writes them: a clock that is put back, starts without ends.
fn any_records() -> impl Strategy<Value = Vec<(i64, Value)>> {
    let one = (0_i64..50, 0_u64..4, 0_u8..10).prop_map(|(time, iteration, kind)| {
        let value = match kind {
            0 | 1 => started(iteration),
            2 => ended(iteration, json!({"type": "succeeded"})),
            3 => ended(iteration, json!({"type": "stopped_early", "reason": "idle"})),
            4 => validated(iteration, iteration > 1),
            5 => json!({"kind": "waiting", "until_ms": 7, "reason": "busy"}),
            6 => json!({"kind": "paused", "runtime_ms": 0}),
            7 => json!({"kind": "setup_started", "iteration": iteration}),
            8 => json!({"kind": "setup_finished", "iteration": iteration, "runtime_ms": 0}),
            _ => json!({"kind": "warning", "message": "careful"}),
        };
        (time, value)
    });
    proptest::collection::vec(one, 0..30)
}

fn any_events() -> impl Strategy<Value = Vec<(u64, i64, Event)>> {
    let one = (0_u64..4, 0_i64..50, "[ab]", any::<bool>(), any::<bool>()).prop_map(
        |(iteration, time, id, is_call, is_error)| {
            (iteration, time, if is_call { call(&id) } else { answer(&id, is_error) })
        },
    );
    // The events of an iteration come together.
    proptest::collection::vec(one, 0..20).prop_map(|mut events| {
        events.sort_by_key(|(iteration, ..)| *iteration);
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_trace_is_well_formed(records in any_records(), events in any_events()) {
        let entries = journal(&records);
        let trace = build(&entries, &events, true);
        let spans = read(&trace);
        let by_id: BTreeMap<&[u8], &WireSpan> =
            spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
        prop_assert_eq!(by_id.len(), spans.len(), "an id is there twice");
        prop_assert_eq!(spans.iter().filter(|span| span.parent_span_id.is_empty()).count(), 1);
        for span in &spans {
            prop_assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
            prop_assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
            let parent = by_id.get(span.parent_span_id.as_slice());
            prop_assert_eq!(parent.is_none(), span.parent_span_id.is_empty());
        }
        // Exported again it is the same.
        prop_assert_eq!(&trace, &build(&entries, &events, true));
    }

    /// After a crash the trace has the ids that it would have had.
    #[test]
    fn a_part_of_a_journal_has_the_ids_of_the_whole(
        records in any_records(),
        events in any_events(),
        kept in 1_usize..30,
    ) {
        let entries = journal(&records);
        let ids = |trace: &Trace| {
            trace.spans.iter().map(|span| span.id.clone()).collect::<BTreeSet<_>>()
        };
        let part = build(&entries[..kept.min(entries.len())], &[], false);
        let whole = build(&entries, &events, false);
        prop_assert!(ids(&part).is_subset(&ids(&whole)));
    }
}
