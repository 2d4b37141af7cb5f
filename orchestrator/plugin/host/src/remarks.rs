//! What is noticed in a plugin's sessions and closes none of them, for the plugin's author.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ralph_orchestrator_contract::Capabilities;
use ralph_orchestrator_plugin_protocol::{MethodName, UnknownWord};
use serde_json::Value;

/// The number of different names that are kept.
const MAX_NAMES: usize = 32;
/// The longest name that is kept, in characters.
const MAX_NAME: usize = 64;
const UNKNOWN_FRAME: &str = "the unknown frame";
/// The frames of a plugin.
const FRAMES: [&str; 12] = [
    "hello",
    "opened",
    "refused",
    "event",
    "preview",
    "write_check",
    "take_guidance",
    "done",
    "failed",
    "panicked",
    "log",
    "pong",
];
/// The types of events.
const EVENTS: [&str; 14] = [
    "session",
    "text",
    "thinking",
    "tool_call",
    "tool_result",
    "usage",
    "context",
    "rate_window",
    "claim",
    "note",
    "waiting",
    "stderr",
    "raw",
    "warning",
];

/// What is noticed in the sessions of a plugin: what is ignored of it because a newer version may send it, and which calls
/// it never answered.
#[derive(Debug, Default)]
pub struct PluginRemarks {
    is_library: bool,
    noticed: Mutex<Noticed>,
}

#[derive(Debug, Default)]
struct Noticed {
    /// How often each unknown name came.
    ignored: BTreeMap<String, u64>,
    /// What came for the first time since the user was told.
    fresh: Vec<String>,
    unanswered: BTreeSet<String>,
}

impl PluginRemarks {
    pub(crate) fn new(is_library: bool) -> Self {
        Self { is_library, noticed: Mutex::default() }
    }

    /// Whether the plugin is a library, whose frames do not come from its standard output.
    pub(crate) const fn is_library(&self) -> bool {
        self.is_library
    }

    fn noticed(&self) -> MutexGuard<'_, Noticed> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ignore(&self, what: &str, name: &str, known: &[&str]) {
        self.notice(what, name, known, "is ignored");
    }

    /// Notices a name, and what becomes of it.
    fn notice(&self, what: &str, name: &str, known: &[&str], becomes: &str) {
        let name: String = name.chars().take(MAX_NAME).flat_map(char::escape_debug).collect();
        let hint = match nearest(&name, known) {
            Some(known) => format!("; did you mean `{known}`?"),
            None => String::new(),
        };
        let fresh = format!("{what} `{name}`, which {becomes}{hint}");
        let text = format!("{what} `{name}`{hint}");
        let mut noticed = self.noticed();
        if noticed.ignored.len() < MAX_NAMES || noticed.ignored.contains_key(&text) {
            let times = noticed.ignored.entry(text).or_default();
            *times += 1;
            if *times == 1 {
                noticed.fresh.push(fresh);
            }
        }
    }

    pub(crate) fn ignore_frame(&self, name: &str) {
        self.ignore(UNKNOWN_FRAME, name, &FRAMES);
    }

    /// Notices a word that is not known in a frame that is.
    pub(crate) fn ignore_word(&self, unknown: &UnknownWord) {
        let known: Vec<&str> = unknown.known.iter().map(String::as_str).collect();
        let becomes = match unknown.instead {
            Some(instead) => format!("is taken for `{instead}`"),
            None => "is ignored".to_owned(),
        };
        self.notice(&format!("the unknown {}", unknown.place), &unknown.word, &known, &becomes);
    }

    /// Returns what came for the first time since the last time, for the user: a frame may have come in the place of an answer.
    pub(crate) fn take_fresh(&self) -> Vec<String> {
        std::mem::take(&mut self.noticed().fresh)
    }

    /// Returns the unknown frames to append to a message on an answer that did not come.
    pub(crate) fn frames_instead(&self) -> String {
        let noticed = self.noticed();
        let frames = noticed.ignored.keys().filter(|text| text.starts_with(UNKNOWN_FRAME));
        let frames: Vec<&str> = frames.map(String::as_str).collect();
        if frames.is_empty() { String::new() } else { format!("; it sent {}", frames.join(", ")) }
    }

    /// Notices the unknown type of an event, in the frame of the event.
    pub(crate) fn ignore_event(&self, frame: &[u8]) {
        let frame: Value = serde_json::from_slice(frame).unwrap_or_default();
        if let Some(name) = frame.pointer("/event/type").and_then(Value::as_str) {
            self.ignore("the unknown event type", name, &EVENTS);
        }
    }

    /// Notices unknown capabilities, in the frame that describes an agent.
    pub(crate) fn ignore_capabilities(&self, frame: &[u8]) {
        let frame: Value = serde_json::from_slice(frame).unwrap_or_default();
        let known = serde_json::to_value(Capabilities::default()).unwrap_or_default();
        let known: Vec<&str> =
            known.as_object().into_iter().flatten().map(|(key, _)| &**key).collect();
        let promised = frame.pointer("/agent/capabilities").and_then(Value::as_object);
        for (name, _) in promised.into_iter().flatten() {
            if !known.contains(&&**name) {
                self.ignore("the unknown capability", name, &known);
            }
        }
    }

    pub(crate) fn unanswered(&self, call: u64, method: MethodName) {
        let word = method.word();
        let text =
            format!("call {call} of `{word}` was never answered by `done`, `failed` or `panicked`");
        let mut noticed = self.noticed();
        if noticed.unanswered.len() < MAX_NAMES {
            noticed.unanswered.insert(text);
        }
    }

    /// Returns what was ignored and which calls were not answered since the last time, for display.
    #[must_use]
    pub fn take(&self) -> (Vec<String>, Vec<String>) {
        let Noticed { ignored, unanswered, .. } = std::mem::take(&mut *self.noticed());
        let ignored = ignored.into_iter().map(|(text, count)| match count {
            1 => format!("ignored: {text}"),
            count => format!("ignored {count} times: {text}"),
        });
        (ignored.collect(), unanswered.into_iter().collect())
    }
}

