//! Text for a terminal: short, and harmless whatever an agent printed.

use std::fmt::Write as _;

use orchestrator::contract::{CancelReason, Capabilities};
use orchestrator::machine::{Outcome, Trigger};
use serde_json::Value;

/// What a completion rests on if no required validator runs anything.
pub(crate) const EVIDENCE_ONLY: &str = "by evidence files only: written by the agent itself";

/// Control characters made visible; tabs and line ends stay. What an agent prints must not move the
/// cursor, change the title, or hide text.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let harmless = matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c));
        if harmless {
            safe.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        }
    }
    safe
}

/// Characters that change how others are shown.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The text in one line of at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = escape(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The text in lines of at most `width` characters, each after `indent`. A word that is longer has a
/// line of its own.
pub(crate) fn wrap(text: &str, indent: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let more = word.chars().count();
        match lines.last_mut() {
            Some(line) if length + 1 + more <= width => {
                line.push(' ');
                line.push_str(word);
                length += 1 + more;
            }
            _ => {
                lines.push(format!("{indent}{word}"));
                length = indent.chars().count() + more;
            }
        }
    }
    lines
}

/// Milliseconds for people.
pub(crate) fn duration(ms: u64) -> String {
    let (seconds, tenths) = (ms / 1000, ms % 1000 / 100);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}.{tenths} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// How an iteration ended.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded => "ended".into(),
        Outcome::Failed { class, message } => {
            format!("FAILED ({class}): {}", one_line(message, 300))
        }
        Outcome::Deferred { class, message, .. } => {
            format!("put off ({class}): {}", one_line(message, 200))
        }
        Outcome::Bounded { message } => {
            format!("ended by the agent's own limit: {}", one_line(message, 200))
        }
        Outcome::Lost => "LOST (the orchestrator was gone)".into(),
        Outcome::Cut { reason } => format!(
            "CUT by {}",
            match reason {
                CancelReason::Timeout => "limits.iteration_timeout",
                CancelReason::Idle => "limits.idle_timeout",
                CancelReason::MaxRuntime => "limits.max_runtime",
                CancelReason::MaxCost => "limits.max_cost_usd",
                CancelReason::MaxTokens => "limits.max_tokens",
                CancelReason::Signal => "a signal",
            }
        ),
    }
}

/// Why an iteration began.
pub(crate) const fn trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Initial => "initial",
        Trigger::Continued => "continued",
        Trigger::Rejected => "rejected",
        Trigger::Failed => "failed",
        Trigger::Resumed => "resumed",
    }
}

/// What an agent can do, in words.
pub(crate) fn abilities(can: &Capabilities) -> Vec<&'static str> {
    let named = [
        (can.free, "free"),
        (can.cost && !can.free, "cost"),
        (can.tokens, "tokens"),
        (can.context, "context"),
        (can.interrupt, "interrupt"),
        (can.handoff, "hand-off"),
        (can.in_session_validation, "in-session validation"),
        (can.resume, "resume"),
    ];
    named.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect()
}

/// How full a context is, such as `71 %` or `123k tokens`.
pub(crate) fn fullness(used: u64, window: Option<u64>) -> String {
    match window.filter(|window| *window > 0) {
        Some(window) => format!("{} %", used.saturating_mul(100) / window),
        None => format!("{}k tokens", used / 1000),
    }
}

/// A tool call in one line: the argument that says most.
pub(crate) fn tool_line(name: &str, input: &Value) -> String {
    let telling =
        ["command", "file_path", "path", "pattern", "query", "url", "description", "prompt"];
    let argument =
        telling.iter().find_map(|key| input.get(key).and_then(Value::as_str)).map_or_else(
            || if input.is_null() { String::new() } else { input.to_string() },
            str::to_owned,
        );
    format!("[{}] {}", one_line(name, 40), one_line(&argument, 160))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        let hostile = "a\x1b]0;title\x07b\r\x1b[2Jc\u{202e}d\u{9b}31m";
        let safe = escape(hostile);
        assert!(safe.chars().all(|c| !c.is_control()), "{safe}");
        assert_eq!(escape("plain\n\ttext"), "plain\n\ttext");
    }

    #[test]
    fn lines_are_bounded() {
        assert_eq!(one_line("a\nb   c", 10), "a b c");
        assert_eq!(one_line(&"é".repeat(1000), 5).chars().count(), 5);
    }

    #[test]
    fn wrapped_lines_keep_to_their_width() {
        let text = "one two  three four five supercalifragilistic six";
        assert_eq!(
            wrap(text, "  ", 12),
            ["  one two", "  three four", "  five", "  supercalifragilistic", "  six"]
        );
        assert!(wrap(" ", "  ", 12).is_empty());
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(1_234), "1.2 s");
        assert_eq!(duration(62_000), "1 min 2 s");
        assert_eq!(duration(7_260_000), "2 h 1 min");
    }
}
