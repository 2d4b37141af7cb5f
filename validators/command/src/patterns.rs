//! What the output must and must not contain, matched line by line while it is printed.

use std::borrow::Cow;

use ralph_orchestrator_contract::BuildError;
use ralph_orchestrator_text::{escape, escape_line, strip_escape_sequences};
use regex::{Regex, RegexBuilder};

use crate::config::{Config, Patterns};

/// The compiled expressions of one validator.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    must_match: Vec<Regex>,
    must_not_match: Vec<Regex>,
}

impl Rules {
    pub(crate) fn compile(config: &Config) -> Result<Self, BuildError> {
        Ok(Self {
            must_match: compile("must_match", &config.must_match)?,
            must_not_match: compile("must_not_match", &config.must_not_match)?,
        })
    }

    /// Returns what they demand, for the agent; empty if nothing.
    pub(crate) fn demands(&self) -> String {
        let list = |rules: &[Regex], says: &str| -> String {
            rules.iter().map(|rule| format!(", {says} {}", quote_rule(rule))).collect()
        };
        list(&self.must_match, "a line of its output matches")
            + &list(&self.must_not_match, "no line of its output matches")
    }
}

fn compile(key: &str, patterns: &Patterns) -> Result<Vec<Regex>, BuildError> {
    let each = patterns.as_slice().iter().enumerate();
    each.map(|(index, pattern)| {
        let mistake =
            |message| BuildError { key: patterns.key(key, index), unknown_key: None, message };
        if pattern.is_empty() {
            return Err(mistake("expected a regular expression: an empty one matches all".into()));
        }
        let regex = RegexBuilder::new(pattern).multi_line(true).build();
        regex.map_err(|error| mistake(format!("not a regular expression: {error}")))
    })
    .collect()
}

/// The groups of an expression whose numbers are compared: at least one test ran that was not skipped.
const RAN: &str = "ran";
const SKIPPED: &str = "skipped";

/// Whether a line matches, and its numbers of tests, if the expression has groups for them, differ.
fn is_match(rule: &Regex, line: &str) -> bool {
    if !compares(rule) {
        return rule.is_match(line);
    }
    rule.captures_iter(line).any(|found| {
        let digits = |group| found.name(group).map(|digits| digits.as_str());
        let number = |group| digits(group).map_or(Ok(0), str::parse::<u64>);
        match (digits(RAN), number(RAN), number(SKIPPED)) {
            (None, _, _) => true,
            (Some(_), Ok(ran), Ok(skipped)) => ran > skipped,
            _ => false,
        }
    })
}

/// Whether the expression has groups for numbers of tests.
fn compares(rule: &Regex) -> bool {
    rule.capture_names().flatten().any(|name| name == RAN)
}

/// An expression for messages.
fn quote_rule(rule: &Regex) -> String {
    let more = if compares(rule) { " with `ran` greater than `skipped`" } else { "" };
    format!("/{}/{more}", escape_line(rule.as_str()))
}

/// Matches the lines of one output.
#[derive(Debug)]
pub(crate) struct PatternMatcher<'a> {
    rules: &'a Rules,
    matched: Vec<bool>,
    /// For each forbidden expression the first line that it matched.
    offending: Vec<Option<String>>,
    /// Bytes of overlong lines that no expression has seen.
    unseen: u64,
}

impl<'a> PatternMatcher<'a> {
    pub(crate) fn new(rules: &'a Rules) -> Self {
        Self {
            rules,
            matched: vec![false; rules.must_match.len()],
            offending: vec![None; rules.must_not_match.len()],
            unseen: 0,
        }
    }

    /// Matches a line; `dropped` bytes of it are missing at its end.
    pub(crate) fn line(&mut self, line: &str, dropped: u64) {
        let plain = strip_escape_sequences(line);
        self.unseen = self.unseen.saturating_add(dropped);
        for (rule, matched) in self.rules.must_match.iter().zip(&mut self.matched) {
            *matched = *matched || is_match(rule, &plain);
        }
        // Neither colours nor what only looks like a colour may hide a forbidden word.
        let coloured = matches!(plain, Cow::Owned(_)).then_some(line);
        let forbidden = self.rules.must_not_match.iter().zip(&mut self.offending);
        for (rule, offending) in forbidden.filter(|(_, offending)| offending.is_none()) {
            let mut seen = [Some(plain.as_ref()), coloured].into_iter().flatten();
            *offending = seen.find_map(|line| Some(quote(line, rule.find(line)?.start())));
        }
    }

