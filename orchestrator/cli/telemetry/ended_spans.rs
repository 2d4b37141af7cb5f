//! The spans of a run that have ended and were not sent yet.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};

use jiff::Timestamp;
use ralph_orchestrator_contract::Event;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{Layout, RunReader};
use ralph_orchestrator_telemetry::{Span, Trace, TraceBuilder};
use serde_json::Value;

use super::sent::Sent;

/// Spans that are in memory at a time, unless one iteration has more.
const MOST_SPANS: usize = 2000;

/// Reads a run as it grows.
pub(super) struct EndedSpans {
    run: String,
    layout: Layout,
    has_content: bool,
    sent: Sent,
    /// `None` if the run has to be read again from the start.
    open: Option<(RunReader, TraceBuilder)>,
}

/// Spans that ended by the records up to one of them.
pub(super) struct Part {
    pub(super) trace: Trace,
    through: u64,
}

impl EndedSpans {
    /// Begins to read a run, of which a collector may have taken a part.
    pub(super) fn open(layout: &Layout, run: &str, has_content: bool, url: &str) -> Self {
        let sent = Sent::read(&layout.run(run), url);
        Self { run: run.to_owned(), layout: layout.clone(), has_content, sent, open: None }
    }

    pub(super) fn run(&self) -> &str {
        &self.run
    }

    /// Whether something of the run was sent before, or was to be.
    pub(super) const fn was_begun(&self) -> bool {
        self.sent.through().is_some()
    }

    /// Returns the next spans that have ended; `None` if there are none, or the run cannot be read.
    pub(super) fn read(&mut self) -> Option<Part> {
        let sent = self.sent.through().unwrap_or_else(|| {
            // What follows is to be sent, also by a later start. If it cannot be recorded, what was sent cannot either,
            // which is said then.
            drop(self.sent.confirm(0));
            0
        });
        let (layout, run) = (self.layout.clone(), self.run.clone());
        let (mut reader, mut builder) = self.open.take().unwrap_or_else(|| {
            (RunReader::of_run(&layout, &run), TraceBuilder::new(&run, self.has_content))
        });
        let (mut spans, mut through, mut is_full) = (Vec::new(), sent, false);
        let read = reader.read(|entry| {
            // The rest is read again, from the start, once these are taken.
            if spans.len() >= MOST_SPANS {
                is_full = true;
                return;
            }
            builder.entry(entry);
            let is_new = entry.seq > sent;
            if let Record::IterationEnded { iteration, .. } = &entry.record
                && is_new
            {
                // Without one, nothing was printed.
                drop(read_transcript(&mut builder, &layout, &run, *iteration));
            }
            let ended = builder.take_ended();
            if is_new {
                spans.extend(ended);
                through = entry.seq;
            }
        });
        if read.is_ok() && !is_full {
            self.open = Some((reader, builder));
        }
        // Whoever completes also stops: only how it stands now is sent.
        let last_root = spans.iter().rposition(|span: &Span| span.parent.is_none());
        let mut at = 0..;
        spans.retain(|span| at.next() == last_root || span.parent.is_some());
        (!spans.is_empty()).then(|| Part { trace: Trace::part(&self.run, spans), through })
    }

    /// Records that a collector has taken these.
    pub(super) fn confirm(&mut self, part: &Part) -> io::Result<()> {
        self.sent.confirm(part.through)
    }
}

/// Gives the builder the events of an iteration.
pub(crate) fn read_transcript(
    builder: &mut TraceBuilder,
    layout: &Layout,
    run: &str,
    iteration: u64,
) -> io::Result<()> {
    let path = layout.iteration(run, iteration).join("transcript.jsonl");
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        if let Some((time, event)) = parse(&line?) {
            builder.event(iteration, time, &event);
        }
    }
    builder.end_transcript();
    Ok(())
}

/// Returns the time and the event of a line of a transcript; `None` of one that a crash has cut.
fn parse(line: &[u8]) -> Option<(Timestamp, Event)> {
    let object: Value = serde_json::from_slice(line).ok()?;
    let time = object.get("time")?.as_str()?.parse().ok()?;
    Some((time, serde_json::from_value(object).ok()?))
}
