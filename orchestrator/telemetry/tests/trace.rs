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
use ralph_orchestrator_core::machine::Record;
use ralph_orchestrator_core::store::JournalEntry;
use ralph_orchestrator_telemetry::{Trace, TraceBuilder};
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
    for request in trace.requests("1.2.3", 3) {
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
    let text: String = without.requests("1", 100).map(|request| request.to_string()).collect();
    assert!(!text.contains(SECRET), "{text}");
    let with = build(&entries, &events, true);
    let text: String = with.requests("1", 100).map(|request| request.to_string()).collect();
    assert!(text.contains(SECRET));
    let ids = |trace: &Trace| trace.spans.iter().map(|span| span.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&without), ids(&with));
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
    proptest::collection::vec(one, 0..20)
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
