//! Opening and closing tags in a message, and their surroundings.

use std::ops::Range;

use crate::markdown::{MarkdownContext, MarkdownStructure, is_quoted};
use crate::text;

/// The largest number of lines between a tag and its closing tag; beyond it, the closing tag was forgotten.
const MAX_LINES: usize = 40;

/// Why a tag is a near miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagNearMiss {
    Code,
    Comment,
    Quote,
    TextFollows,
    TagCase,
    Keyword,
    Unclosed,
    TooLong,
    /// It occurs in the agent's input.
    Echo,
}

impl TagNearMiss {
    /// Returns the first half of a sentence.
    pub(super) fn explain(self, tag: &str, complete: &str, needs_human: &str) -> String {
        match self {
            Self::Code => format!("the `<{tag}>` tag is in code here"),
            Self::Comment => format!("the `<{tag}>` tag is in an HTML comment here"),
            Self::Quote => format!("the `<{tag}>` tag is in a quote here"),
            Self::TextFollows => format!("there is other text after `</{tag}>` on its line"),
            Self::TagCase => format!("the tag is not written exactly as `<{tag}>` and `</{tag}>`"),
            Self::Keyword => {
                format!("`<{tag}>` is not followed by `{complete}:` or `{needs_human}:`")
            }
            Self::Unclosed => format!("`<{tag}>` is not closed by `</{tag}>`"),
            Self::TooLong => {
                format!("`</{tag}>` comes more than {MAX_LINES} lines after `<{tag}>`")
            }
            Self::Echo => "it occurs word for word in what the agent was given".to_owned(),
        }
    }
}

/// One tag.
#[derive(Clone, Debug)]
pub(super) struct Token {
    range: Range<usize>,
    closing: bool,
    exact: bool,
    context: Option<MarkdownContext>,
}

/// An opening tag and the closing tag that belongs to it, if there is one.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) opening: Token,
    pub(super) closing: Option<Token>,
}

/// A message with its lines and tags.
pub(super) struct Message<'a> {
    text: &'a str,
    /// Range and whether it is quoted.
    lines: Vec<(Range<usize>, bool)>,
    tokens: Vec<Token>,
}

impl<'a> Message<'a> {
    /// Parses a message; `None` if it contains no tag.
    pub(super) fn parse(text: &'a str, tag: &str) -> Option<Self> {
        let mut tokens: Vec<_> = text
            .match_indices('<')
            .filter_map(|(start, _)| parse_token(text.get(start..)?, tag, start))
            .collect();
        if tokens.is_empty() {
            return None;
        }
        let structure = MarkdownStructure::parse(text);
        for token in &mut tokens {
            // An indented line of a message is rarely an example.
            token.context = structure
                .context_at(token.range.start)
                .filter(|context| *context != MarkdownContext::Indented);
        }
        let lines = text::lines(text)
            .map(|(line, _)| (line.clone(), text.get(line).is_some_and(is_quoted)))
            .collect();
        Some(Self { text, lines, tokens })
    }

    /// Returns the tags in pairs: a closing tag belongs to the last opening one before it. A tag in code
    /// neither opens nor closes a tag outside of it.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        let mut open: Option<&Token> = None;
        for token in &self.tokens {
            let blocked =
                open.is_some_and(|open| open.context.is_none() && token.context.is_some());
            if blocked {
                continue;
            }
            let before = if token.closing { open.take() } else { open.replace(token) };
            if let Some(opening) = before {
                let closing = token.closing.then(|| token.clone());
                pairs.push(Pair { opening: opening.clone(), closing });
            }
        }
        pairs.extend(open.map(|opening| Pair { opening: opening.clone(), closing: None }));
        pairs
    }

    /// Returns why a pair is not a claim, whatever its content.
    pub(super) fn near_miss_reason(&self, pair: &Pair) -> Option<TagNearMiss> {
        let Pair { opening, closing } = pair;
        let Some(closing) = closing else { return Some(TagNearMiss::Unclosed) };
        let (first, last) = (self.line(opening), self.line(closing));
        let quoted = |line: usize| self.lines.get(line).is_some_and(|(_, quoted)| *quoted);
        match opening.context.or(closing.context) {
            Some(MarkdownContext::Html) => Some(TagNearMiss::Comment),
            Some(_) => Some(TagNearMiss::Code),
            None if quoted(first) || quoted(last) => Some(TagNearMiss::Quote),
            None if !opening.exact || !closing.exact => Some(TagNearMiss::TagCase),
            None if !self.ends_line(closing) => Some(TagNearMiss::TextFollows),
            None if last - first >= MAX_LINES => Some(TagNearMiss::TooLong),
            None => None,
        }
    }

    /// Returns the text between two tags.
    pub(super) fn between(&self, opening: &Token, closing: &Token) -> &'a str {
        self.text.get(opening.range.end..closing.range.start).unwrap_or_default()
    }

    /// Returns the ranges between each opening tag and the next closing one.
    pub(super) fn contents(&self) -> Vec<Range<usize>> {
        let pairs = self.tokens.iter().zip(self.tokens.iter().skip(1));
        pairs
            .filter(|(opening, closing)| !opening.closing && closing.closing)
            .map(|(opening, closing)| opening.range.end..closing.range.start)
            .collect()
    }

    /// Returns all text after a tag.
    pub(super) fn after(&self, token: &Token) -> &'a str {
        self.text.get(token.range.end..).unwrap_or_default()
    }

    /// Returns number, from 1, and text of the line on which a tag begins.
    pub(super) fn line_of(&self, token: &Token) -> (u64, &'a str) {
        let index = self.line(token);
        let text = self.lines.get(index).and_then(|(line, _)| self.text.get(line.clone()));
        (u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1), text.unwrap_or_default())
    }

    fn line(&self, token: &Token) -> usize {
        let after = self.lines.partition_point(|(line, _)| line.start <= token.range.start);
        after.saturating_sub(1)
    }

    /// Whether only emphasis, punctuation and symbols follow on the tag's line. A quotation mark, a bracket
    /// or a dash means that the tag is mentioned, or that the sentence continues.
    fn ends_line(&self, token: &Token) -> bool {
        const CONTINUATION: &str = "`\"'“”„‘’«»‹›<>|/\\([{}]&@#$%^=+-–—→";
        self.after(token)
            .chars()
            .take_while(|c| !matches!(c, '\n' | '\r'))
            .all(|c| !c.is_alphanumeric() && !CONTINUATION.contains(c))
    }
}

/// Parses the tag that `text` begins with.
fn parse_token(text: &str, tag: &str, start: usize) -> Option<Token> {
    let inner = text.strip_prefix('<')?.trim_start_matches([' ', '\t']);
    let (closing, name) = match inner.strip_prefix('/') {
        Some(name) => (true, name.trim_start_matches([' ', '\t'])),
        None => (false, inner),
    };
    let head = name.get(..tag.len()).filter(|head| head.eq_ignore_ascii_case(tag))?;
    let rest = name.get(tag.len()..)?.trim_start_matches([' ', '\t']).strip_prefix('>')?;
    let length = text.len() - rest.len();
    let plain = tag.len() + if closing { "</>".len() } else { "<>".len() };
    let exact = head == tag && length == plain;
    Some(Token { range: start..start + length, closing, exact, context: None })
}