/// Returns the known name that is meant, if one is at most two edits away.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let most = if name.chars().count() < 4 { 1 } else { 2 };
    let distances = known.iter().map(|known| (strsim::osa_distance(name, known), *known));
    distances.filter(|(edits, _)| *edits <= most).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_no_distant_one() {
        assert_eq!(nearest("txt", &EVENTS), Some("text"));
        assert_eq!(nearest("tool_cals", &["tokens", "tool_calls"]), Some("tool_calls"));
        assert_eq!(nearest("agnet", &["agent", "detector"]), Some("agent"));
        assert_eq!(nearest("result", &FRAMES), None);
        assert_eq!(nearest("", &FRAMES), None);
    }

    #[test]
    fn what_is_ignored_is_counted_once_for_each_name_and_bounded() {
        let remarks = PluginRemarks::new(false);
        for number in 0..100 {
            remarks.ignore_frame("result");
            remarks.ignore_frame(&format!("number {number}"));
        }
        let fresh = remarks.take_fresh();
        assert_eq!(fresh.first().unwrap(), "the unknown frame `result`, which is ignored");
        assert_eq!((fresh.len(), remarks.take_fresh().len()), (MAX_NAMES, 0));
        remarks.unanswered(1, MethodName::Run);
        let (ignored, unanswered) = remarks.take();
        assert_eq!(ignored.len(), MAX_NAMES);
        assert!(ignored.contains(&"ignored 100 times: the unknown frame `result`".to_owned()));
        assert_eq!(unanswered.len(), 1);
        assert_eq!(remarks.take(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn every_type_of_event_is_known() {
        let schema: Value =
            serde_json::from_str(include_str!("../../../../schemas/plugin-frames.schema.json"))
                .unwrap();
        let text = schema.to_string();
        for name in EVENTS.iter().chain(&FRAMES) {
            assert!(text.contains(&format!("\"const\":\"{name}\"")), "{name}");
        }
    }
}
