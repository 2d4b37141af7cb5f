//! Secrets in text that comes in pieces.

use ralph_orchestrator_contract::Event;

use super::Redactor;
use super::canonical::complete;
use super::finder::{Edges, Finder};

/// So much text is kept back at most, beyond the longest form of a secret.
const MOST_HELD: usize = 64 * 1024;
/// A line that ends with so much of a secret is kept back until the next one has come.
const OPEN_LINE: usize = 4;

/// Takes the secrets out of the events of one iteration, those too that come in pieces.
#[derive(Debug)]
pub(crate) struct StreamRedactor {
    redactor: Redactor,
    text: String,
    thinking: String,
    /// Lines, each with its end.
    stderr: String,
}

impl StreamRedactor {
    pub(crate) const fn new(redactor: Redactor) -> Self {
        Self { redactor, text: String::new(), thinking: String::new(), stderr: String::new() }
    }

    /// Takes an event. Returns the events that may be passed on now.
    pub(crate) fn push(&mut self, event: Event) -> Vec<Event> {
        let Some(finder) = self.redactor.finder.as_deref() else { return vec![event] };
        match event {
            Event::Text { text } => {
                self.text.push_str(&text);
                let text = pieces(finder, &mut self.text);
                if text.is_empty() { Vec::new() } else { vec![Event::Text { text }] }
            }
            Event::Thinking { text } => {
                self.thinking.push_str(&text);
                let text = pieces(finder, &mut self.thinking);
                if text.is_empty() { Vec::new() } else { vec![Event::Thinking { text }] }
            }
            Event::Stderr { text } => {
                self.stderr.push_str(&text);
                self.stderr.push('\n');
                lines(finder, &mut self.stderr)
            }
            // They come between two pieces of one text.
            Event::Raw { .. }
            | Event::Usage { .. }
            | Event::Context { .. }
            | Event::RateWindow { .. } => {
                vec![self.redactor.event(event)]
            }
            other => {
                let mut events = self.texts();
                events.push(self.redactor.event(other));
                events
            }
        }
    }

    /// Returns what was held back.
    pub(crate) fn finish(&mut self) -> Vec<Event> {
        let mut events = self.texts();
        if let Some(finder) = self.redactor.finder.as_deref() {
            let whole = std::mem::take(&mut self.stderr);
            events.extend(of_lines(&replaced(finder, &whole, Edges::OPEN)));
        }
        events
    }

    fn texts(&mut self) -> Vec<Event> {
        let Some(finder) = self.redactor.finder.as_deref() else { return Vec::new() };
        let take = |text: &mut String| {
            let whole = std::mem::take(text);
            let end = Edges { start: false, end: true };
            Some(replaced(finder, &whole, end)).filter(|text| !text.is_empty())
        };
        let thinking = take(&mut self.thinking).map(|text| Event::Thinking { text });
        let text = take(&mut self.text).map(|text| Event::Text { text });
        thinking.into_iter().chain(text).collect()
    }
}

/// The beginning of `text` that is complete, without secrets; what may be the beginning of a secret
/// stays.
fn pieces(finder: &Finder, text: &mut String) -> String {
    let part = text.get(..complete(text)).unwrap_or(text);
    let cut = finder.open(part, 1);
    let edges = Edges { start: false, end: false };
    ready(finder, text, cut, edges)
}

/// The same for whole lines.
fn lines(finder: &Finder, text: &mut String) -> Vec<Event> {
    let open = finder.open(text, OPEN_LINE);
    let cut = text.get(..open).and_then(|begin| begin.rfind('\n')).map_or(0, |end| end + 1);
    of_lines(&ready(finder, text, cut, Edges { start: true, end: false }))
}

fn of_lines(text: &str) -> Vec<Event> {
    let Some(text) = text.strip_suffix('\n').or(Some(text).filter(|text| !text.is_empty())) else {
        return Vec::new();
    };
    text.split('\n').map(|line| Event::Stderr { text: line.to_owned() }).collect()
}

/// Takes the beginning up to `cut` or a little less, so that no secret is torn.
fn ready(finder: &Finder, text: &mut String, mut cut: usize, edges: Edges) -> String {
    if text.len().saturating_sub(cut) > finder.longest().saturating_add(MOST_HELD) {
        let whole = std::mem::take(text);
        return replaced(finder, &whole, Edges { end: true, ..edges });
    }
    let found = finder.find(text, edges);
    if let Some(across) = found.iter().find(|range| range.start < cut && range.end > cut) {
        cut = across.start;
    }
    let rest = if text.is_char_boundary(cut) { text.split_off(cut) } else { String::new() };
    let ready = std::mem::replace(text, rest);
    let found: Vec<_> = found.into_iter().filter(|range| range.end <= cut).collect();
    super::masked(&ready, &found)
}

fn replaced(finder: &Finder, text: &str, edges: Edges) -> String {
    super::masked(text, &finder.find(text, edges))
}
