//! Prints the frames of a session, one a line.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_plugin_host::{FrameTrace, Inbound, TracedMessage};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::plain_line;
use serde_json::{Map, Value};

/// How much of a value is shown, in characters.
const VALUE_MAX: usize = 120;
/// How many keys of a frame are shown.
const KEYS_MAX: usize = 40;
/// Where the keys of a frame go on.
const INDENT: usize = 29;
/// The keys that say which frame it is come first, in this order.
const FIRST: [&str; 8] = ["call", "instance", "request", "kind", "name", "method", "type", "class"];
/// Objects whose keys are shown one by one.
const FLATTENED: [&str; 8] =
    ["task", "event", "report", "context", "input", "agent", "validator", "detector"];

/// Prints frames as they pass. Until it is to begin, lines are held.
pub(super) struct FramePrinter {
    redactor: Redactor,
    state: Mutex<State>,
}

struct State {
    /// The lines that are held.
    held: Option<Vec<String>>,
    began: Instant,
}

impl FramePrinter {
    pub(super) fn new(redactor: Redactor) -> Self {
        let state = State { held: Some(Vec::new()), began: Instant::now() };
        Self { redactor, state: Mutex::new(state) }
    }

    /// Returns what prints each message.
    pub(super) fn trace(self: &Arc<Self>) -> FrameTrace {
        let printer = Arc::clone(self);
        Arc::new(move |message| printer.add(message))
    }

    /// Prints from now on, and what was held if `shows_held`.
    pub(super) fn begin(&self, shows_held: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held = state.held.take().filter(|_| shows_held);
        held.into_iter().flatten().for_each(|line| output::result_folded(&line, INDENT));
        state.began = Instant::now();
    }

    fn add(&self, message: TracedMessage<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (sign, text) = self.describe(message);
        let line = format!("{:>9.3} s {sign} {text}", state.began.elapsed().as_secs_f64());
        match &mut state.held {
            Some(held) => held.push(line),
            None => output::result_folded(&line, INDENT),
        }
    }

    /// Returns the direction of a message and what it says.
    fn describe(&self, message: TracedMessage<'_>) -> (char, String) {
        match message {
            TracedMessage::Sent(frame) => ('>', self.describe_frame(frame)),
            TracedMessage::Received(Inbound::Frame(frame)) => ('<', self.describe_frame(frame)),
            TracedMessage::Received(Inbound::TooLong { bytes }) => {
                ('<', format!("a frame of {bytes} bytes so far, which is too long"))
            }
            TracedMessage::Received(Inbound::Stderr(line)) => ('!', self.show(line)),
            TracedMessage::Received(Inbound::Ended(how)) => ('.', self.show(how)),
        }
    }

    fn describe_frame(&self, frame: &[u8]) -> String {
        let Ok(Value::Object(mut keys)) = serde_json::from_slice(frame) else {
            return format!("no JSON object: {}", self.show(&String::from_utf8_lossy(frame)));
        };
        let name = match keys.remove("frame") {
            Some(Value::String(name)) => self.show(&name),
            _ => "without `frame`".to_owned(),
        };
        let mut words = Vec::new();
        self.describe_keys("", &keys, &mut words);
        let left_out = words.len().saturating_sub(KEYS_MAX);
        words.truncate(KEYS_MAX);
        if left_out > 0 {
            words.push(format!("and {left_out} more keys"));
        }
        format!("{name:<14} {}", words.join("  ")).trim_end().to_owned()
    }

    fn describe_keys(&self, above: &str, keys: &Map<String, Value>, words: &mut Vec<String>) {
        let first = FIRST.iter().filter_map(|key| keys.get_key_value(*key));
        let rest = keys.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
        for (key, value) in first.chain(rest) {
            let path = format!("{above}{}", self.show(key));
            match value {
                Value::Null => {}
                // It is long, the same each time, and where secrets are.
                Value::Object(env) if key == "env" => {
                    words.push(format!("{path}=({} variables)", env.len()));
                }
                Value::Object(keys) if above.is_empty() && FLATTENED.contains(&key.as_str()) => {
                    self.describe_keys(&format!("{path}."), keys, words);
                }
                Value::String(text) => {
                    // Masked before it is cut: half of a secret would not be found.
                    let text = Value::from(self.redactor.text(text).into_owned()).to_string();
                    words.push(format!("{path}={}", plain_line(&text, VALUE_MAX)));
                }
                value => words.push(format!("{path}={}", self.show(&value.to_string()))),
            }
        }
    }

    fn show(&self, text: &str) -> String {
        plain_line(&self.redactor.text(text), VALUE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn described(frame: &str) -> String {
        let vars = BTreeMap::from([("A_TOKEN".to_owned(), "s3cr3t-s3cr3t-\"x".to_owned())]);
        let env = ralph_orchestrator_config::Env::default();
        FramePrinter::new(Redactor::new(&env, &vars)).describe_frame(frame.as_bytes())
    }

    #[test]
    fn shows_what_says_most_first_and_no_variables() {
        let frame = r#"{"frame":"call","instance":1,"call":2,"method":"run","task":
            {"prompt":"Do it.\n","env":{"A":"b","C":"d"},"budget":{"tokens":5}},"none":null}"#;
        let shown = described(frame);
        assert!(
            shown.starts_with("call           call=2  instance=1  method=\"run\"  task."),
            "{shown}"
        );
        for part in
            ["task.budget={\"tokens\":5}", "task.env=(2 variables)", "task.prompt=\"Do it.\\n\""]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("none"), "{shown}");
        assert_eq!(described("oops"), "no JSON object: oops");
        assert_eq!(described("{\"x\":1}"), "without `frame` x=1");
    }

    #[test]
    fn masks_before_it_cuts_and_bounds_the_number_of_keys() {
        for pad in [0, VALUE_MAX - 8, VALUE_MAX - 3] {
            let text = format!("{}s3cr3t-s3cr3t-\\\"x", "y".repeat(pad));
            let frame = format!(r#"{{"frame":"log","message":"{text}","more":["{text}"]}}"#);
            let shown = described(&frame);
            assert!(!shown.contains("s3c"), "{shown}");
        }
        let keys: Vec<String> = (0..KEYS_MAX + 2).map(|n| format!("\"k{n}\":{n}")).collect();
        let shown = described(&format!("{{\"frame\":\"log\",{}}}", keys.join(",")));
        assert!(shown.ends_with("and 2 more keys"), "{shown}");
    }
}
