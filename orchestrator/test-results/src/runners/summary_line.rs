//! Runners whose whole summary is one line: a row of patterns for each.
//!
//! RSpec, minitest and test-unit, PHPUnit, Maven Surefire, `dotnet test`, ExUnit (`mix test`), the pretty output of bats, and
//! `deno test`. Numbers are in groups: `total` includes what failed and was skipped, `passed` does not; all groups whose
//! names begin with one of the words are added up. Names are in `name`, below a `heading`.
//! Maven prints its numbers with `-q` only if something failed: there it has none, or a repaired project would lose them.

use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};

use super::headings::strip_time;
use super::reader::{RunnerReader, RunnerReport};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// A longer heading is none.
const MAX_HEADING_BYTES: usize = 256;

/// How one runner's output is read.
struct Row {
    summaries: &'static [Summary],
    /// Tests with their names, and a group `pass`, `fail` or `skip`.
    tests: &'static str,
    heading: &'static str,
    /// A beginning of a line without which nothing counts.
    requires: &'static str,
    /// The lines between which the runner shows what a test prints.
    output: Option<(&'static str, &'static str)>,
}

impl Row {
    fn patterns(&self) -> impl Iterator<Item = &'static str> {
        let summaries = self.summaries.iter().map(|summary| summary.pattern);
        summaries.chain([self.tests, self.heading]).filter(|pattern| !pattern.is_empty())
    }
}

/// A pattern, and what the line before it, empty ones aside, contains.
struct Summary {
    after: &'static [&'static str],
    pattern: &'static str,
}

const fn anywhere(pattern: &'static str) -> Summary {
    Summary { after: &[""], pattern }
}

const NO_NAMES: Row = Row { summaries: &[], tests: "", heading: "", requires: "", output: None };

const ROWS: &[Row] = &[RSPEC, MINITEST, PHPUNIT, MAVEN, DOTNET, EX_UNIT, BATS, DENO];

/// Only RSpec's failed tests have names that are told from other text.
const RSPEC: Row = Row {
    summaries: &[Summary {
        after: &["Finished in "],
        pattern: r"^(?<total>\d+) examples?, (?<failed>\d+) failures?(?:, (?<skipped>\d+) pending)?(?:, (?<beyond>\d+) errors? occurred outside of examples)?$",
    }],
    ..NO_NAMES
};

const MINITEST: Row = Row {
    summaries: &[
        anywhere(
            r"^(?<total>\d+) runs, \d+ assertions, (?<failed1>\d+) failures, (?<failed2>\d+) errors, (?<skipped>\d+) skips$",
        ),
        anywhere(
            r"^(?<total>\d+) tests, \d+ assertions, (?<failed1>\d+) failures, (?<failed2>\d+) errors, (?<skipped1>\d+) pendings, (?<skipped2>\d+) omissions, \d+ notifications$",
        ),
    ],
    tests: r"^(?<name>\S+#\S+) = [0-9.]+ s = (?:(?<pass>\.)|(?<fail>[FE])|(?<skip>S))$",
    ..NO_NAMES
};

const PHPUNIT: Row = Row {
    summaries: &[
        Summary { after: &["Time: "], pattern: r"^OK \((?<total>\d+) tests?, \d+ assertions?\)$" },
        Summary {
            after: &["ERRORS!", "FAILURES!", "WARNINGS!", "OK, but "],
            pattern: r"^Tests: (?<total>\d+), Assertions: \d+(?:, Errors: (?<failed1>\d+))?(?:, Failures: (?<failed2>\d+))?(?:, (?:PHPUnit )?(?:Warnings|Deprecations|Notices): \d+)*(?:, Skipped: (?<skipped1>\d+))?(?:, Incomplete: (?<skipped2>\d+))?(?:, Risky: \d+)?\.$",
        },
        Summary { after: &["PHPUnit "], pattern: r"^No tests executed!$" },
    ],
    // `--testdox`, which repeats what was not successful.
    tests: r"^ (?:(?<pass>[✔☢⚠])|(?<fail>✘)|(?<skip>[↩∅])) (?<name>\S.*)$",
    heading: r"^(?<heading>[A-Z]\S*(?: \(\S+\))?)$",
    ..NO_NAMES
};

