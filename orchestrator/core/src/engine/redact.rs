//! Keeping secrets out of what is written down and shown.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::environment;
use crate::config::Env;
use crate::contract::{AgentError, Event, Report};
use crate::machine::Input;

/// What stands where a secret was.
const STARS: &str = "***";
/// Shorter values would be found in text that has nothing to do with them.
const SHORTEST: usize = 6;
/// What the names of variables with secrets end with.
const SECRET_NAMES: [&str; 4] = ["_KEY", "_TOKEN", "_SECRET", "PASSWORD"];

/// Knows the secrets of a run: the values of variables that are passed by name, and of those whose
/// names say that they are secrets.
#[derive(Clone, Default)]
pub(super) struct Redactor {
    /// The secrets, and the forms that they take inside JSON.
    secrets: Vec<String>,
    finder: Option<AhoCorasick>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

impl Redactor {
    /// For agents and validators with this environment.
    pub(super) fn new(env: &Env, vars: &BTreeMap<String, String>) -> Self {
        let secret = |name: &str| {
            SECRET_NAMES.iter().any(|end| name.to_ascii_uppercase().ends_with(end))
                || environment::is_passed_as_secret(env, name)
        };
        let values = vars.iter().filter(|(name, _)| secret(name)).map(|(_, value)| value);
        Self::of(values.map(String::as_str))
    }

    fn of<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut secrets = Vec::new();
        for value in values {
            // What is read by lines shows a value of several lines one by one.
            for part in [value, value.trim()].into_iter().chain(value.lines().map(str::trim)) {
                if part.chars().count() >= SHORTEST {
                    let json = Value::from(part).to_string();
                    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
                    secrets.extend([part.to_owned(), inner.unwrap_or(part).to_owned()]);
                }
            }
        }
        secrets.sort();
        secrets.dedup();
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&secrets);
        Self { finder: finder.ok().filter(|_| !secrets.is_empty()), secrets }
    }

    /// The text without secrets.
    pub(super) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.finder {
            Some(finder) if finder.is_match(text) => {
                Cow::Owned(finder.replace_all(text, &vec![STARS; self.secrets.len()]))
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// The same without secrets in any of its texts.
    pub(super) fn all_of<T: Serialize + DeserializeOwned>(&self, whole: T) -> T {
        if self.finder.is_none() {
            return whole;
        }
        let Ok(mut value) = serde_json::to_value(&whole) else { return whole };
        if !self.value(&mut value) {
            return whole;
        }
        // Only a secret that is one of our own words, such as "accepted", could make it unreadable.
        serde_json::from_value(value).unwrap_or(whole)
    }

    /// Whether there was a secret in it.
    fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let Cow::Owned(redacted) = self.text(text) else { return false };
                *text = redacted;
                true
            }
            Value::Array(list) => list.iter_mut().fold(false, |any, item| self.value(item) | any),
            Value::Object(map) => map.values_mut().fold(false, |any, item| self.value(item) | any),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// What the machine is told, so that the state never holds what the journal must not.
    pub(super) fn input(&self, mut input: Input) -> Input {
        match &mut input {
            Input::ClaimsFound(claims) => *claims = self.all_of(std::mem::take(claims)),
            Input::Looked(look) => {
                look.near_misses = self.all_of(std::mem::take(&mut look.near_misses));
            }
            Input::Noted(text) => *text = self.text(text).into_owned(),
            Input::AgentOut(reason) => *reason = self.text(reason).into_owned(),
            Input::Judged { reasons, .. } => *reasons = self.all_of(std::mem::take(reasons)),
            Input::ClaimSeen(claim) => claim.text = self.text(&claim.text).into_owned(),
            Input::Ended(ended) => {
                ended.outcome = self.all_of(ended.outcome.clone());
                ended.left_behind = self.all_of(std::mem::take(&mut ended.left_behind));
                ended.survived = self.all_of(std::mem::take(&mut ended.survived));
            }
            Input::Survived(message) => *message = self.text(message).into_owned(),
            Input::BaselineChecked(check) => {
                check.verdicts = self.all_of(std::mem::take(&mut check.verdicts));
            }
            Input::Validated(validation) => {
                validation.verdicts = self.all_of(std::mem::take(&mut validation.verdicts));
                validation.tampering = self.all_of(std::mem::take(&mut validation.tampering));
            }
            Input::Warn(message) => *message = self.text(message).into_owned(),
            Input::Started(_)
            | Input::WorkspaceMade(_)
            | Input::Used(_)
            | Input::ContextSeen(_)
            | Input::Rested
            | Input::NotLooked
            | Input::Prepared { .. }
            | Input::Timer(_)
            | Input::Signal => {}
        }
        input
    }

    /// What an iteration came to.
    pub(super) fn result(&self, result: Result<Report, AgentError>) -> Result<Report, AgentError> {
        result.map(|report| self.all_of(report)).map_err(|error| self.all_of(error))
    }

    /// How much of the end of a text may be the beginning of a secret.
    fn open_end(&self, text: &str) -> usize {
        let of = |secret: &String| {
            let longest = secret.len().saturating_sub(1).min(text.len());
            let begins = |len: &usize| {
                secret.as_bytes().get(..*len).is_some_and(|begin| text.as_bytes().ends_with(begin))
            };
            (1..=longest).rev().find(begins).unwrap_or(0)
        };
        self.secrets.iter().map(of).max().unwrap_or(0)
    }

    /// The beginning of `text` that is complete, without secrets; what may be the beginning of a secret
    /// stays.
    fn ready(&self, text: &mut String) -> String {
        let mut cut = text.len().saturating_sub(self.open_end(text));
        let finder = self.finder.as_ref();
        let found = finder.into_iter().flat_map(|finder| finder.find_iter(text.as_str()));
        if let Some(across) = found.into_iter().find(|m| m.start() < cut && m.end() > cut) {
            cut = across.end();
        }
        let rest = if text.is_char_boundary(cut) { text.split_off(cut) } else { String::new() };
        let ready = std::mem::replace(text, rest);
        self.text(&ready).into_owned()
    }
}

