//! JUnit's XML, printed by a reporter or by `cat`: its `<testcase>`s, with what is in them.
//!
//! Where only the heads of suites are printed (`grep '<testsuite '`), their numbers count; the sums in `<testsuites>` never do.
//! Read tag by tag, because such a document is often one line. What a test has printed is not read by anybody.

use super::reader::{RunnerReader, RunnerReport};
use crate::results::{RunNames, TestCounts, TestOutcome};

/// A longer tag is not read.
const MAX_TAG: usize = 16 * 1024;

/// The tags that matter.
const TAGS: [&str; 9] = [
    "<testsuites",
    "<testsuite",
    "<testcase",
    "</testcase",
    "<failure",
    "<error",
    "<skipped",
    "<system-",
    "</system-",
];

#[derive(Default)]
pub(crate) struct JUnit {
    heads: Option<TestCounts>,
    cases: TestCounts,
    names: RunNames,
    /// The test whose element is open.
    case: Option<(String, TestOutcome)>,
    is_in_output: bool,
    /// A tag that goes on in the next piece, and the quote that is open in it.
    tag: String,
    quote: Option<char>,
}

impl RunnerReader for JUnit {
    fn read_line(&mut self, line: &str) -> Option<RunnerReport> {
        let report = self.read_other(line);
        if !self.tag.is_empty() {
            self.tag.push(' ');
        }
        report
    }

    fn read_other(&mut self, text: &str) -> Option<RunnerReport> {
        let mut rest = text;
        let mut ended = None;
        loop {
            if self.tag.is_empty() {
                let Some(tag) = find_tag(rest) else { break };
                if tag.starts_with("<?xml") {
                    // At most one in what a piece completes: a second one is of an empty document.
                    ended = self.finish().or(ended);
                    rest = tag.get(1..).unwrap_or_default();
                    continue;
                }
                rest = tag;
            }
            let Some(end) = end_of_tag(&mut self.quote, rest) else {
                self.tag.push_str(rest);
                if self.tag.len() > MAX_TAG {
                    self.tag.clear();
                    self.quote = None;
                }
                break;
            };
            let (text, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            self.tag.push_str(text);
            let tag = std::mem::take(&mut self.tag);
            self.read_tag(&tag);
            rest = after;
        }
        ended
    }

    fn finish(&mut self) -> Option<RunnerReport> {
        let ended = std::mem::take(self);
        let counts = if ended.cases.total() == 0 { ended.heads } else { Some(ended.cases) };
        counts.map(|counts| RunnerReport { counts, names: ended.names })
    }

    fn is_enclosing(&self) -> bool {
        self.heads.is_some() && (self.case.is_some() || self.is_in_output)
    }
}

impl JUnit {
    fn read_tag(&mut self, tag: &str) {
        let name_end = tag.find(|c: char| c.is_whitespace() || c == '>');
        let name = tag.get(..name_end.unwrap_or(tag.len())).unwrap_or_default();
        let is_closed = tag.ends_with("/>");
        match name.trim_end_matches('/') {
            "<testsuites" => self.heads = self.heads.or(Some(TestCounts::default())),
            "<testsuite" => {
                let mut heads = self.heads.unwrap_or_default();
                heads.add(suite_counts(tag));
                self.heads = Some(heads);
            }
            "<testcase" if self.heads.is_some() => {
                let name = attribute(tag, "name").unwrap_or_default();
                let class = attribute(tag, "classname").unwrap_or_default();
                let name = if class.is_empty() { name } else { format!("{class} > {name}") };
                self.case = Some((name, TestOutcome::Passed));
                if is_closed {
                    self.end_case();
                }
            }
            "</testcase" => self.end_case(),
            "<failure" | "<error" => self.set_outcome(TestOutcome::Failed),
            "<skipped" => self.set_outcome(TestOutcome::Skipped),
            "<system-out" | "<system-err" => self.is_in_output = !is_closed,
            "</system-out" | "</system-err" => self.is_in_output = false,
            _ => {}
        }
    }

    fn set_outcome(&mut self, outcome: TestOutcome) {
        if let Some((_, known)) = &mut self.case
            && *known != TestOutcome::Failed
        {
            *known = outcome;
        }
    }

    fn end_case(&mut self) {
        if let Some((name, outcome)) = self.case.take() {
            self.cases.add(outcome.into());
            self.names.count(name, outcome);
        }
        self.is_in_output = false;
    }
}

/// Returns the text from the first tag that matters on.
fn find_tag(text: &str) -> Option<&str> {
    let tags = text.match_indices('<').filter_map(|(at, _)| text.get(at..));
    tags.into_iter()
        .find(|tag| tag.starts_with("<?xml") || TAGS.iter().any(|known| tag.starts_with(known)))
}

/// Returns where a tag ends, outside of quotes; one may be open from an earlier piece.
fn end_of_tag(quote: &mut Option<char>, rest: &str) -> Option<usize> {
    for (at, c) in rest.char_indices() {
        if c == '>' && quote.is_none() {
            return Some(at + 1);
        }
        *quote = next_quote(*quote, c);
    }
    None
}

fn next_quote(quote: Option<char>, c: char) -> Option<char> {
    match quote {
        Some(open) if open == c => None,
        None if matches!(c, '"' | '\'') => Some(c),
        _ => quote,
    }
}

/// Reads the numbers of a suite's head.
fn suite_counts(tag: &str) -> TestCounts {
    let number = |name| attribute(tag, name).and_then(|text| text.parse::<u64>().ok());
    let failed = number("failures").unwrap_or(0).saturating_add(number("errors").unwrap_or(0));
    let skipped = number("skipped").or_else(|| number("disabled")).unwrap_or(0);
    TestCounts::from_total(number("tests").unwrap_or(0), failed, skipped)
}

/// Returns the value of an attribute.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let mut rest = tag;
    while let Some((before, after)) = rest.split_once('=') {
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, next) = after.get(1..)?.split_once(quote)?;
        if before.split_whitespace().next_back() == Some(name) {
            return Some(unescape(value));
        }
        rest = next;
    }
    None
}

fn unescape(value: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    let mut text = value.to_owned();
    for (entity, character) in entities {
        text = text.replace(entity, character);
    }
    text
}
