//! `schemas/plugin-frames.schema.json` says what the types say.

use std::collections::BTreeSet;

use jsonschema::Validator;
use ralph_orchestrator_contract::CancelReason;
use ralph_orchestrator_plugin_protocol::{Decoded, Frame, HostFrame, PluginFrame, decode, encode};
use serde_json::{Map, Value, json};

use crate::frames::{host_frames, plugin_frames};

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../schemas/plugin-frames.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What one side may say.
fn side(name: &str) -> Validator {
    let mut schema = schema();
    let reference = json!([{"$ref": format!("#/definitions/{name}")}]);
    schema["anyOf"] = reference;
    jsonschema::validator_for(&schema).unwrap()
}

fn values<F: Frame>(frames: &[F]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::from_slice(&encode(frame).unwrap()).unwrap()).collect()
}

/// The definitions of one side, each with the frame that it is for.
fn kinds(name: &str) -> Vec<(String, Map<String, Value>)> {
    let schema = schema();
    let kinds = schema["definitions"][name]["anyOf"].as_array().unwrap();
    let kind = |kind: &Value| {
        let properties = kind["properties"].as_object().unwrap().clone();
        (properties["frame"]["const"].as_str().unwrap().to_owned(), properties)
    };
    kinds.iter().map(kind).collect()
}

#[test]
fn what_is_sent_is_what_the_schema_allows() {
    for (name, frames) in
        [("HostFrame", values(&host_frames())), ("PluginFrame", values(&plugin_frames()))]
    {
        let side = side(name);
        for frame in frames {
            let errors: Vec<_> = side.iter_errors(&frame).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new(), "{frame}");
        }
    }
}

#[test]
fn every_key_that_is_sent_is_in_the_schema_and_every_frame_is_both() {
    for (name, frames) in
        [("HostFrame", values(&host_frames())), ("PluginFrame", values(&plugin_frames()))]
    {
        let kinds = kinds(name);
        let sent: BTreeSet<&str> = frames.iter().map(|f| f["frame"].as_str().unwrap()).collect();
        let known: BTreeSet<&str> = kinds.iter().map(|(frame, _)| frame.as_str()).collect();
        assert_eq!(sent, known);
        for frame in &frames {
            for key in frame.as_object().unwrap().keys() {
                let mut of_frame = kinds.iter().filter(|(kind, _)| frame["frame"] == *kind);
                assert!(of_frame.any(|(_, keys)| keys.contains_key(key)), "{key} of {frame}");
            }
        }
    }
}

#[test]
fn what_the_schema_demands_is_demanded_and_no_more() {
    fn check<F: Frame>(name: &str, frames: &[F]) {
        let side = side(name);
        for frame in values(frames) {
            for key in frame.as_object().unwrap().keys() {
                let mut less = frame.clone();
                less.as_object_mut().unwrap().remove(key);
                let bytes = serde_json::to_vec(&less).unwrap();
                let taken = matches!(decode::<F>(&bytes), Ok(Decoded::Known(_)));
                // A rejection needs reasons, which the schema leaves to the text.
                if taken != side.is_valid(&less) && key != "reasons" && key != "why" {
                    panic!("without `{key}`, taken: {taken}: {less}");
                }
            }
        }
    }
    check("HostFrame", &host_frames());
    check("PluginFrame", &plugin_frames());
}

#[test]
fn the_words_for_a_cancelled_call_are_those_that_are_sent() {
    let unknown = serde_json::from_str::<CancelReason>("\"?\"").unwrap_err().to_string();
    let sent: BTreeSet<String> = unknown.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    let described = schema()["definitions"]["CancelReason"]["enum"].clone();
    assert_eq!(sent, serde_json::from_value(described).unwrap());
}

#[test]
fn no_frame_of_one_side_is_one_of_the_other_but_hello() {
    for frame in values(&plugin_frames()) {
        let bytes = serde_json::to_vec(&frame).unwrap();
        if frame["frame"] != "hello" {
            assert!(matches!(decode::<HostFrame>(&bytes).unwrap(), Decoded::Unknown(_)), "{frame}");
        }
    }
    for frame in values(&host_frames()) {
        let bytes = serde_json::to_vec(&frame).unwrap();
        if frame["frame"] != "hello" {
            let decoded = decode::<PluginFrame>(&bytes).unwrap();
            assert!(matches!(decoded, Decoded::Unknown(_)), "{frame}");
        }
    }
}

#[test]
fn the_conversation_in_the_documentation_can_be_held() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/dev/plugin-protocol.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut host, mut plugin) = (0, 0);
    for line in text.lines() {
        if let Some(frame) = line.strip_prefix("host    ") {
            let decoded = decode::<HostFrame>(frame.as_bytes());
            assert!(matches!(decoded, Ok(Decoded::Known(_))), "{frame}: {decoded:?}");
            host += 1;
        } else if let Some(frame) = line.strip_prefix("plugin  ") {
            let decoded = decode::<PluginFrame>(frame.as_bytes());
            assert!(matches!(decoded, Ok(Decoded::Known(_))), "{frame}: {decoded:?}");
            plugin += 1;
        }
    }
    assert_eq!((host, plugin), (13, 16));
}
