//! Nothing an agent prints can do more than end in an error.

use proptest::prelude::*;
use ralph_orchestrator_contract::{ErrorClass, Event};
use serde_json::{Value, json};

use super::{read, transcript};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "assistant",
            "text",
            "result",
            "rejected",
            "success",
            "max_turns"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,8}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// Puts `with` in place of the `at`-th value of the tree, in order of visiting.
fn replace(value: &mut Value, at: &mut usize, with: &Value) -> bool {
    if *at == 0 {
        value.clone_from(with);
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace(item, at, with)),
        Value::Object(fields) => fields.values_mut().any(|field| replace(field, at, with)),
        _ => false,
    }
}

const SOURCES: [&str; 9] = [
    "happy-bypass",
    "e401",
    "denied",
    "partial",
    "subagent",
    "fallback-ok",
    "budget",
    "sigint",
    "qwen",
];

fn check(stream: &str) -> Result<(), TestCaseError> {
    let (events, end) = read(stream);
    let mut last = None;
    for event in events {
        if let Event::Usage { usage } = event {
            let usage = usage.tokens.map(|tokens| tokens.total());
            prop_assert!(usage >= last || usage.is_none(), "{usage:?} after {last:?}");
            last = usage.or(last);
        }
    }
    if let Err(error) = end {
        prop_assert!(!error.message.is_empty());
        prop_assert_eq!(error.report.final_text, None);
        prop_assert!(error.class != ErrorClass::Cancelled);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_lines(lines in prop::collection::vec("\\PC{0,60}|[{}\\[\\]\":,a-z0-9]{0,40}", 0..8)) {
        let stream = lines.join("\n");
        check(&stream)?;
    }

    #[test]
    fn any_messages(messages in prop::collection::vec(any_json(), 0..6)) {
        let stream: String = messages.iter().map(|message| format!("{message}\n")).collect();
        check(&stream)?;
        check(&Value::Array(messages).to_string())?;
    }

    #[test]
    fn one_field_of_a_recorded_stream_changed(
        source in prop::sample::select(SOURCES.to_vec()),
        line in any::<prop::sample::Index>(),
        at in 0_usize..60,
        with in any_json(),
    ) {
        let transcript = transcript(&format!("{source}.jsonl"));
        let mut lines: Vec<Value> =
            transcript.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let line = line.index(lines.len());
        replace(&mut lines[line], &mut at.clone(), &with);
        let stream: String = lines.iter().map(|line| format!("{line}\n")).collect();
        check(&stream)?;
    }

    #[test]
    fn a_stream_cut_anywhere_is_no_success(
        source in prop::sample::select(SOURCES.to_vec()),
        cut in any::<prop::sample::Index>(),
    ) {
        let transcript = transcript(&format!("{source}.jsonl"));
        let cut = transcript.floor_char_boundary(cut.index(transcript.trim_end().len()));
        let end = read(transcript.get(..cut).unwrap()).1;
        prop_assert_eq!(end.unwrap_err().class, ErrorClass::Crashed);
    }
}
