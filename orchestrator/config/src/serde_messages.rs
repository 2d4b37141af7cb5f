//! Rewords the messages of deserialization.

use figment::error::{Actual, Kind};

/// What is wrong with the value, or the name, at some path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeserializeIssue {
    pub(crate) message: String,
    /// The mistake is the name of this key.
    pub(crate) unknown_key: Option<String>,
    /// A name was wrong: this one, where one of `names` was expected.
    pub(crate) name: Option<String>,
    pub(crate) names: Vec<String>,
    /// The mistake is that this key is not there.
    pub(crate) missing_key: Option<String>,
}

impl DeserializeIssue {
    fn plain(message: String) -> Self {
        Self { message, unknown_key: None, name: None, names: Vec::new(), missing_key: None }
    }

    fn missing_key(key: &str) -> Self {
        let missing_key = Some(key.to_owned());
        Self { missing_key, ..Self::plain(format!("`{key}` is missing")) }
    }

    pub(crate) fn unknown_key(key: &str, names: Vec<String>) -> Self {
        let (unknown_key, name) = (Some(key.to_owned()), Some(key.to_owned()));
        Self { unknown_key, name, names, ..Self::plain("unknown key".to_owned()) }
    }

    fn unknown_word(word: &str, names: Vec<String>) -> Self {
        let all = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>();
        let message = format!("expected {}, found {word:?}", all.join(" or "));
        Self { name: Some(word.to_owned()), names, ..Self::plain(message) }
    }
}

/// Rewords an error of figment's.
pub(crate) fn from_figment(kind: &Kind) -> DeserializeIssue {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    match kind {
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            mismatch(&found(actual), expected)
        }
        Kind::UnknownField(name, names) => DeserializeIssue::unknown_key(name, owned(names)),
        Kind::UnknownVariant(name, names) => DeserializeIssue::unknown_word(name, owned(names)),
        Kind::MissingField(name) => DeserializeIssue::missing_key(name),
        Kind::Message(message) => DeserializeIssue::plain(message.clone()),
        other => DeserializeIssue::plain(other.to_string()),
    }
}

