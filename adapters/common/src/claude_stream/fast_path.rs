//! The messages that come most often, read in one pass over the line.
//!
//! This knows only their usual form. Whatever is different in any way is left to
//! [`Message::from_value`], which takes several times as long and reads everything.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;

use crate::claude_stream::message::{Assistant, Block, Message, System, User, WireUsage};

/// The message of a line, if it is one of these in its usual form: then what
/// [`Message::from_value`] makes of it.
pub(crate) fn message(line: &str) -> Option<Message> {
    // Those that print them put the type first.
    let assistant = line.starts_with(r#"{"type":"assistant""#);
    if !assistant && !line.starts_with(r#"{"type":"user""#) {
        return None;
    }
    let Line { kind, message, parent_tool_use_id, error } = serde_json::from_str(line).ok()?;
    let parent = own(parent_tool_use_id);
    let content = message.content.0;
    match &*kind.0 {
        "assistant" => Some(Message::Assistant(Assistant {
            id: own(message.id),
            model: own(message.model),
            content,
            usage: message.usage.map(WireUsage::from),
            parent,
            error: own(error),
        })),
        "user" => Some(Message::User(User { content, parent })),
        _ => None,
    }
}

/// What a system message is called that has no meaning here.
pub(crate) fn passed_over(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        #[serde(borrow)]
        subtype: Text<'a>,
    }

    if !line.starts_with(r#"{"type":"system""#) {
        return None;
    }
    let Head { kind, subtype } = serde_json::from_str(line).ok()?;
    let usual = kind.0 == "system" && !subtype.0.is_empty();
    (usual && !System::SUBTYPES.contains(&&*subtype.0)).then(|| format!("system/{}", subtype.0))
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn own(text: Option<Text<'_>>) -> Option<String> {
    text.map(|text| text.0.into_owned())
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    message: Body<'a>,
    #[serde(borrow)]
    parent_tool_use_id: Option<Text<'a>>,
    #[serde(borrow)]
    error: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(default, deserialize_with = "there")]
    usage: Option<Figures>,
    content: Content,
}

/// Null is something else than nothing.
fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

#[derive(Deserialize)]
struct Figures {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

impl From<Figures> for WireUsage {
    fn from(figures: Figures) -> Self {
        let Figures {
            input_tokens,
            output_tokens,
            cache_read_input_tokens,
            cache_creation_input_tokens,
            total_tokens,
        } = figures;
        Self {
            input_tokens,
            output_tokens,
            cache_read_input_tokens,
            cache_creation_input_tokens,
            total_tokens,
        }
    }
}

/// Blocks, or a text alone.
struct Content(Vec<Block>);

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    input: Option<Value>,
    #[serde(borrow)]
    tool_use_id: Option<Text<'a>>,
    is_error: Option<bool>,
    #[serde(borrow)]
    content: Option<Answer<'a>>,
}

fn block(piece: Piece<'_>) -> Option<Block> {
    Some(match &*piece.kind.0 {
        "text" => Block::Text(own(piece.text)?),
        "thinking" => Block::Thinking(own(piece.thinking)?),
        "tool_use" => Block::ToolUse {
            id: own(piece.id).unwrap_or_default(),
            name: own(piece.name).unwrap_or_default(),
            input: piece.input.unwrap_or_default(),
        },
        "tool_result" => Block::ToolResult {
            id: own(piece.tool_use_id).unwrap_or_default(),
            is_error: piece.is_error.unwrap_or(false),
            text: piece.content.map_or_else(String::new, |answer| answer.0.into_owned()),
        },
        _ => return None,
    })
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Blocks;

        impl<'de> Visitor<'de> for Blocks {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of content blocks")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content(vec![Block::Text(text.to_owned())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(piece) = seq.next_element::<Piece<'de>>()? {
                    blocks.push(block(piece).ok_or_else(|| A::Error::custom("an unusual block"))?);
                }
                Ok(Content(blocks))
            }
        }

        from.deserialize_any(Blocks)
    }
}

