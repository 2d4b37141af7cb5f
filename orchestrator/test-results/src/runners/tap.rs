//! TAP, the Test Anything Protocol: `node --test`, bats, tape, and reporters of many runners.
//!
//! A document has a line `TAP version 13` or a plan `1..5`; without either nothing counts. Tests with tests below them
//! are groups. Where comments at the end have the runner's own numbers (`# tests 12`, `# pass 9`, `# fail 1`, as of node
//! and tape), those count, because node counts some groups as tests. `# SKIP` and `# TODO` count as skipped.

use super::headings::{Headings, split_indent, strip_time};
use super::reader::{RunnerReader, RunnerReport, split_number};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// Groups of one document whose kind is still open; more of them are not named.
const MAX_GROUPS: usize = 1000;

#[derive(Default)]
pub(crate) struct Tap {
    names: RunNames,
    headings: Headings,
    points: TestCounts,
    figures: Figures,
    /// Whether this is a document at all.
    has_version: bool,
    has_plan: bool,
    has_points: bool,
    /// The depth of the last test.
    depth: usize,
    /// Indentation of the block of details that is skipped.
    details: Option<usize>,
    /// Groups that node may count as tests.
    groups: Vec<(String, TestOutcome)>,
}

/// What comments at the end of a document say.
#[derive(Default)]
struct Figures {
    tests: Option<u64>,
    counts: TestCounts,
    has_pass: bool,
    has_skipped: bool,
}

impl RunnerReader for Tap {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let (indent, text) = split_indent(line);
        if self.read_details(indent, text) {
            return None;
        }
        if indent == 0 && text.starts_with("TAP version ") {
            let report = self.finish();
            self.has_version = true;
            return report;
        }
        if let Some(count) = plan(text) {
            // A plan at the beginning of another document, as bats has it.
            let is_next = indent == 0 && self.has_plan && (self.has_points || count == 0);
            let report = is_next.then(|| self.finish()).flatten();
            self.has_plan |= indent == 0;
            return report;
        }
        if text == "}" {
            self.depth = indent / 4;
        } else if let Some(comment) = text.strip_prefix("# ") {
            self.read_comment(indent, comment);
        } else if let Some(point) = Point::read(text) {
            let is_next = indent == 0 && point.number == Some(1) && self.figures.has_pass;
            let report = is_next.then(|| self.finish()).flatten();
            self.add(indent / 4, &point);
            return report;
        }
        None
    }

    fn finish(&mut self) -> Option<RunnerReport> {
        let mut ended = std::mem::take(self);
        let is_document = ended.has_version || ended.has_plan;
        let counts = ended.figures.counts(ended.points).unwrap_or_else(|| {
            ended.groups.clear();
            ended.points
        });
        for (name, outcome) in ended.groups {
            ended.names.count(name, outcome);
        }
        is_document.then_some(RunnerReport { counts, names: ended.names })
    }
}

impl Tap {
    /// Reads the block of details below a test; only node's kind of a group is of interest.
    fn read_details(&mut self, indent: usize, text: &str) -> bool {
        match self.details {
            Some(opened) if text == "..." && indent <= opened => self.details = None,
            Some(_) if text == "type: 'suite'" => {
                self.groups.pop();
            }
            None if text == "---" && indent > 0 => self.details = Some(indent),
            Some(_) => {}
            None => return false,
        }
        true
    }

    fn read_comment(&mut self, indent: usize, comment: &str) {
        if let Some(name) = comment.strip_prefix("Subtest: ") {
            self.headings.open(indent / 4, &unescape(name));
        } else if indent == 0
            && let Some((word, number)) = comment.split_once(' ')
            && let Some((number, _)) = split_number(number.trim())
        {
            self.figures.read(word, number);
        }
    }

    fn add(&mut self, depth: usize, point: &Point) {
        // After a deeper test it is the group of that one; before its tests a group ends in a brace.
        let is_group = point.is_opening || self.has_points && self.depth > depth;
        let name = self.headings.name(depth, &point.name);
        if point.is_opening {
            self.headings.open(depth, &point.name);
        } else if is_group {
            if self.groups.len() < MAX_GROUPS {
                self.groups.push((name, point.outcome));
            }
        } else {
            self.points.add(point.outcome.into());
            self.names.count(name, point.outcome);
        }
        (self.depth, self.has_points) = (depth, true);
    }
}

impl Figures {
    fn read(&mut self, word: &str, number: u64) {
        let counts = &mut self.counts;
        match word {
            "tests" => *self = Self { tests: Some(number), ..Self::default() },
            "pass" => (counts.passed, self.has_pass) = (number, true),
            "fail" | "cancelled" => counts.failed = counts.failed.saturating_add(number),
            "skipped" | "skip" | "todo" => {
                counts.skipped = counts.skipped.saturating_add(number);
                self.has_skipped = true;
            }
            _ => {}
        }
    }

    fn counts(&self, points: TestCounts) -> Option<TestCounts> {
        let mut counts = self.counts;
        if !self.has_skipped {
            counts.skipped = points.skipped;
        }
        let fits = self.tests? == counts.total() || self.tests? == counts.ran();
        (self.has_pass && fits).then_some(counts)
    }
}

/// One test of a document.
struct Point {
    number: Option<u64>,
    name: String,
    outcome: TestOutcome,
    is_opening: bool,
}

impl Point {
    fn read(text: &str) -> Option<Self> {
        let (is_ok, rest) = match text.strip_prefix("not ok") {
            Some(rest) => (false, rest),
            None => (true, text.strip_prefix("ok")?),
        };
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix(' ')? };
        let (number, rest) = match split_number(rest) {
            Some((number, rest)) => (Some(number), rest.trim_start()),
            None => (None, rest),
        };
        let rest = rest.strip_prefix("- ").unwrap_or(rest);
        let (name, directive) = split_directive(rest);
        let directive = directive.to_ascii_lowercase();
        let outcome = if directive.starts_with("skip") || directive.starts_with("todo") {
            TestOutcome::Skipped
        } else if is_ok {
            TestOutcome::Passed
        } else {
            TestOutcome::Failed
        };
        // bats: `ok 1 works in 3ms`.
        let timed = strip_time(name);
        let name = if timed == name { name } else { timed.strip_suffix(" in").unwrap_or(name) };
        Some(Self { number, name: unescape(name), outcome, is_opening: rest.ends_with(" {") })
    }
}

/// Splits a description at the first `#` that is not escaped.
fn split_directive(text: &str) -> (&str, &str) {
    let at = text.match_indices(" # ").map(|(at, _)| at).next();
    let at = at.or_else(|| text.ends_with(" #").then(|| text.len() - 2));
    let split = at.and_then(|at| Some((text.get(..at)?, text.get(at..)?)));
    let (name, directive) = split.unwrap_or((text, ""));
    (name.trim_end_matches(" {").trim(), directive.trim_start_matches([' ', '#']))
}

fn unescape(text: &str) -> String {
    text.replace("\\#", "#").replace("\\\\", "\\")
}

/// Returns the number of tests of a plan such as `1..5`, perhaps with a reason.
fn plan(text: &str) -> Option<u64> {
    let (number, rest) = split_number(text.strip_prefix("1..")?)?;
    (rest.is_empty() || rest.trim_start().starts_with('#')).then_some(number)
}
