//! Going through a text line by line.

use super::Failure;
use super::forms::{Meaning, Rank, meanings};
use super::traceback::Traceback;

/// Bytes of lines between two looks at the clock; each line costs more than its bytes.
pub(super) const STRIDE: usize = crate::cooperative::STRIDE / 16;
/// Bytes of a line that can be a report. No tool prints a longer one.
const LONGEST: usize = 4096;

/// What was seen so far.
#[derive(Default)]
pub(super) struct Lines {
    /// The most telling failure, the first of its rank.
    found: Option<(Rank, Failure)>,
    /// A program broke down; it may have been within a test that expected that.
    crash: Option<Failure>,
    traceback: Traceback,
    /// In pytest's list of failures.
    in_summary: bool,
    /// mocha has said how many tests passed.
    passing: bool,
    /// unittest has said how many tests ran.
    ran: bool,
    /// There is a plan of the Test Anything Protocol.
    plan: bool,
    not_ok: Option<Failure>,
}

impl Lines {
    pub(super) fn push(&mut self, number: usize, raw: &str) {
        if raw.len() > LONGEST {
            return;
        }
        let plain;
        let line = if raw.contains('\u{1b}') {
            plain = anstream::adapter::strip_str(raw).to_string();
            plain.trim_end()
        } else {
            raw.trim_end()
        };
        let failure = |tool| Failure { line: number, text: line.trim_start().to_owned(), tool };
        if self.traceback.ends_with(line) {
            self.crash.get_or_insert_with(|| failure("Python traceback"));
        }
        if self.in_summary && line.starts_with('=') {
            self.in_summary = false;
        }
        for meaning in meanings(line) {
            match meaning {
                Meaning::Failure("Rust panic", _) => {
                    self.crash.get_or_insert_with(|| failure("Rust panic"));
                }
                Meaning::Failure(tool, rank) => self.take(rank, || failure(tool)),
                Meaning::Listed(tool) if self.in_summary => {
                    self.take(Rank::Bare, || failure(tool));
                }
                Meaning::Failing(tool) if self.passing => {
                    self.take(Rank::Telling, || failure(tool));
                }
                Meaning::NotOk if !is_excused(line) => {
                    self.not_ok.get_or_insert_with(|| failure("TAP"));
                }
                Meaning::Listed(_) | Meaning::Failing(_) | Meaning::NotOk => {}
                Meaning::Summary => self.in_summary = true,
                Meaning::Passing => self.passing = true,
                Meaning::Plan => self.plan = true,
                Meaning::Ran => self.ran = true,
                Meaning::Ok if !self.ran => {}
                // What the tests caught and printed was as it should be.
                Meaning::Ok | Meaning::AllPassed => self.crash = None,
            }
        }
    }

    fn take(&mut self, rank: Rank, failure: impl FnOnce() -> Failure) {
        if self.found.as_ref().is_none_or(|(best, _)| rank < *best) {
            self.found = Some((rank, failure()));
        }
    }

    pub(super) fn finish(self) -> Option<Failure> {
        let not_ok = self.not_ok.filter(|_| self.plan);
        match self.found {
            Some((Rank::Telling, failure)) => Some(failure),
            found => not_ok.or(self.crash).or(found.map(|(_, failure)| failure)),
        }
    }
}

/// Whether a test of the Test Anything Protocol may fail: it is to be done later, or was skipped.
fn is_excused(line: &str) -> bool {
    let mut directives = line.split('#').zip(line.split('#').skip(1));
    directives.any(|(before, directive)| {
        let word = directive.trim_start().split(|c: char| !c.is_alphanumeric()).next();
        let excuses = |known: &&str| word.is_some_and(|word| word.eq_ignore_ascii_case(known));
        // `\#` and `C#` are parts of a name.
        before.ends_with(char::is_whitespace) && ["todo", "skip", "skipped"].iter().any(excuses)
    })
}
