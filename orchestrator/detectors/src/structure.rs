//! Which parts of a Markdown text are code or comment.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use crate::text;

/// Block quotes on one line; beyond them a `>` is taken for text. pulldown-cmark needs time in
/// proportion to the depth for each line that continues a quote.
const MAX_QUOTES: usize = 32;

/// What a piece of text stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// A block between ``` or ~~~.
    Fence,
    /// A block indented by four columns.
    Indented,
    /// Between backticks.
    Code,
    /// A comment, or preformatted HTML.
    Html,
}

/// The parts of a text that are not plain.
#[derive(Debug)]
pub(crate) struct Structure {
    ranges: Vec<(Range<usize>, Inside)>,
}

impl Structure {
    /// Reads a text. Needs time in proportion to its length.
    pub(crate) fn of(text: &str) -> Self {
        let masked = mask(text);
        let mut ranges: Vec<_> = Parser::new_ext(&masked, Options::empty())
            .into_offset_iter()
            .filter_map(|(event, range)| {
                let inside = match event {
                    Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => Inside::Fence,
                    Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => Inside::Indented,
                    Event::Code(_) => Inside::Code,
                    Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => Inside::Html,
                    _ => return None,
                };
                Some((range, inside))
            })
            .collect();
        ranges.sort_by_key(|(range, _)| range.start);
        Self { ranges }
    }

    /// What the byte at `offset` stands in; `None` if it is plain text.
    pub(crate) fn at(&self, offset: usize) -> Option<Inside> {
        let after = self.ranges.partition_point(|(range, _)| range.start <= offset);
        let (range, inside) = self.ranges.get(after.checked_sub(1)?)?;
        range.contains(&offset).then_some(*inside)
    }
}

/// A copy of the same length in which nothing but quotes, lists, code, comments and `<pre>` is left
/// of Markdown. Else a stray `<div>` would hide the fence on the next line, and a tag of ours would
/// itself be HTML.
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

/// Whether a line is part of a block quote by its own `>`. A line that only continues one lazily is
/// not: a line appended below a quote would be.
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

/// What follows a list marker: `-`, `*`, `+`, `1.` or `1)`, and white space.
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
    fn where_an_x_stands() {
        let table = [
            ("X", None),
            ("```\nX\n```", Some(Inside::Fence)),
            ("````\n```\nX\n````", Some(Inside::Fence)),
            ("~~~ text\n```\nX", Some(Inside::Fence)),
            ("- a\n  ```\n  X\n  ```", Some(Inside::Fence)),
            ("1. a\n\n   ~~~\n   X\n", Some(Inside::Fence)),
            ("<div>\n```\nX\n```", Some(Inside::Fence)),
            ("```\na\n```\nX", None),
            ("> ```\nX", None),
            ("- ```\nX", None),
            ("a\n\n    X", Some(Inside::Indented)),
            ("a\n    X", None),
            ("- a\n    - X", None),
            ("- a\n\n      X", Some(Inside::Indented)),
            ("a `b X` c", Some(Inside::Code)),
            ("a `` b ` X `` c", Some(Inside::Code)),
            ("a `b\nX\nc` d", Some(Inside::Code)),
            ("a ` b X", None),
            ("<promise>`X`</promise>", Some(Inside::Code)),
            ("<!-- X -->", Some(Inside::Html)),
            ("a <!-- b\nX --> c", Some(Inside::Html)),
            ("<!--\n\n```\n\n-->\nX", None),
            ("<!-- never closed\n\nX", Some(Inside::Html)),
            ("a <!-- never closed X", None),
            ("```\n<!--\n```\nX", None),
            ("<PRE>\nX\n</PRE>", Some(Inside::Html)),
            ("<prefix>\nX", None),
            ("<details>\nX\n</details>", None),
            ("[a]: b 'c\nX '", None),
        ];
        for (text, inside) in table {
            assert_eq!(Structure::of(text).at(text.find('X').unwrap()), inside, "{text:?}");
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
