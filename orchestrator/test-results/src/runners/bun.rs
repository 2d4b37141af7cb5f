//! bun test: `5 pass`, `1 skip`, `1 todo`, `1 fail` in lines of their own, then `Ran 8 tests across 2 files. [10.00ms]`, whose
//! number they must give; and a line for each test, `(pass) group > works [0.10ms]`.

use super::reader::{RunnerReader, RunnerReport, split_count, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// A longer line names no file.
const MAX_FILE_BYTES: usize = 256;

#[derive(Default)]
pub(crate) struct Bun {
    names: RunNames,
    file: String,
    counts: TestCounts,
}

impl RunnerReader for Bun {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let line = line.trim_end();
        if let Some(ran) = line.strip_prefix("Ran ").and_then(ran) {
            let counts = std::mem::take(&mut self.counts);
            let fits = counts.total() == ran;
            return fits.then(|| RunnerReport { counts, names: std::mem::take(self).names });
        }
        if let Some((number, word)) = line.strip_prefix(' ').and_then(split_count) {
            let mut more = TestCounts::default();
            match word {
                "pass" => self.counts = TestCounts { passed: number, ..more },
                "fail" => more.failed = number,
                "skip" | "todo" => more.skipped = number,
                _ => {}
            }
            self.counts.add(more);
        } else if let Some(file) = line.strip_suffix(':').filter(|file| is_file(file)) {
            file.clone_into(&mut self.file);
        } else {
            self.read_name(line);
        }
        None
    }

    fn end_listing(&mut self) {
        *self = Self::default();
    }
}

impl Bun {
    fn read_name(&mut self, line: &str) {
        let Some((mark, name)) = line.split_once(' ') else { return };
        let outcome = match mark {
            "(pass)" | "✓" => TestOutcome::Passed,
            "(fail)" | "✗" => TestOutcome::Failed,
            "(skip)" | "(todo)" | "»" | "✎" => TestOutcome::Skipped,
            _ => return,
        };
        let name = match name.rsplit_once(" [") {
            Some((name, time)) if time.ends_with("s]") => name,
            _ => name,
        };
        self.names.add(format!("{} > {name}", self.file), outcome);
    }
}

/// Returns whether this may be the file whose tests follow.
fn is_file(text: &str) -> bool {
    text.len() <= MAX_FILE_BYTES && !text.contains(' ')
}

fn ran(text: &str) -> Option<u64> {
    let (ran, rest) = split_number(text)?;
    let rest =
        rest.strip_prefix(" tests across ").or_else(|| rest.strip_prefix(" test across "))?;
    rest.ends_with(']').then_some(ran)
}