const MAVEN: Row = Row {
    // Lines of single classes go on with a time.
    summaries: &[anywhere(
        r"^\[[A-Z]+\] Tests run: (?<total>\d+), Failures: (?<failed1>\d+), Errors: (?<failed2>\d+), Skipped: (?<skipped>\d+)(?:, Flakes: \d+)?$",
    )],
    requires: "[INFO] ",
    ..NO_NAMES
};

const DOTNET: Row = Row {
    summaries: &[
        anywhere(
            r"^(?:Passed|Failed|Skipped)! +- Failed: +(?<failed>\d+), Passed: +(?<passed>\d+), Skipped: +(?<skipped>\d+), Total: +\d+, Duration: .*$",
        ),
        anywhere(
            r"^Test summary: total: (?<total>\d+), failed: (?<failed>\d+), succeeded: \d+, skipped: (?<skipped>\d+), duration: .*$",
        ),
    ],
    tests: r"^ +(?:(?<pass>Passed)|(?<fail>Failed)|(?<skip>Skipped)) (?<name>\S.*?) \[.*\]$",
    ..NO_NAMES
};

const EX_UNIT: Row = Row {
    summaries: &[Summary {
        after: &["Finished in "],
        pattern: r"^(?:(?<total1>\d+) doctests?, )?(?:(?<total2>\d+) propert(?:y|ies), )?(?<total3>\d+) tests?, (?<failed1>\d+) failures?(?:, (?<failed2>\d+) invalid)?(?:, (?<skipped1>\d+) excluded)?(?:, (?<skipped2>\d+) skipped)?$",
    }],
    // `--trace`; a failed test has a time like one that passed, and a number below it.
    tests: r"^  (?:\* (?<name>(?:test|doctest|property) .*) \((?:(?<pass>[0-9.]+ms)|(?<skip>skipped|excluded))\) \[L#\d+\]|(?<fail>\d+)\) (?<failing>(?:test|doctest|property) .*) \((?<module>\S+)\))$",
    heading: r"^(?<heading>\S+) \[.*\.exs\]$",
    ..NO_NAMES
};

const BATS: Row = Row {
    summaries: &[Summary {
        after: &["✓ ", "✗ ", "- ", "failed", ".bats"],
        pattern: r"^(?<total>\d+) tests?, (?<failed>\d+) failures?(?:, (?<skipped>\d+) skipped)?(?:, \d+ not run)?(?: in \d+ seconds)?$",
    }],
    ..NO_NAMES
};

const DENO: Row = Row {
    summaries: &[anywhere(
        r"^(?:ok|FAILED) \| (?<passed>\d+) passed(?: \(\d+ steps?\))? \| (?<failed>\d+) failed(?: \(\d+ steps?\))?(?: \| (?<skipped>\d+) ignored(?: \(\d+ steps?\))?)?(?: \| \d+ measured)?(?: \| \d+ filtered out)?(?: \([^|]*\))?$",
    )],
    tests: r"^(?<name>\S.*?) \.\.\. (?:(?<pass>ok)|(?<fail>FAILED)|(?<skip>ignored))(?: \(.*\))?$",
    heading: r"^running \d+ tests? from (?<heading>.*)$",
    output: Some(("------- output -------", "----- output end -----")),
    ..NO_NAMES
};

/// A row with its patterns compiled, which takes too long to do for each output.
struct CompiledRow {
    row: &'static Row,
    /// All that follow: most lines of an output match none, and this is told without looking for groups.
    any: RegexSet,
    summaries: Vec<(&'static [&'static str], Regex)>,
    tests: Option<Regex>,
    heading: Option<Regex>,
}

static COMPILED: LazyLock<Vec<CompiledRow>> = LazyLock::new(|| {
    let compile = |pattern: &str| Regex::new(pattern).ok().filter(|_| !pattern.is_empty());
    let rows = ROWS.iter().map(|row| {
        let summaries = row.summaries.iter();
        let summaries = summaries.filter_map(|one| Some((one.after, compile(one.pattern)?)));
        CompiledRow {
            row,
            any: RegexSet::new(row.patterns()).unwrap_or_default(),
            summaries: summaries.collect(),
            tests: compile(row.tests),
            heading: compile(row.heading),
        }
    });
    rows.collect()
});

