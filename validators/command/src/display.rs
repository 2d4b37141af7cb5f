//! Output and commands as they are shown to agents and people.

use ralph_orchestrator_shell_text::quote_command;
use ralph_orchestrator_supervisor::{Capture, CaptureLimit};
use ralph_orchestrator_text::{escape, escape_line, strip_escape_sequences};

/// How many lines of output a reason quotes.
const TAIL_LINES: usize = 40;
/// How many bytes of output a reason quotes, before control characters are made visible.
const TAIL_BYTES: usize = 4 * 1024;
/// How many bytes of one line a reason quotes.
const LINE_BYTES: usize = 512;

/// The end of an output.
#[derive(Debug)]
pub(crate) struct Tail {
    capture: Capture,
}

impl Tail {
    pub(crate) fn new() -> Self {
        Self { capture: Capture::new(CaptureLimit { head: 0, tail: TAIL_BYTES }) }
    }

    /// Takes the next piece.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.capture.push(bytes);
    }

    /// The last lines, introduced, with control characters made visible; a sentence if there are
    /// none.
    pub(crate) fn show(self) -> String {
        let captured = self.capture.finish();
        let text = String::from_utf8_lossy(&captured.tail);
        let mut lines: Vec<&str> = text.lines().collect();
        let mut cut = captured.cut > 0;
        if cut && lines.len() > 1 {
            // The first of them has lost its beginning.
            lines.remove(0);
        }
        let surplus = lines.len().saturating_sub(TAIL_LINES);
        cut = cut || surplus > 0;
        let lines: Vec<String> =
            lines.into_iter().skip(surplus).map(|line| format!("    {}", shorten(line))).collect();
        match (lines.is_empty(), cut) {
            (true, _) => "It printed nothing.".to_owned(),
            (false, true) => format!("The end of its output:\n{}", lines.join("\n")),
            (false, false) => format!("Its output:\n{}", lines.join("\n")),
        }
    }
}

fn shorten(line: &str) -> String {
    // No more of a line than can be shown is escaped.
    let end = line.floor_char_boundary(LINE_BYTES);
    let mut shown = escape(&strip_escape_sequences(line.get(..end).unwrap_or_default()));
    let end = shown.floor_char_boundary(LINE_BYTES);
    if end < shown.len() || line.len() > LINE_BYTES {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// Returns a command as one would type it, with what must not be shown made visible.
pub(crate) fn typed(program: &[String]) -> String {
    escape_line(&quote_command(program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ralph_orchestrator_text::is_printable;

    fn tail(pieces: &[&[u8]]) -> String {
        let mut tail = Tail::new();
        pieces.iter().for_each(|piece| tail.push(piece));
        tail.show()
    }

    #[test]
    fn the_tail_is_bounded_and_says_that_it_was_cut() {
        assert_eq!(tail(&[]), "It printed nothing.");
        assert_eq!(tail(&[b"on", b"ly\r\n\xFF"]), "Its output:\n    only\n    \u{FFFD}");
        let lines: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let shown = tail(&[lines.as_bytes()]);
        assert!(shown.starts_with("The end of its output:\n    line 60\n"), "{shown}");
        assert!(shown.ends_with("line 99"), "{shown}");
        let shown = tail(&[&[b'x'; 3000], b"\n", &[b'y'; 4000]]);
        assert!(shown.starts_with("The end of its output:\n    yyy"), "{shown}");
        assert!(shown.ends_with("yyy…"), "{shown}");
    }

    #[test]
    fn what_is_not_seen_is_made_visible() {
        let shown = tail(&["a\tb\u{1b}[31m\r\u{202e}é ok\u{e0069}\u{e0067}\u{200b}".as_bytes()]);
        let line = "a\tb\\r\\u{202e}é ok\\u{e0069}\\u{e0067}\\u{200b}";
        assert_eq!(shown, format!("Its output:\n    {line}"));
    }

    proptest! {
        #[test]
        fn whatever_is_printed_the_quote_is_bounded_and_clean(
            lines in prop::collection::vec(any::<String>(), 0..60), long in 0..10_000_usize,
        ) {
            let text = format!("{}\n{}", lines.join("\n"), "\u{1b}".repeat(long));
            let shown = tail(&[text.as_bytes()]);
            prop_assert!(shown.len() < TAIL_LINES * (LINE_BYTES + 8) + 64);
            prop_assert!(shown.chars().all(|c| c == '\n' || c == '\t' || is_printable(c)));
        }
    }
}
