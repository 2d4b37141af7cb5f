//! `log --follow`

use std::collections::BTreeSet;
use std::time::Duration;

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::run_selection::no_run_error;
use ralph_orchestrator_driver::read_ledger;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{
    JournalEntry, Layout, Lock, RunReader, SeriesLock, StoredRun, read_current_run, read_run,
};
use ralph_orchestrator_story::records::RecordFormatter;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::size::stdout_width;

use super::iteration::{IterationPrinter, is_over};
use super::transcript::{TranscriptFormat, TranscriptPrinter};
use crate::commands::log::LogArgs;

/// How often journal and transcript are polled.
const POLL: Duration = Duration::from_millis(50);

/// Prints new records, and with `--verbose` the agent's text and tool calls, until no process holds the run or
/// the backlog that it is part of. Before them come the runs of the backlog that were before it.
pub(super) fn records(context: &Context, args: &LogArgs) -> Result<u8, CommandError> {
    let layout = &context.layout()?;
    let mut follower = Follower {
        layout,
        args,
        run: String::new(),
        printed: 0,
        done: BTreeSet::new(),
        printer: RecordPrinter::new(layout, "", args),
    };
    let mut reader = RunReader::new(layout);
    loop {
        // First who holds it, then the journal: what was written last is then printed too.
        let held = Lock::holder(layout).is_some() || SeriesLock::holder(layout).is_some();
        let mut entries = Vec::new();
        let run = reader.read(|entry| entries.push(entry.clone()))?;
        if let Some(run) = run {
            follower.print_before(run)?;
            follower.print_new(run, &entries)?;
            follower.printer.print_transcript()?;
        }
        match run {
            None if !held => return Ok(super::nothing(context, args.json)),
            Some(_) if !held => return Ok(exit::OK),
            _ => wait_for_change(layout, &follower.run, follower.printer.transcript.as_ref()),
        }
    }
}

/// Prints the records of runs that follow one another.
struct Follower<'a> {
    layout: &'a Layout,
    args: &'a LogArgs,
    /// The run whose records are printed, and the last of them.
    run: String,
    printed: u64,
    /// Runs of which all is printed.
    done: BTreeSet<String>,
    printer: RecordPrinter,
}

impl Follower<'_> {
    /// Prints what is left of the run before the current one, and of the other runs of its backlog.
    fn print_before(&mut self, current: &str) -> Result<(), CommandError> {
        if self.run == current {
            return Ok(());
        }
        let ledger = read_ledger(self.layout)?.unwrap_or_default();
        let runs = ledger.runs.into_iter().map(|item| item.run);
        let last = Some(self.run.clone()).filter(|run| !run.is_empty());
        for run in last.into_iter().chain(runs.take_while(|run| run != current)) {
            if self.done.contains(&run) {
                continue;
            }
            let mut entries = Vec::new();
            if let Err(error) = read_run(self.layout, &run, |entry| entries.push(entry.clone())) {
                output::info(&format!("warning: {error}"));
            }
            self.print_new(&run, &entries)?;
            self.done.insert(run);
        }
        Ok(())
    }

    /// Prints what is new of a run's records.
    fn print_new(&mut self, run: &str, entries: &[JournalEntry]) -> Result<(), CommandError> {
        if self.run != run {
            (self.run, self.printed) = (run.to_owned(), 0);
            self.printer = RecordPrinter::new(self.layout, run, self.args);
            let ledger = read_ledger(self.layout)?.unwrap_or_default();
            if let Some(item) = ledger.item_of(run).filter(|_| !self.args.json) {
                output::result(&super::item_line(item));
            }
        }
        if self.args.json {
            journal(self.layout, run, self.printed, entries)?;
        } else {
            let new = entries.iter().filter(|entry| entry.seq > self.printed);
            for entry in new {
                self.printer.entry(entry)?;
            }
        }
        self.printed = entries.last().map_or(self.printed, |entry| entry.seq);
        Ok(())
    }
}

/// The new lines of the journal as they are.
fn journal(
    layout: &Layout,
    run: &str,
    printed: u64,
    entries: &[JournalEntry],
) -> Result<(), CommandError> {
    let journal = std::fs::read(layout.journal(run))?;
    let lines = journal.split_inclusive(|byte| *byte == b'\n');
    let known = usize::try_from(printed).unwrap_or(usize::MAX);
    let new = entries.iter().filter(|entry| entry.seq > printed).count();
    lines.skip(known).take(new).for_each(output::raw);
    Ok(())
}

/// Prints records, and between them what the agent said and did.
pub(super) struct RecordPrinter {
    layout: Layout,
    run: String,
    formatter: RecordFormatter,
    verbose: bool,
    transcript: Option<TranscriptPrinter>,
}

impl RecordPrinter {
    pub(super) fn new(layout: &Layout, run: &str, args: &LogArgs) -> Self {
        Self {
            layout: layout.clone(),
            run: run.to_owned(),
            formatter: RecordFormatter::new(stdout_width()),
            verbose: args.verbose,
            transcript: None,
        }
    }

    pub(super) fn entry(&mut self, entry: &JournalEntry) -> Result<(), CommandError> {
        // What was said comes before what follows from it, whoever was faster.
        if matches!(
            entry.record,
            Record::Claimed { .. } | Record::IterationEnded { .. } | Record::RunResumed { .. }
        ) {
            self.print_transcript()?;
        }
        self.formatter.lines(entry).iter().for_each(|line| output::result(line));
        if let Record::IterationStarted { iteration, .. } = entry.record
            && self.verbose
            && self.transcript.as_ref().is_none_or(|reader| reader.iteration != iteration)
        {
            let reader =
                TranscriptPrinter::new(&self.layout, &self.run, iteration, TranscriptFormat::Text);
            self.transcript = Some(reader);
        }
        Ok(())
    }

    /// Prints what the agent has said meanwhile.
    fn print_transcript(&mut self) -> Result<(), CommandError> {
        Ok(self.transcript.as_mut().map_or(Ok(()), TranscriptPrinter::print_new)?)
    }
}

/// Prints an iteration as it goes on, until it has its verdict.
pub(super) fn iteration(
    layout: &Layout,
    number: u64,
    format: TranscriptFormat,
) -> Result<(), CommandError> {
    let mut printer: Option<IterationPrinter> = None;
    loop {
        let held = Lock::holder(layout).is_some();
        let mut entries = Vec::new();
        let found = read_current_run(layout, |entry| entries.push(entry.clone()))?;
        let Some(StoredRun { run, state, .. }) = found else {
            if held {
                wait_for_change(layout, "", None);
                continue;
            }
            return Err(no_run_error());
        };
        let printer =
            printer.get_or_insert_with(|| IterationPrinter::new(layout, &run, number, format));
        if !held && state.iterations < number {
            return Err(super::no_iteration(&run, number));
        }
        printer.print_new(&entries)?;
        if !held || is_over(&state, &entries, number) {
            return Ok(());
        }
        wait_for_change(layout, &run, Some(&printer.transcript));
    }
}

/// Waits until the journal or the transcript has grown, or no process holds the run.
fn wait_for_change(layout: &Layout, run: &str, transcript: Option<&TranscriptPrinter>) {
    let len = || {
        let journal = std::fs::metadata(layout.journal(run)).map(|meta| meta.len()).ok();
        (journal, transcript.map(TranscriptPrinter::file_len))
    };
    let before = len();
    loop {
        std::thread::sleep(POLL);
        if len() != before || Lock::holder(layout).is_none() {
            return;
        }
    }
}
