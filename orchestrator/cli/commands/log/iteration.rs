//! `log N`: what an iteration was given, what its agent said and did, and what became of it.

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_machine::{Latch, LaunchDigests, Record, State};
use ralph_orchestrator_store::{JournalEntry, Layout};
use ralph_orchestrator_story::records::RecordFormatter;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::size::stdout_width;
use ralph_orchestrator_text::escape;
use serde_json::json;

use super::transcript::{TranscriptFormat, TranscriptPrinter};

/// The line between feedback and prompt.
const END_OF_FEEDBACK: &str = "---";

/// Prints the feedback of an iteration, its transcript, and the records of its end.
pub(super) struct IterationPrinter {
    layout: Layout,
    run: String,
    format: TranscriptFormat,
    formatter: RecordFormatter,
    pub(super) transcript: TranscriptPrinter,
    /// The last record that was printed, or left out.
    seq: u64,
    /// The iteration that was the last to start before it.
    started: u64,
}

impl IterationPrinter {
    pub(super) fn new(layout: &Layout, run: &str, number: u64, format: TranscriptFormat) -> Self {
        Self {
            layout: layout.clone(),
            run: run.to_owned(),
            format,
            formatter: RecordFormatter::new(stdout_width()).with_whole_reasons(),
            transcript: TranscriptPrinter::new(layout, run, number, format),
            seq: 0,
            started: 0,
        }
    }

    /// Prints what is new since the last time. `entries` are all records of the run.
    pub(super) fn print_new(&mut self, entries: &[JournalEntry]) -> Result<(), CommandError> {
        let number = self.transcript.iteration;
        for entry in entries {
            if entry.seq <= self.seq {
                continue;
            }
            self.seq = entry.seq;
            let lines = self.formatter.lines(entry);
            if let Record::IterationStarted { iteration, .. } = entry.record {
                self.started = iteration;
            }
            match &entry.record {
                Record::IterationStarted { iteration, attempt, given, .. }
                    if *iteration == number =>
                {
                    self.print_lines(&lines);
                    if *attempt <= 1 && given.contains_key(LaunchDigests::FEEDBACK) {
                        self.print_feedback()?;
                    }
                }
                record if is_end(record) && self.started == number => {
                    self.transcript.print_new()?;
                    self.print_lines(&lines);
                    self.print_verdict(record);
                }
                _ => {}
            }
        }
        Ok(self.transcript.print_new()?)
    }

    fn print_lines(&self, lines: &[String]) {
        if self.format == TranscriptFormat::Text {
            lines.iter().for_each(|line| output::result(line));
        }
    }

    /// Prints the block before the prompt, from the prompt that was kept.
    fn print_feedback(&self) -> Result<(), CommandError> {
        let number = self.transcript.iteration;
        let Some(kept) = self.layout.kept_prompt(&self.run, number) else { return Ok(()) };
        let prompt = String::from_utf8_lossy(&std::fs::read(kept)?).into_owned();
        let lines = prompt.lines().take_while(|line| *line != END_OF_FEEDBACK);
        let feedback = lines.collect::<Vec<_>>().join("\n");
        match self.format {
            TranscriptFormat::Text => {
                output::result("feedback before the prompt:");
                let feedback = escape(feedback.trim_end());
                feedback.lines().for_each(|line| output::result(format!("  {line}").trim_end()));
                output::result("");
            }
            TranscriptFormat::Json => {
                output::json(&json!({"type": "feedback", "text": feedback.trim_end()}));
            }
            TranscriptFormat::Raw => {}
        }
        Ok(())
    }

    fn print_verdict(&self, record: &Record) {
        if let (TranscriptFormat::Json, Record::Validated { accepted, reasons, .. }) =
            (self.format, record)
        {
            output::json(&json!({"type": "validated", "accepted": accepted, "reasons": reasons}));
        }
    }
}

/// Whether an iteration, and the validation after it, have come to their end.
pub(super) fn is_over(state: &State, entries: &[JournalEntry], number: u64) -> bool {
    if state.iterations != number {
        return state.iterations > number;
    }
    if state.running.is_some() || state.repeats_iteration() || state.is_save_due() {
        return false;
    }
    let is_end = |entry: &&JournalEntry| matches!(entry.record, Record::IterationEnded { .. });
    let end = entries.iter().rfind(is_end).map_or(0, |entry| entry.seq);
    let after = || entries.iter().filter(|entry| entry.seq > end).map(|entry| &entry.record);
    let is_observed = after().any(|record| matches!(record, Record::Observed { .. }));
    let is_rejected =
        || after().any(|record| matches!(record, Record::Validated { accepted: false, .. }));
    is_observed && (!matches!(state.latch, Latch::Claimed { .. }) || is_rejected())
}

/// Whether a record says what became of an iteration.
const fn is_end(record: &Record) -> bool {
    matches!(
        record,
        Record::IterationEnded { .. }
            | Record::Observed { .. }
            | Record::Artefacts { .. }
            | Record::Claimed { .. }
            | Record::MarkerRemoved { .. }
            | Record::Validated { .. }
            | Record::Completed { .. }
            | Record::Saved { .. }
    )
}