/// Takes the secrets out of the events of one iteration, those too that come in two pieces.
#[derive(Debug)]
pub(super) struct Events {
    redactor: Redactor,
    text: String,
    thinking: String,
}

impl Events {
    pub(super) const fn new(redactor: Redactor) -> Self {
        Self { redactor, text: String::new(), thinking: String::new() }
    }

    /// What may be told after this event.
    pub(super) fn next(&mut self, event: Event) -> Vec<Event> {
        if self.redactor.finder.is_none() {
            return vec![event];
        }
        match event {
            Event::Text { text } => {
                self.text.push_str(&text);
                let text = self.redactor.ready(&mut self.text);
                if text.is_empty() { Vec::new() } else { vec![Event::Text { text }] }
            }
            Event::Thinking { text } => {
                self.thinking.push_str(&text);
                let text = self.redactor.ready(&mut self.thinking);
                if text.is_empty() { Vec::new() } else { vec![Event::Thinking { text }] }
            }
            // They come between two pieces of one text.
            Event::Raw { .. }
            | Event::Usage { .. }
            | Event::Context { .. }
            | Event::Stderr { .. } => {
                vec![self.redactor.all_of(event)]
            }
            other => {
                let mut events = self.rest();
                events.push(self.redactor.all_of(other));
                events
            }
        }
    }

