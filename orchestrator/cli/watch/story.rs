//! The records of a run as lines of the view, and what its agent does at the moment.

use std::collections::VecDeque;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::JournalEntry;
use ralph_orchestrator_story::located_run::LocatedRun;
use ralph_orchestrator_story::records::RecordFormatter;
use ralph_orchestrator_text::{escape, local_clock};
use ralph_orchestrator_watch::{StoryLine, Tone};

/// Lines of the past that are shown.
pub(super) const MOST_LINES: usize = 10_000;
/// Bytes at the end of a transcript in which the last words are looked for.
const TRANSCRIPT_END: u64 = 64 * 1024;

/// Makes lines of records: the text that `log` prints, after the time of the day.
pub(super) struct StoryWriter {
    formatter: RecordFormatter,
    day: String,
    /// Lines that were not handed out yet, and how many of the oldest there is no room for.
    lines: VecDeque<StoryLine>,
    skipped: u64,
}

impl StoryWriter {
    pub(super) fn new() -> Self {
        let formatter = RecordFormatter::new(None);
        Self { formatter, day: String::new(), lines: VecDeque::new(), skipped: 0 }
    }

    pub(super) fn add(&mut self, entry: &JournalEntry) {
        let Some(text) = self.formatter.text(entry) else { return };
        let day = local_day(entry.time);
        if self.day != day {
            self.push(StoryLine { text: format!("── {day} ──"), tone: Tone::Dim });
            self.day = day;
        }
        let text = format!("{}  {}", local_clock(entry.time), escape(&text));
        self.push(StoryLine { text, tone: tone(&entry.record) });
    }

    fn push(&mut self, line: StoryLine) {
        if self.lines.len() >= MOST_LINES {
            self.lines.pop_front();
            self.skipped += 1;
        }
        self.lines.push_back(line);
    }

    /// Returns what was added since the last time, and how much of it was left out before that.
    pub(super) fn take(&mut self) -> (u64, Vec<StoryLine>) {
        (std::mem::take(&mut self.skipped), std::mem::take(&mut self.lines).into())
    }
}

fn local_day(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string()
}

const fn tone(record: &Record) -> Tone {
    match record {
        Record::Completed { .. } | Record::Validated { accepted: true, .. } => Tone::Good,
        Record::Validated { .. } => Tone::Bad,
        Record::RunStarted(_) | Record::RunResumed { .. } | Record::IterationStarted { .. } => {
            Tone::Heading
        }
        Record::Artefacts { .. } | Record::Saved { .. } => Tone::Dim,
        Record::Stopped { .. }
        | Record::Warning { .. }
        | Record::Cancelling { .. }
        | Record::AgentChanged { .. }
        | Record::Paused { .. }
        | Record::Waiting { .. }
        | Record::ControlReceived { .. }
        | Record::Answered { .. } => Tone::Warning,
        _ => Tone::Plain,
    }
}

/// The last words or the last tool call in the transcript of the running iteration.
#[derive(Default)]
pub(super) struct LastWords {
    iteration: u64,
    len: u64,
    text: Option<String>,
}

impl LastWords {
    /// Reads them again if the transcript has grown.
    pub(super) fn read(&mut self, run: &LocatedRun, iteration: u64) -> Option<&str> {
        let len = run.transcript_len(iteration);
        if self.iteration != iteration || self.len != len {
            let lines = run.transcript_end(iteration, TRANSCRIPT_END).map(|found| found.lines);
            let lines = lines.unwrap_or_default();
            let last = lines.iter().rev().flat_map(|text| text.lines().rev());
            let last = last.map(str::trim).find(|line| !line.is_empty());
            (self.iteration, self.len, self.text) = (iteration, len, last.map(str::to_owned));
        }
        self.text.as_deref()
    }
}
