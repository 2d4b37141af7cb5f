//! Classifies one normalised line.

use crate::markdown::{is_quoted, strip_bullet};

/// Emphasis around a word, longest first.
const EMPHASIS: &[&str] = &["***", "___", "**", "__", "*", "_"];
/// The depth to which emphasis may be nested.
const DEPTH: u8 = 4;
/// Characters that may follow a marker.
const TRAILING: &[char] = &['.', '!', ',', ';', '。', '\\', ' '];
/// The last words of labels that make `label: TASK_COMPLETE` a near miss.
const LABELS: &[&str] = &["status", "state", "result"];

/// The classification of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineMatch {
    Claim,
    NearMiss(LineNearMiss),
    NoMatch,
}

/// Why a line is a near miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineNearMiss {
    Heading,
    NoBox,
    TextFollows,
    Repeated,
    Spelling,
    Code,
    Label,
    Decorated,
}

impl LineNearMiss {
    /// Returns the first half of a sentence.
    pub(super) fn explain(self, word: &str) -> String {
        match self {
            Self::Heading => format!("`{word}` is in a heading here"),
            Self::NoBox => format!("`{word}` is a plain list item here, without a checked box"),
            Self::TextFollows => format!("there is other text after `{word}` on this line"),
            Self::Repeated => format!("`{word}` occurs more than once on this line"),
            Self::Spelling => format!("this is not spelled `{word}`"),
            Self::Code => format!("`{word}` is between backticks here, like an example"),
            Self::Label => format!("this is no label for `{word}`, only `Status:` is"),
            Self::Decorated => format!("there are other signs around `{word}` on this line"),
        }
    }
}

/// Classifies a line that went through [`normalise`](crate::text::normalise).
pub(super) fn classify(line: &str, word: &str) -> LineMatch {
    if is_claim(line, word, DEPTH) {
        LineMatch::Claim
    } else {
        near_miss(line, word).map_or(LineMatch::NoMatch, LineMatch::NearMiss)
    }
}

fn is_claim(line: &str, word: &str, depth: u8) -> bool {
    let line = line.trim_end_matches(TRAILING).trim_start();
    is_body(line, word, DEPTH)
        || strip_checked(strip_bullet(line).unwrap_or(line))
            .is_some_and(|body| is_body(body, word, DEPTH))
        || depth > 0 && unwrap(line).is_some_and(|inner| is_claim(inner, word, depth - 1))
}

/// Whether it is the word, or `Status:` and the word, with any emphasis.
fn is_body(body: &str, word: &str, depth: u8) -> bool {
    let body = body.trim_end_matches(TRAILING).trim_start();
    body == word
        || depth > 0
            && (strip_status(body).is_some_and(|value| is_body(value, word, depth - 1))
                || unwrap(body).is_some_and(|inner| is_body(inner, word, depth - 1)))
}

fn unwrap(text: &str) -> Option<&str> {
    EMPHASIS.iter().find_map(|mark| {
        let inner = text.strip_prefix(mark)?.strip_suffix(mark)?;
        let tight = !inner.starts_with(' ') && !inner.ends_with(' ');
        (tight && !inner.is_empty()).then_some(inner)
    })
}

fn strip_checked(text: &str) -> Option<&str> {
    text.strip_prefix("[x]").or_else(|| text.strip_prefix("[X]"))
}

/// Returns what follows `Status:`, `**Status**:` or `**Status:**`.
fn strip_status(text: &str) -> Option<&str> {
    let (label, value) = text.split_once(':')?;
    let label = label.trim();
    let is_status = |text: &str| text.eq_ignore_ascii_case("status");
    if is_status(label) || unwrap(label).is_some_and(is_status) {
        return Some(value);
    }
    EMPHASIS.iter().find_map(|mark| {
        is_status(label.strip_prefix(mark)?).then_some(())?;
        value.strip_prefix(mark)
    })
}

fn near_miss(line: &str, word: &str) -> Option<LineNearMiss> {
    if is_quoted(line) {
        return None;
    }
    let coded = line.trim_end_matches(TRAILING);
    let code = coded.trim_matches('`');
    if code.len() < coded.len() && is_claim(code, word, DEPTH) {
        return Some(LineNearMiss::Code);
    }
    let hashes = line.trim_start_matches('#');
    let heading = hashes.len() < line.len();
    let item = hashes.trim_start();
    let content = strip_bullet(item).unwrap_or_else(|| item.trim_start_matches(['-', '+']));
    let checked = strip_checked(content);
    if checked.is_none() && is_open_box(content) {
        return None;
    }
    let content = checked.unwrap_or(content);
    let bare = strip_signs(content);
    let value = strip_label(bare);
    match value.unwrap_or(bare) {
        bare if bare == word => Some(if content.contains('`') {
            LineNearMiss::Code
        } else if heading {
            LineNearMiss::Heading
        } else if checked.is_none() && is_body(content, word, DEPTH) {
            LineNearMiss::NoBox
        } else if value.is_some() && strip_status(content).is_none() {
            LineNearMiss::Label
        } else {
            LineNearMiss::Decorated
        }),
        bare if is_misspelled(bare, word) => Some(LineNearMiss::Spelling),
        bare => {
            let after = bare.strip_prefix(word)?;
            if after.replace(word, " ").chars().all(|c| !c.is_alphanumeric()) {
                Some(LineNearMiss::Repeated)
            } else if separates(after) || checked.is_some() && after.starts_with(' ') {
                Some(LineNearMiss::TextFollows)
            } else {
                None
            }
        }
    }
}

/// `[ ]` and other boxes that are not checked.
fn is_open_box(text: &str) -> bool {
    ["[ ]", "[]", "[-]", "[_]", "[~]", "[/]", "☐", "⬜"].iter().any(|open| text.starts_with(open))
}

/// Trims quotation marks, emphasis, symbols and the like on both sides.
fn strip_signs(text: &str) -> &str {
    text.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Returns what follows a status label of at most three words.
fn strip_label(text: &str) -> Option<&str> {
    let (label, value) = text.split_once([':', '='])?;
    let words: Vec<_> = label.split_whitespace().map(strip_signs).take(4).collect();
    let last = words.last()?.to_lowercase();
    (words.len() < 4 && LABELS.contains(&last.as_str())).then(|| strip_signs(value))
}

/// Whether two words differ in case, in separators, or by a final `d` only.
fn is_misspelled(text: &str, word: &str) -> bool {
    // Longer text cannot be a spelling of the word, and need not be copied.
    if text.len() > 2 * word.len() + 2 {
        return false;
    }
    let letters = |text: &str| -> String {
        text.chars()
            .filter(|c| !matches!(c, '_' | '-' | ' '))
            .flat_map(char::to_lowercase)
            .collect()
    };
    let (text, word) = (letters(text), letters(word));
    text == word || text.strip_suffix('d') == Some(&word)
}

/// Whether what follows the word is separated from it like an explanation, instead of continuing a
/// sentence.
fn separates(after: &str) -> bool {
    let dashed = after.strip_prefix(' ').is_some_and(|rest| rest.starts_with(['-', '–', '—', '=']));
    let after = after.trim_start_matches(['*', '_', ' ', '~', '"', '`']);
    dashed || after.starts_with([':', '(', '[', '{', '.', '!', ';', '|', '/', '→', '—', '✅'])
}