    /// What was kept back.
    pub(super) fn rest(&mut self) -> Vec<Event> {
        let take = |text: &mut String| {
            let whole = std::mem::take(text);
            Some(self.redactor.text(&whole).into_owned()).filter(|text| !text.is_empty())
        };
        let thinking = take(&mut self.thinking).map(|text| Event::Thinking { text });
        let text = take(&mut self.text).map(|text| Event::Text { text });
        thinking.into_iter().chain(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "sk-abcabd";

    fn redactor() -> Redactor {
        Redactor::of([SECRET, "five!", "of\n\"two lines\""].into_iter())
    }

    fn told(pieces: &[&str]) -> String {
        let mut events = Events::new(redactor());
        let mut all: Vec<Event> = pieces
            .iter()
            .flat_map(|text| events.next(Event::Text { text: (*text).to_owned() }))
            .collect();
        all.extend(events.rest());
        let text = |event: &Event| match event {
            Event::Text { text } => text.clone(),
            other => panic!("{other:?}"),
        };
        all.iter().map(text).collect()
    }

    #[test]
    fn passed_and_telling_names_are_secret_and_what_everybody_gets_is_not() {
        let env = Env { pass: vec!["MINE".into(), "MY_*".into(), "HOME".into()], ..Env::default() };
        let names = ["MINE", "MY_OWN", "HOME", "A_KEY", "a_token", "DB_PASSWORD", "OTHER"];
        let vars = names.map(|name| (name.to_owned(), format!("value-of-{name}")));
        let redactor = Redactor::new(&env, &vars.into());
        for name in names {
            let value = format!("value-of-{name}");
            let kept = ["HOME", "OTHER"].contains(&name);
            assert_eq!(redactor.text(&value) == value, kept, "{name}");
        }
        assert!(!format!("{redactor:?}").contains("value"));
    }

    #[test]
    fn short_values_and_other_text_stay() {
        for text in ["five!", "sk-abcab", "nothing"] {
            assert_eq!(redactor().text(text), text);
        }
        assert_eq!(redactor().text("a sk-abcabd, b"), "a ***, b");
    }

    #[test]
    fn forms_inside_json_and_single_lines_are_found() {
        let line = json!({"a": "of\n\"two lines\""}).to_string();
        assert_eq!(redactor().text(&line), "{\"a\":\"***\"}");
        assert_eq!(redactor().text("said \"two lines\" there"), "said *** there");
    }

    #[test]
    fn nothing_else_is_changed_in_what_is_nested() {
        let event = |text: &str| Event::ToolCall {
            id: "1".into(),
            name: "Bash".into(),
            input: json!({"command": [text, 7, null, {"deep": text}]}),
        };
        assert_eq!(Events::new(redactor()).next(event("x sk-abcabd")), [event("x ***")]);
        let event = |text: &str| Event::ToolResult {
            id: "1".into(),
            is_error: false,
            text: text.to_owned(),
        };
        assert_eq!(Events::new(redactor()).next(event("x sk-abcabd")), [event("x ***")]);
    }

    #[test]
    fn a_secret_in_two_pieces_is_found_whatever_comes_between() {
        let mut events = Events::new(redactor());
        assert_eq!(events.next(Event::Text { text: "it is sk-ab".into() }).len(), 1);
        let between = Event::Stderr { text: "hm".into() };
        assert_eq!(events.next(between.clone()), [between]);
        let end = events.next(Event::Text { text: "cabd.".into() });
        assert_eq!(end, [Event::Text { text: "***.".into() }]);
        // What only began like one is told before the next thing that happens.
        assert!(events.next(Event::Text { text: "sk-".into() }).is_empty());
        let call = Event::Warning { message: "w".into() };
        assert_eq!(events.next(call.clone()), [Event::Text { text: "sk-".into() }, call]);
    }

    proptest! {
        #[test]
        fn wherever_text_is_cut_the_same_is_told(
            text in "(sk-abcabd|sk-abc|é|sk-|x| ){0,12}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.retain(|cut| text.is_char_boundary(*cut));
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| text.get(pair[0]..pair[1]).unwrap()).collect();
            let told = told(&pieces);
            prop_assert_eq!(&told, &text.replace(SECRET, STARS));
            prop_assert!(!told.contains(SECRET));
        }
    }
}
