//! What the agent was given, to tell its own words from an echo of it.

use unicode_normalization::UnicodeNormalization as _;

use crate::text;

/// So many claims of one message are looked for, from its end; a message with more of them that are all
/// echoes is one as a whole.
pub(super) const MOST_CLAIMS: usize = 32;

/// What the agent was given, in the one form in which claims are compared with it: how it is wrapped,
/// indented, coloured or escaped makes no claim the agent's own.
pub(super) struct Given {
    canonical: String,
}

impl Given {
    pub(super) fn of(text: &str) -> Self {
        Self { canonical: canonical(text) }
    }

    /// Whether a tag with this word and text stands in it, be it on a line of its own, in a sentence, in
    /// code or in a quote.
    pub(super) fn has(&self, tag: &str, word: &str, message: &str) -> bool {
        let message = canonical(message);
        let stands = |between: &str| {
            let whole = format!("<{tag}>{word}{between}{message}</{tag}>");
            self.canonical.contains(&canonical(&whole))
        };
        // Without a message the colon may be missing.
        stands(":") || (message.is_empty() && stands(""))
    }
}

/// The text without all that does not show or that changes when it is passed on: escape sequences,
/// zero-width characters, white space, Markdown escapes; full-width letters are made plain (NFKC).
fn canonical(text: &str) -> String {
    let visible = text::strip_ansi(text);
    let mut out = String::with_capacity(visible.len());
    let mut chars = visible.chars().filter(|c| !text::is_zero_width(*c)).nfkc().peekable();
    while let Some(c) = chars.next() {
        let escapes = c == '\\' && chars.peek().is_some_and(char::is_ascii_punctuation);
        if !escapes && !c.is_whitespace() {
            out.push(c);
        }
    }
    out
}