/// Rewords a message of serde's, as adapters, detectors and validators return it.
pub(crate) fn from_message(message: &str) -> DeserializeIssue {
    let mismatched = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    if let Some((actual, expected)) = mismatched {
        return mismatch(&found_text(actual), expected);
    }
    let names = || {
        let expected = message.split_once(", expected ").map_or("", |(_, names)| names);
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let first = |prefix| {
        let rest = message.strip_prefix(prefix)?;
        rest.split_once('`').map(|(name, _)| name)
    };
    if let Some(name) = first("unknown field `") {
        return DeserializeIssue::unknown_key(name, names());
    }
    if let Some(name) = first("unknown variant `") {
        return DeserializeIssue::unknown_word(name, names());
    }
    if let Some(name) = first("missing field `") {
        return DeserializeIssue::missing_key(name);
    }
    DeserializeIssue::plain(message.to_owned())
}

fn mismatch(found: &str, expected: &str) -> DeserializeIssue {
    DeserializeIssue::plain(format!("expected {}, found {found}", expectation(expected)))
}

fn expectation(expected: &str) -> &str {
    match expected {
        "string" | "a borrowed string" => "a string",
        "path string" => "a path",
        "a boolean" => "true or false",
        "u8" | "u16" | "u64" | "usize" => "a whole number, 0 or more",
        "u32" => "a whole number from 0 to 4294967295",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "an array",
        "a map" => "a table",
        text if text.starts_with("struct ") => "a table",
        text => text,
    }
}

/// Longer texts say no more.
const MAX_FOUND: usize = 60;

fn quoted(text: &str) -> String {
    let cut = text.char_indices().nth(MAX_FOUND).and_then(|(end, _)| text.get(..end));
    cut.map_or_else(|| format!("{text:?}"), |start| format!("{start:?}…"))
}

fn found(actual: &Actual) -> String {
    match actual {
        Actual::Bool(truth) => truth.to_string(),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => format!("{number:?}"),
        Actual::Str(text) => quoted(text),
        Actual::Seq => "an array".to_owned(),
        Actual::Map => "a table".to_owned(),
        Actual::Unit | Actual::Option => "nothing".to_owned(),
        other => other.to_string(),
    }
}

fn found_text(actual: &str) -> String {
    match actual {
        "map" => "a table".to_owned(),
        "sequence" => "an array".to_owned(),
        "null" | "unit value" => "nothing".to_owned(),
        _ => {
            let ticked = actual.split_once('`').and_then(|(_, rest)| rest.strip_suffix('`'));
            let string = actual.strip_prefix("string ");
            ticked.or(string).unwrap_or(actual).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "lowercase")]
    struct Sample {
        text: String,
        number: u64,
        ratio: f64,
        list: Vec<bool>,
        word: Word,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Text,
        Json,
    }

    #[test]
    fn both_read_what_is_right() {
        let value = json!({"text": "a", "number": 1, "ratio": 0.5, "list": [true], "word": "json"});
        let figment = figment::value::Value::serialize(&value).unwrap();
        let of_figment = Sample::deserialize(&figment).unwrap();
        let right = Sample {
            text: "a".to_owned(),
            number: 1,
            ratio: 0.5,
            list: vec![true],
            word: Word::Json,
        };
        assert_eq!(of_figment, right);
        let other = Sample { word: Word::Text, ..right };
        let value = json!({"text": "a", "number": 1, "ratio": 0.5, "list": [true], "word": "text"});
        assert_eq!(serde_json::from_value::<Sample>(value).unwrap(), other);
    }

    /// serde_json's words and figment's have to become the same.
    fn both<T: DeserializeOwned + std::fmt::Debug>(value: Value) -> DeserializeIssue {
        let figment = figment::value::Value::serialize(&value).unwrap();
        let structured = from_figment(&T::deserialize(&figment).unwrap_err().kind);
        let text = from_message(&serde_json::from_value::<T>(value).unwrap_err().to_string());
        assert_eq!(structured, text);
        text
    }

    #[test]
    fn the_same_words_from_text_and_from_kinds() {
        let said = |value| both::<Sample>(value).message;
        assert_eq!(said(json!({"text": 7})), "expected a string, found 7");
        assert_eq!(said(json!({"text": true})), "expected a string, found true");
        assert_eq!(said(json!({"text": 2.5})), "expected a string, found 2.5");
        assert_eq!(said(json!({"text": [1]})), "expected a string, found an array");
        assert_eq!(said(json!({"text": {}})), "expected a string, found a table");
        assert_eq!(
            said(json!({"number": "a, expected `b`"})),
            "expected a whole number, 0 or more, found \"a, expected `b`\""
        );
        assert_eq!(said(json!({"number": -1})), "expected a whole number, 0 or more, found -1");
        assert_eq!(said(json!({"ratio": "x"})), "expected a number, found \"x\"");
        assert_eq!(said(json!({"list": 1})), "expected an array, found 1");
        assert_eq!(said(json!({"list": [1]})), "expected true or false, found 1");
        assert_eq!(said(json!({})), "`text` is missing");
        assert_eq!(said(json!({"word": "jsn"})), r#"expected "text" or "json", found "jsn""#);
        assert_eq!(said(json!("x")), "expected a table, found \"x\"");

        let unknown = both::<Sample>(json!({"txt": 1}));
        assert_eq!(unknown.unknown_key.as_deref(), Some("txt"));
        assert_eq!(unknown.names, ["text", "number", "ratio", "list", "word"]);
    }

    #[test]
    fn what_is_no_message_of_serde_stays_as_it_is() {
        let message = "no program `x` on the PATH, expected `y`";
        assert_eq!(from_message(message), DeserializeIssue::plain(message.to_owned()));
    }

    #[test]
    fn long_text_is_cut() {
        let actual = Actual::Str("é".repeat(61));
        assert_eq!(found(&actual), format!("\"{}\"…", "é".repeat(60)));
    }
}