/// A tool's answer: a string, or blocks of which only the texts are of use here.
struct Answer<'a>(Cow<'a, str>);

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Answer<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Answer<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of parts")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Answer(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Answer(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut texts: Vec<Cow<'de, str>> = Vec::new();
                while let Some(part) = seq.next_element::<Part<'de>>()? {
                    texts.extend(part.text.map(|text| text.0));
                }
                Ok(Answer(Cow::Owned(texts.join("\n"))))
            }
        }

        from.deserialize_any(Parts)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn recorded() -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let texts = files.map(|file| std::fs::read_to_string(file).unwrap());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    fn whole(line: &str) -> Option<Message> {
        serde_json::from_str(line).ok().map(Message::from_value)
    }

    #[test]
    fn what_was_recorded_is_read_the_same_and_nearly_all_of_it_here() {
        let (mut here, mut all) = (0, 0);
        for line in recorded() {
            all +=
                usize::from(matches!(whole(&line), Some(Message::Assistant(_) | Message::User(_))));
            if let Some(message) = message(&line) {
                here += 1;
                assert_eq!(Some(message), whole(&line), "{line}");
            }
        }
        assert!(here * 10 >= all * 9 && here > 50, "{here} of {all}");
    }

    #[test]
    fn a_system_message_is_passed_over_only_if_it_has_no_meaning() {
        let mut passed = 0;
        for line in recorded() {
            if let Some(over) = passed_over(&line) {
                passed += 1;
                assert!(
                    matches!(whole(&line), Some(Message::Other { kind, .. }) if kind == over),
                    "{line}"
                );
            }
        }
        assert!(passed > 3, "{passed}");
        for subtype in System::SUBTYPES {
            let line = format!(r#"{{"type":"system","subtype":"{subtype}"}}"#);
            assert_eq!(passed_over(&line), None);
            assert!(matches!(whole(&line), Some(Message::System(_))), "{line}");
        }
        for odd in [
            r#"{"type":"system"}"#,
            r#"{"type":"system","subtype":""}"#,
            r#"{"type":"system","subtype":7}"#,
            r#"{"type":"system","subtype":"x"} x"#,
            r#"{"type":"systems","subtype":"x"}"#,
        ] {
            assert_eq!(passed_over(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_unusual_form_is_left_alone() {
        for odd in [
            json!({"type": "assistant"}),
            json!({"type": "assistant", "message": null}),
            json!({"type": "assistant", "message": {"content": null}}),
            json!({"type": "assistant", "message": {"content": [], "usage": null}}),
            json!({"type": "assistant", "message": {"content": [{"type": "image"}]}}),
            json!({"type": "assistant", "message": {"content": [{"type": "text"}]}}),
            json!({"type": "user", "message": {"content": [7]}}),
            json!({"type": "assistant", "error": 7, "message": {"content": []}}),
            json!({"type": "assistant", "message": {"content": [], "usage": {"input_tokens": 1.5}}}),
        ] {
            assert!(message(&odd.to_string()).is_none(), "{odd}");
        }
        assert!(message(r#"{"type":"user","message":{"content":[]}} x"#).is_none());
        assert!(message(r#"{"type":"user","type":"x","message":{"content":[]}}"#).is_none());
    }

    proptest! {
        #[test]
        fn edited_lines_are_read_the_same_or_left_alone(
            which in any::<prop::sample::Index>(),
            at in any::<prop::sample::Index>(),
            with in prop::sample::select(vec![
                "null", "0", "-1", "1.5", "true", "\"\"", "[]", "{}", "\\n", "\\ud800", "\"", ",", ":",
                "text", "tool_use", "x",
            ]),
            cut in 0_usize..8,
        ) {
            let lines = recorded();
            let line = which.get(&lines);
            let start = line.floor_char_boundary(at.index(line.len() + 1));
            let end = line.floor_char_boundary((start + cut).min(line.len()));
            let mut edited = line.clone();
            edited.replace_range(start..end.max(start), with);
            // What is passed over here is not looked at closely: an escape in it may be wrong.
            if let (Some(message), Some(whole)) = (message(&edited), whole(&edited)) {
                prop_assert_eq!(message, whole, "{}", edited);
            }
        }
    }
}
