//! Words of closed sets that a newer plugin may send: the rest of their frame is read without them, such as what an iteration
//! cost, or the claims beside an unknown one.

use ralph_orchestrator_contract::{Claim, ErrorClass, Event};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::log_line::LogLevel;

/// The longest word that is kept, in bytes.
const LONGEST_WORD: usize = 64;

/// A word that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    /// What it stands for, such as `error class`.
    pub place: String,
    /// The word, truncated if it is long.
    pub word: String,
    /// What is known there.
    pub known: Vec<String>,
    /// The word that is read in its place; none if what it belongs to is left out.
    pub instead: Option<&'static str>,
}

impl UnknownWord {
    /// Takes the word from the message of an error; `None` if that says something else.
    fn from_error(message: &str, place: String) -> Option<Self> {
        let mut words = message.strip_prefix("unknown variant `")?.split('`').step_by(2);
        let word = words.next()?;
        let word = word.get(..word.floor_char_boundary(LONGEST_WORD)).unwrap_or(word).to_owned();
        let known = words.map(str::to_owned).collect();
        Some(Self { place, word, known, instead: None })
    }
}

/// Replaces or leaves out the words of a plugin's frame of this name that are not known. Returns them.
pub(crate) fn replace_unknown(name: &str, frame: &mut Map<String, Value>) -> Vec<UnknownWord> {
    let mut found = Vec::new();
    match name {
        "event" => {
            let event = frame.get("event").cloned().unwrap_or_default();
            let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
            let kind = kind.get(..kind.floor_char_boundary(LONGEST_WORD)).unwrap_or(kind);
            let place = format!("word in the event `{kind}`");
            if let Some(unknown) = find_unknown::<Event>(event, place) {
                frame.insert("event".to_owned(), json!({"type": "unknown"}));
                found.push(unknown);
            }
        }
        "failed" => {
            let failed = Value::Object(frame.clone());
            if let Some(unknown) = find_unknown::<ErrorClass>(failed, "error class".to_owned()) {
                frame.insert("class".to_owned(), json!("crashed"));
                found.push(UnknownWord { instead: Some("crashed"), ..unknown });
            }
        }
        "log" => {
            let level = frame.get("level").cloned().unwrap_or_default();
            if let Some(unknown) = find_unknown::<LogLevel>(level, "severity".to_owned()) {
                frame.insert("level".to_owned(), json!("info"));
                found.push(UnknownWord { instead: Some("info"), ..unknown });
            }
        }
        "done" => {
            let findings =
                frame.get_mut("findings").and_then(|findings| findings.get_mut("claims"));
            found.extend(findings.map(retain_known_claims).into_iter().flatten());
            found.extend(frame.get_mut("claims").map(retain_known_claims).into_iter().flatten());
        }
        _ => {}
    }
    found
}

/// Leaves out the claims that have an unknown word. Returns these words.
fn retain_known_claims(claims: &mut Value) -> Vec<UnknownWord> {
    let mut found = Vec::new();
    if let Value::Array(claims) = claims {
        claims.retain(|claim| {
            let unknown = find_unknown::<Claim>(claim.clone(), "word in a claim".to_owned());
            let is_known = unknown.is_none();
            found.extend(unknown);
            is_known
        });
    }
    found
}

/// Returns the word for which a value is none of this type.
fn find_unknown<T: DeserializeOwned>(value: Value, place: String) -> Option<UnknownWord> {
    let error = serde_json::from_value::<T>(value).err()?;
    UnknownWord::from_error(&error.to_string(), place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_and_what_is_known_are_taken_from_the_message() {
        let table = [
            ("unknown variant `partly`, expected `complete` or `needs_human`", "partly", 2),
            ("unknown variant `x`, expected one of `a`, `b`, `c` at line 1 column 9", "x", 3),
        ];
        for (message, word, known) in table {
            let found = UnknownWord::from_error(message, "kind".to_owned()).unwrap();
            assert_eq!((found.word.as_str(), found.known.len()), (word, known), "{found:?}");
        }
        assert_eq!(UnknownWord::from_error("missing field `kind`", String::new()), None);
    }
}
