//! The agent's input, to distinguish its own claims from echoes.

use ralph_orchestrator_text::{is_zero_width, strip_escape_sequences};
use unicode_normalization::UnicodeNormalization as _;

/// The number of claims of one message that are compared with the input, from its end. If all of them are
/// echoes, the message has no claim.
pub(super) const MAX_CLAIMS: usize = 32;

/// The agent's input in a canonical form: wrapping, indentation, colours and escapes do not make a claim the
/// agent's own.
pub(super) struct AgentInput {
    canonical: String,
}

impl AgentInput {
    pub(super) fn new(text: &str) -> Self {
        Self { canonical: canonical(text) }
    }

    /// Whether it contains a tag with this word and text anywhere, even in code or quotes.
    pub(super) fn contains(&self, tag: &str, word: &str, message: &str) -> bool {
        let message = canonical(message);
        let occurs = |between: &str| {
            let whole = format!("<{tag}>{word}{between}{message}</{tag}>");
            self.canonical.contains(&canonical(&whole))
        };
        // Without a message the colon may be missing.
        occurs(":") || (message.is_empty() && occurs(""))
    }
}

/// Removes what is invisible or may change when text is copied: escape sequences, zero-width characters,
/// white space, Markdown escapes; normalises to NFKC.
fn canonical(text: &str) -> String {
    let visible = strip_escape_sequences(text);
    let mut out = String::with_capacity(visible.len());
    let mut chars = visible.chars().filter(|c| !is_zero_width(*c)).nfkc().peekable();
    while let Some(c) = chars.next() {
        let escapes = c == '\\' && chars.peek().is_some_and(char::is_ascii_punctuation);
        if !escapes && !c.is_whitespace() {
            out.push(c);
        }
    }
    out
}
