//! Finds the parts of a Markdown text that are code or comments.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use crate::text;

/// The depth of block quotes on one line that is parsed; a further `>` is text. For each line that
/// continues a quote, pulldown-cmark needs time proportional to the depth.
const MAX_QUOTES: usize = 32;

/// The kind of Markdown element that contains a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkdownContext {
    /// A block between ``` or ~~~.
    Fence,
    /// A block indented by four columns.
    Indented,
    /// Between backticks.
    Code,
    /// A comment, or preformatted HTML.
    Html,
}

/// The code and comments of a text.
#[derive(Debug)]
pub(crate) struct MarkdownStructure {
    ranges: Vec<(Range<usize>, MarkdownContext)>,
}

impl MarkdownStructure {
    /// Parses a text in linear time.
    pub(crate) fn parse(text: &str) -> Self {
        let masked = mask(text);
        let mut ranges: Vec<_> = Parser::new_ext(&masked, Options::empty())
            .into_offset_iter()
            .filter_map(|(event, range)| {
                let inside = match event {
                    Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                        MarkdownContext::Fence
                    }
                    Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                        MarkdownContext::Indented
                    }
                    Event::Code(_) => MarkdownContext::Code,
                    Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => MarkdownContext::Html,
                    _ => return None,
                };
                Some((range, inside))
            })
            .collect();
        ranges.sort_by_key(|(range, _)| range.start);
        Self { ranges }
    }

    /// Returns the context of the byte at `offset`; `None` if it is plain text.
    pub(crate) fn context_at(&self, offset: usize) -> Option<MarkdownContext> {
        let after = self.ranges.partition_point(|(range, _)| range.start <= offset);
        let (range, inside) = self.ranges.get(after.checked_sub(1)?)?;
        range.contains(&offset).then_some(*inside)
    }
}

/// Returns a copy of the same length that keeps only quotes, lists, code, comments and `<pre>` of Markdown.
/// Otherwise a stray `<div>` would hide the fence on the next line, and a claim's tag would itself be HTML.
fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (line, end) in text::lines(text) {
        let mut quotes = 0;
        let mut leading = true;
        let content = text.get(line.clone()).unwrap_or_default();
        for (at, c) in content.char_indices() {
            leading =
                leading && matches!(c, ' ' | '\t' | '>' | '-' | '+' | '*' | '.' | ')' | '0'..='9');
            quotes += usize::from(leading && c == '>');
            let plain = match c {
                '<' => !opens_html(content.get(at..).unwrap_or_default()),
                '[' => true,
                '>' => leading && quotes > MAX_QUOTES,
                _ => false,
            };
            out.push(if plain { 'x' } else { c });
        }
        out.push_str(text.get(line.end..end).unwrap_or_default());
    }
    out
}

fn opens_html(text: &str) -> bool {
    let pre = text.get(..4).is_some_and(|tag| tag.eq_ignore_ascii_case("<pre"))
        && !text.get(4..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    pre || text.starts_with("<!--")
}

/// Whether a line is in a block quote by its own `>`. Lazy continuation does not count: a line appended
/// below a quote would be one.
pub(crate) fn is_quoted(line: &str) -> bool {
    let mut rest = line.trim_start();
    loop {
        if rest.starts_with('>') {
            return true;
        }
        let Some(next) = strip_bullet(rest) else { return false };
        rest = next;
    }
}

/// Returns what follows a list marker: `-`, `*`, `+`, `1.` or `1)`, and white space.
pub(crate) fn strip_bullet(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix(['-', '*', '+']) {
        Some(rest) => rest,
        None => {
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=9).contains(&digits) {
                return None;
            }
            line.get(digits..)?.strip_prefix(['.', ')'])?
        }
    };
    let content = rest.trim_start();
    (content.len() < rest.len()).then_some(content)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_context_of_x() {
        let table = [
            ("X", None),
            ("```\nX\n```", Some(MarkdownContext::Fence)),
            ("````\n```\nX\n````", Some(MarkdownContext::Fence)),
            ("~~~ text\n```\nX", Some(MarkdownContext::Fence)),
            ("- a\n  ```\n  X\n  ```", Some(MarkdownContext::Fence)),
            ("1. a\n\n   ~~~\n   X\n", Some(MarkdownContext::Fence)),
            ("<div>\n```\nX\n```", Some(MarkdownContext::Fence)),
            ("```\na\n```\nX", None),
            ("> ```\nX", None),
            ("- ```\nX", None),
            ("a\n\n    X", Some(MarkdownContext::Indented)),
            ("a\n    X", None),
            ("- a\n    - X", None),
            ("- a\n\n      X", Some(MarkdownContext::Indented)),
            ("a `b X` c", Some(MarkdownContext::Code)),
            ("a `` b ` X `` c", Some(MarkdownContext::Code)),
            ("a `b\nX\nc` d", Some(MarkdownContext::Code)),
            ("a ` b X", None),
            ("<promise>`X`</promise>", Some(MarkdownContext::Code)),
            ("<!-- X -->", Some(MarkdownContext::Html)),
            ("a <!-- b\nX --> c", Some(MarkdownContext::Html)),
            ("<!--\n\n```\n\n-->\nX", None),
            ("<!-- never closed\n\nX", Some(MarkdownContext::Html)),
            ("a <!-- never closed X", None),
            ("```\n<!--\n```\nX", None),
            ("<PRE>\nX\n</PRE>", Some(MarkdownContext::Html)),
            ("<prefix>\nX", None),
            ("<details>\nX\n</details>", None),
            ("[a]: b 'c\nX '", None),
        ];
        for (text, inside) in table {
            assert_eq!(
                MarkdownStructure::parse(text).context_at(text.find('X').unwrap()),
                inside,
                "{text:?}"
            );
        }
    }

    #[test]
    fn quotes_by_their_own_mark() {
        for quoted in ["> a", "  >a", "- > a", "1. * > a", ">"] {
            assert!(is_quoted(quoted), "{quoted:?}");
        }
        for plain in ["a > b", "-> a", "- a", "1234567890. > a", "", "*> a"] {
            assert!(!is_quoted(plain), "{plain:?}");
        }
    }

    proptest! {
        #[test]
        fn a_mask_keeps_every_offset(text in "\\PC*|[<>!\\-\\[pre \n\r`é]*") {
            let masked = mask(&text);
            prop_assert_eq!(masked.len(), text.len());
            prop_assert_eq!(text::lines(&masked).count(), text::lines(&text).count());
        }
    }
}