    /// Returns how the whole output breaks the rules.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let missing = self.rules.must_match.iter().zip(&self.matched);
        let missing = missing
            .filter(|(_, matched)| !**matched)
            .map(|(rule, _)| format!("no line of its output matches {}", quote_rule(rule)));
        let forbidden = self.rules.must_not_match.iter().zip(&self.offending);
        let forbidden = forbidden.filter_map(|(rule, line)| {
            let line = line.as_ref()?;
            Some(format!(
                "its output must not match /{}/ but says: {line}",
                escape_line(rule.as_str())
            ))
        });
        let unseen = (self.unseen > 0 && !self.rules.must_not_match.is_empty()).then(|| {
            format!(
                "its output has lines so long that {} bytes could not be searched for what it must \
                 not say: print shorter lines",
                self.unseen
            )
        });
        missing.chain(forbidden).chain(unseen).collect()
    }
}

/// The part of a line around the byte `at`.
fn quote(line: &str, at: usize) -> String {
    let start = line.floor_char_boundary(at.saturating_sub(80));
    let end = line.floor_char_boundary(at.saturating_add(160));
    let before = if start > 0 { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    format!("{before}{}{after}", escape(line.get(start..end).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[allow(clippy::needless_pass_by_value)]
    fn rules(table: serde_json::Value) -> Result<Rules, BuildError> {
        let mut config = json!({"program": ["x"]});
        config.as_object_mut().unwrap().extend(table.as_object().unwrap().clone());
        Rules::compile(&Config::parse(config).unwrap())
    }

    fn complaints(rules: &Rules, lines: &[&str]) -> Vec<String> {
        let mut watch = PatternMatcher::new(rules);
        lines.iter().for_each(|line| watch.line(line, 0));
        watch.complaints()
    }

    #[test]
    fn every_expression_has_to_match_some_line() {
        let rules = rules(json!({"must_match": ["^[1-9]\\d* passed$", "ok"]})).unwrap();
        assert_eq!(complaints(&rules, &["x", "12 passed", "ok"]), [""; 0]);
        assert_eq!(complaints(&rules, &["12 passed, 1 failed", "ok"]).len(), 1);
        assert_eq!(complaints(&rules, &[]).len(), 2);
    }

    #[test]
    fn no_forbidden_expression_may_match_even_in_colour() {
        let rules = rules(json!({"must_not_match": "[1-9]\\d* (failed|skipped)"})).unwrap();
        assert_eq!(complaints(&rules, &["0 failed"]), [""; 0]);
        let said =
            complaints(&rules, &["3 pas\u{1b}[0msed", "\u{1b}[31m1\u{1b}[0m skipped", "2 failed"]);
        assert_eq!(said.len(), 1);
        assert!(said[0].ends_with("but says: 1 skipped"), "{said:?}");
        // A sequence without an end swallows the rest of the line on a terminal, not here.
        assert_eq!(complaints(&rules, &["\u{1b}]0;1 failed"]).len(), 1);
    }

    #[test]
    fn tests_that_were_all_skipped_are_no_match() {
        let pattern = r"^(?<ran>[1-9]\d*) examples?, 0 failures(, (?<skipped>\d+) pending)?|^fine$";
        let rules = rules(json!({ "must_match": pattern })).unwrap();
        for line in ["3 examples, 0 failures", "3 examples, 0 failures, 2 pending", "fine"] {
            assert_eq!(complaints(&rules, &[line]), [""; 0], "{line}");
        }
        for line in [
            "3 examples, 0 failures, 3 pending",
            "0 examples, 0 failures",
            "3 examples, 0 failures, 99999999999999999999999 pending",
        ] {
            let said = complaints(&rules, &[line]);
            assert!(said[0].ends_with("/ with `ran` greater than `skipped`"), "{line}: {said:?}");
        }
        // What is skipped in one line may run in another.
        let lines = ["3 examples, 0 failures, 3 pending", "2 examples, 0 failures"];
        assert_eq!(complaints(&rules, &lines), [""; 0]);
    }

    #[test]
    fn what_could_not_be_searched_is_no_proof_of_absence() {
        let forbidding = rules(json!({"must_not_match": "FAIL"})).unwrap();
        let mut watch = PatternMatcher::new(&forbidding);
        watch.line("xxx", 5);
        assert!(watch.complaints()[0].contains("5 bytes"));
        let wanting = rules(json!({"must_match": "xxx"})).unwrap();
        let mut watch = PatternMatcher::new(&wanting);
        watch.line("xxx", 5);
        assert!(watch.complaints().is_empty());
    }

    #[test]
    fn bad_expressions_are_named_by_their_key() {
        assert_eq!(rules(json!({"must_match": "("})).unwrap_err().key, ["must_match"]);
        let second = rules(json!({"must_not_match": ["a", "[z-a]"]})).unwrap_err();
        assert_eq!(second.key, ["must_not_match", "1"]);
        assert_eq!(rules(json!({"must_match": [""]})).unwrap_err().key, ["must_match", "0"]);
    }
}
