//! Reads an output as it comes, by the readers of all runners.

use crate::lines::{LineSplitter, Piece};
use crate::results::TestResults;
use crate::runners::{Readers, all_readers};

/// Where a piece of output came from. Lines of the two do not mix, whatever the order in which their parts arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output, or both in one.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Reads which tests ran from the output of a check, in memory that does not grow with the output.
#[derive(Default)]
pub struct TestResultsReader {
    stdout: LineSplitter,
    stderr: LineSplitter,
    /// Made for the first line: patterns take longer to compile than a check that prints nothing.
    readers: Option<Readers>,
    results: TestResults,
    has_counts: bool,
}

impl TestResultsReader {
    /// Takes output as it arrives, in pieces of any size.
    pub fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let splitter = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let (readers, results, has_counts) =
            (&mut self.readers, &mut self.results, &mut self.has_counts);
        splitter.push(bytes, |piece| read_piece(readers, &piece, results, has_counts));
    }

    /// Notes that output is missing here, as where a capture has a limit: what follows begins within a line.
    pub fn mark_cut(&mut self) {
        self.stdout.drop_line();
        self.stderr.drop_line();
        self.results.is_cut = true;
        for reader in self.readers.iter_mut().flatten() {
            reader.mark_cut();
        }
    }

    /// Returns what the output says, or `None` if it has no number of tests that can be read.
    #[must_use]
    pub fn finish(mut self) -> Option<TestResults> {
        let (readers, results) = (&mut self.readers, &mut self.results);
        for mut splitter in [self.stdout, self.stderr] {
            splitter.finish(|piece| read_piece(readers, &piece, results, &mut self.has_counts));
        }
        for reader in readers.iter_mut().flatten() {
            if let Some(run) = reader.finish() {
                self.has_counts = true;
                results.add_run(run.counts, run.names);
            }
        }
        self.has_counts.then_some(self.results)
    }
}

/// Gives a piece to all readers, or only to the one that is inside of a run that shows what its tests print.
fn read_piece(
    readers: &mut Option<Readers>,
    piece: &Piece,
    results: &mut TestResults,
    has_counts: &mut bool,
) {
    let readers = readers.get_or_insert_with(all_readers);
    let mut reported = None;
    let enclosing = readers.iter().position(|reader| reader.is_enclosing());
    for (index, reader) in readers.iter_mut().enumerate() {
        if enclosing.is_some_and(|enclosing| enclosing != index) {
            continue;
        }
        let run = match piece {
            Piece::Line(line) => reader.read_line(line),
            Piece::Other(text) => reader.read_other(text),
        };
        if let Some(run) = run {
            *has_counts = true;
            results.add_run(run.counts, run.names);
            reported = Some(index);
        }
    }
    if reported.is_some() {
        let others = readers.iter_mut().enumerate().filter(|(index, _)| Some(*index) != reported);
        others.for_each(|(_, reader)| reader.end_listing());
    }
}

/// Reads which tests ran from a whole output; `None` if it has no number of tests that can be read.
#[must_use]
pub fn read_test_results(output: &[u8]) -> Option<TestResults> {
    let mut reader = TestResultsReader::default();
    reader.push(OutputStream::Stdout, output);
    reader.finish()
}
