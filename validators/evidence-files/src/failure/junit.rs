//! JUnit's XML, as most test runners write it.

use super::{Failure, at};

const TOOL: &str = "JUnit report";

/// Whether the document is a report, and then the failure that it reports.
pub(super) fn find(text: &str) -> Option<Option<Failure>> {
    let mut tags = Tags { text, at: 0 };
    let mut next = tags.next();
    if !next.as_ref().is_some_and(Tag::is_suite) {
        return None;
    }
    let mut case = None;
    let mut first_case = None;
    while let Some(tag) = next {
        if tag.is_suite() && tag.counts_failures() {
            return Some(Some(at(text, tag.at, TOOL)));
        }
        match (tag.name, &mut case) {
            ("testcase", _) => case = (!tag.is_empty).then(Case::default),
            ("failure" | "error", Some(Case { failed, .. })) => {
                failed.get_or_insert(tag.at);
            }
            ("skipped", Some(Case { skipped, .. })) => *skipped = true,
            ("/testcase", Some(Case { failed: Some(at), skipped: false })) => {
                first_case.get_or_insert(*at);
            }
            _ => {}
        }
        if tag.name == "/testcase" {
            case = None;
        }
        next = tags.next();
    }
    Some(first_case.map(|byte| at(text, byte, TOOL)))
}

/// A test. One that is skipped, or to be done later, may fail.
#[derive(Default)]
struct Case {
    failed: Option<usize>,
    skipped: bool,
}

/// A tag that begins or ends an element.
struct Tag<'a> {
    /// Its first byte in the document.
    at: usize,
    /// With a slash before it if it ends an element.
    name: &'a str,
    attributes: &'a str,
    is_empty: bool,
}

impl Tag<'_> {
    fn is_suite(&self) -> bool {
        matches!(self.name, "testsuites" | "testsuite")
    }

    fn counts_failures(&self) -> bool {
        let mut rest = self.attributes;
        while let Some((name, quoted)) = rest.split_once('=') {
            let quoted = quoted.trim_start();
            let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''));
            let Some((value, after)) =
                quote.and_then(|quote| quoted.get(1..).and_then(|rest| rest.split_once(quote)))
            else {
                return false;
            };
            let counts = matches!(name.trim(), "failures" | "errors");
            if counts && value.trim().parse::<u64>().is_ok_and(|count| count > 0) {
                return true;
            }
            rest = after;
        }
        false
    }
}

/// The tags of a document, in order; what stands in comments, instructions, declarations and
/// character data is none.
struct Tags<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tags<'a> {
    /// Goes on after the next `end`, or to the end of the document.
    fn skip(&mut self, end: &str) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at = rest.find(end).map_or(self.text.len(), |found| self.at + found + end.len());
    }

    /// The end of the tag that begins here: the first `>` outside quotes.
    fn end(&self) -> Option<usize> {
        let mut quote = None;
        let rest = self.text.get(self.at..)?;
        for (index, byte) in rest.bytes().enumerate() {
            match (quote, byte) {
                (None, b'>') => return Some(self.at + index),
                (None, b'"' | b'\'') => quote = Some(byte),
                (Some(open), byte) if open == byte => quote = None,
                _ => {}
            }
        }
        None
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        loop {
            let rest = self.text.get(self.at..)?;
            let start = self.at + rest.find('<')?;
            self.at = start;
            let rest = self.text.get(start..)?;
            if rest.starts_with("<!--") {
                self.skip("-->");
            } else if rest.starts_with("<![CDATA[") {
                self.skip("]]>");
            } else if rest.starts_with("<?") {
                self.skip("?>");
            } else if rest.starts_with("<!") {
                let inner =
                    rest.find('[').is_some_and(|at| rest.find('>').is_some_and(|end| at < end));
                self.skip(if inner { "]>" } else { ">" });
            } else {
                let end = self.end()?;
                self.at = end + 1;
                let inside = self.text.get(start + 1..end)?;
                let is_empty = inside.ends_with('/');
                let inside = inside.strip_suffix('/').unwrap_or(inside);
                let name_end = inside.find(char::is_whitespace).unwrap_or(inside.len());
                let (name, attributes) = inside.split_at_checked(name_end)?;
                return Some(Tag { at: start, name, attributes, is_empty });
            }
        }
    }
}
