//! Plain text: everything on standard output is the agent's own text.

use ralph_adapter_common::error_text::classify_last_words;
use ralph_adapter_common::{Actions, ProcessEnd, ProcessHandler};
use ralph_orchestrator_contract::{AgentError, ErrorClass, Event, Report};
use ralph_orchestrator_text::plain_line;

use crate::tail::TextTail;
use crate::utf8::Decoder;

/// How much of a failed agent's last line its message quotes, in characters.
const LAST_LINE_MAX: usize = 300;

/// Passes output on piece by piece, not line by line, and keeps its end.
#[derive(Debug, Default)]
pub(super) struct TextHandler {
    actions: Actions,
    decoder: Decoder,
    tail: TextTail,
}

impl TextHandler {
    fn emit(&mut self, text: String) {
        if !text.is_empty() {
            self.actions.emit(Event::Text { text });
        }
    }
}

impl ProcessHandler for TextHandler {
    const READS_LINES: bool = false;

    fn actions(&mut self) -> &mut Actions {
        &mut self.actions
    }

    fn read_bytes(&mut self, bytes: &[u8]) {
        self.tail.push(bytes);
        let text = self.decoder.push(bytes);
        self.emit(text);
    }

    fn end_of_output(&mut self) {
        let text = self.decoder.finish();
        self.emit(text);
    }

    fn finish(self, end: ProcessEnd) -> Result<Report, AgentError> {
        let report = Report { final_text: self.tail.into_text(), ..Report::default() };
        if end.success {
            return end.conclude(Ok(report));
        }
        let said = report.final_text.clone().unwrap_or_default();
        let stderr = end.stderr.clone();
        end.conclude(Ok(report)).map_err(|mut error| {
            if matches!(error.class, ErrorClass::Crashed | ErrorClass::Unavailable) {
                explain(&mut error, &said, &stderr);
            }
            error
        })
    }
}

/// Adds what a failed agent said last, and takes the class from it if agents say that when they cannot work.
fn explain(error: &mut AgentError, stdout: &str, stderr: &str) {
    if let Some(class) = [stderr, stdout].into_iter().find_map(classify_last_words) {
        error.class = class;
    }
    if let Some(line) = stdout.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
        error.message.push_str("; it said last: ");
        error.message.push_str(&plain_line(line, LAST_LINE_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::FINAL_TEXT_MAX;

    fn run(pieces: &[&[u8]]) -> (String, Option<String>) {
        let mut handler = TextHandler::default();
        pieces.iter().for_each(|piece| handler.read_bytes(piece));
        handler.end_of_output();
        let said = handler
            .actions()
            .take_events()
            .into_iter()
            .map(|event| match event {
                Event::Text { text } => text,
                other => panic!("{other:?}"),
            })
            .collect();
        (said, handler.tail.into_text())
    }

    #[test]
    fn short_output_is_the_final_text_as_it_is() {
        let (said, last) = run(&[b"one\r\ntw", b"o\xff"]);
        assert_eq!(said, "one\r\ntwo\u{FFFD}");
        assert_eq!(last.as_deref(), Some("one\r\ntwo\u{FFFD}"));
        assert_eq!(run(&[]), (String::new(), None));
    }

    #[test]
    fn long_output_keeps_its_end_from_a_line_start() {
        let line = [b'x'; 99].iter().copied().chain([b'\n']).collect::<Vec<u8>>();
        let pieces: Vec<&[u8]> = vec![&line; 20_000];
        let last = run(&pieces).1.unwrap();
        assert!(last.len() <= FINAL_TEXT_MAX && last.len() > FINAL_TEXT_MAX - 101);
        assert_eq!(last.len() % 100, 0);
        assert!(last.starts_with('x'));
    }

    #[test]
    fn exactly_the_bound_is_not_cut() {
        let full = vec![b'x'; FINAL_TEXT_MAX];
        assert_eq!(run(&[&full]).1.unwrap().len(), FINAL_TEXT_MAX);
        // One byte more in a single line: nothing of it can be trusted.
        let over = vec![b'x'; FINAL_TEXT_MAX + 2];
        assert_eq!(run(&[&over]).1, None);
        // A line that begins right at the cut is whole.
        let mut edge = b"y\n".to_vec();
        edge.extend(vec![b'x'; FINAL_TEXT_MAX]);
        assert_eq!(run(&[&edge]).1.unwrap().len(), FINAL_TEXT_MAX);
    }

    #[test]
    fn a_failed_agent_is_quoted_and_its_class_is_that_of_its_words() {
        let ended = |stdout: &[u8], stderr: &str, success| {
            let mut handler = TextHandler::default();
            handler.read_bytes(stdout);
            let exit = if success { "exit 0" } else { "exit 1" };
            handler.finish(ProcessEnd {
                exit: exit.into(),
                success,
                stderr: stderr.into(),
                ..ProcessEnd::default()
            })
        };
        let limited = b"working\nYou've hit your limit \xc2\xb7 resets later\n";
        let error = ended(limited, "", false).unwrap_err();
        assert_eq!(error.class, ErrorClass::RateLimited { until_ms: None });
        assert_eq!(
            error.message,
            "the agent ended with exit 1; it said last: You've hit your limit \u{b7} resets later"
        );
        let error = ended(b"", "Invalid API key \u{b7} Please run /login", false).unwrap_err();
        assert_eq!(error.class, ErrorClass::Unauthenticated);
        let error = ended(b"compiling\n", "boom", false).unwrap_err();
        assert_eq!(error.class, ErrorClass::Crashed);
        let report = ended(limited, "", true).unwrap();
        assert!(report.final_text.is_some(), "only a failed call says why it failed");
    }
}