/// Reads the lines of one row.
pub(super) struct SummaryLine {
    row: &'static CompiledRow,
    names: RunNames,
    heading: String,
    /// The line before, empty ones aside.
    before: String,
    has_required: bool,
    is_in_output: bool,
}

/// Makes a reader for each row.
pub(super) fn summary_lines() -> impl Iterator<Item = Box<dyn RunnerReader>> {
    COMPILED.iter().map(|compiled| {
        let reader = SummaryLine {
            row: compiled,
            names: RunNames::default(),
            heading: String::new(),
            before: String::new(),
            has_required: compiled.row.requires.is_empty(),
            is_in_output: false,
        };
        Box::new(reader) as Box<dyn RunnerReader>
    })
}

impl RunnerReader for SummaryLine {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let line = line.trim_end();
        if let Some((begin, end)) = self.row.row.output {
            self.is_in_output = line == begin || self.is_in_output && line != end;
        }
        if self.is_in_output || line.is_empty() {
            return None;
        }
        self.has_required = self.has_required || line.starts_with(self.row.row.requires);
        if !self.row.any.is_match(line) {
            self.keep(line);
            return None;
        }
        let counts = self.summary(line).filter(|_| self.has_required);
        self.keep(line);
        if let Some(counts) = counts {
            return Some(RunnerReport { counts, names: std::mem::take(&mut self.names) });
        }
        if let Some(found) = self.row.tests.as_ref().and_then(|tests| tests.captures(line)) {
            let (name, outcome) = named_test(&found, &self.heading)?;
            self.names.add(name, outcome);
        } else if let Some(found) = self.row.heading.as_ref().and_then(|one| one.captures(line)) {
            let heading = found.name("heading")?.as_str();
            if heading.len() <= MAX_HEADING_BYTES {
                heading.clone_into(&mut self.heading);
            }
        }
        None
    }

    fn end_listing(&mut self) {
        self.names = RunNames::default();
    }

    fn is_enclosing(&self) -> bool {
        self.is_in_output
    }
}

impl SummaryLine {
    fn keep(&mut self, line: &str) {
        self.before.clear();
        self.before.push_str(line);
    }

    fn summary(&self, line: &str) -> Option<TestCounts> {
        let fits = |after: &[&str]| after.iter().any(|before| self.before.contains(before));
        let mut summaries = self.row.summaries.iter().filter(|(after, _)| fits(after));
        let (pattern, found) =
            summaries.find_map(|(_, pattern)| Some((pattern, pattern.captures(line)?)))?;
        counts(pattern, &found)
    }
}

/// Adds up the groups of a summary; none if a number is too large to be one.
fn counts(pattern: &Regex, found: &Captures<'_>) -> Option<TestCounts> {
    let sum = |word: &str| {
        let groups = pattern.capture_names().flatten().filter(|name| name.starts_with(word));
        let numbers = groups
            .filter_map(|name| found.name(name))
            .map(|number| number.as_str().parse::<u64>().ok());
        numbers.into_iter().try_fold(0_u64, |sum, number| Some(sum.saturating_add(number?)))
    };
    let (failed, skipped, total) = (sum("failed")?, sum("skipped")?, sum("total")?);
    let mut counts = TestCounts::from_total(total, failed, skipped);
    let more = TestCounts { passed: sum("passed")?, failed: sum("beyond")?, skipped: 0 };
    counts.add(more);
    Some(counts)
}

fn named_test(found: &Captures<'_>, heading: &str) -> Option<(String, TestOutcome)> {
    let name = strip_time(found.name("name").or_else(|| found.name("failing"))?.as_str());
    let heading = found.name("module").map_or(heading, |module| module.as_str());
    let outcome = if found.name("pass").is_some() {
        TestOutcome::Passed
    } else if found.name("fail").is_some() {
        TestOutcome::Failed
    } else {
        TestOutcome::Skipped
    };
    let name = if heading.is_empty() { name.to_owned() } else { format!("{heading} > {name}") };
    Some((name, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for row in ROWS {
            for pattern in row.patterns() {
                assert!(Regex::new(pattern).is_ok(), "{pattern}");
            }
            assert!(RegexSet::new(row.patterns()).is_ok());
        }
    }
}
