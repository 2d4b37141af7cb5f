//! Reads front matter: the lines `key: value` between two lines `---` at the beginning of a Markdown file.
//!
//! Of YAML this is the part that a flat list of short values needs: plain and quoted scalars, each on the line of
//! its key, and comments. Everything else is refused with its line, and so is a plain scalar that YAML reads as
//! something else than text, so no file means one thing here and another elsewhere.

use std::ops::Range;

/// The line before and after front matter.
const FENCE: &str = "---";
/// What YAML gives a meaning of its own at the beginning of a plain scalar.
const INDICATORS: &str = "[]{},&*!|>'\"%@`";
/// What some version of YAML reads as truth values.
const TRUTH_VALUES: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "y", "n"];
/// What it reads as no value.
const NOTHING: [&str; 2] = ["null", "~"];

/// A value as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// Without quotes.
    Plain(String),
    /// In quotes.
    Quoted(String),
}

impl Scalar {
    /// Returns what it is read as instead of text, if it is.
    pub(crate) fn other_type(&self) -> Option<&'static str> {
        let Self::Plain(text) = self else { return None };
        let word = text.to_ascii_lowercase();
        if TRUTH_VALUES.contains(&word.as_str()) {
            return Some("a truth value");
        }
        if NOTHING.contains(&word.as_str()) {
            return Some("nothing");
        }
        let number = word.trim_start_matches('.').replace('_', "");
        let is_number = number.parse::<f64>().is_ok()
            || ["0x", "0o"].iter().any(|prefix| number.starts_with(prefix));
        is_number.then_some("a number")
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Quoted(text) => text,
        }
    }
}

/// A line `key: value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Nothing if nothing follows the colon.
    pub(crate) value: Option<Scalar>,
    /// Where the key is, in bytes of the file.
    pub(crate) key_span: Range<usize>,
    /// Where the value is; the key's place without one.
    pub(crate) value_span: Range<usize>,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrontMatterError {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
}

impl FrontMatterError {
    fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }
}

/// Returns all entries, or everything that is wrong.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, Vec<FrontMatterError>> {
    let mut lines = Lines::new(text);
    if lines.next().is_none_or(|(_, line)| line != FENCE) {
        let message = "expected `---` in the first line, then lines `key: value`, then `---`";
        return Err(vec![FrontMatterError::new(0..0, message)]);
    }
    let (mut entries, mut errors): (Vec<Entry>, Vec<FrontMatterError>) = (Vec::new(), Vec::new());
    for (start, line) in lines {
        if line == FENCE {
            return if errors.is_empty() { Ok(entries) } else { Err(errors) };
        }
        match parse_line(start, line) {
            Ok(Some(entry)) if entries.iter().any(|known| known.key == entry.key) => {
                let message = format!("`{}` is there twice", entry.key);
                errors.push(FrontMatterError::new(entry.key_span, message));
            }
            Ok(entry) => entries.extend(entry),
            Err(error) => errors.push(error),
        }
    }
    // What follows the place where it should end is no front matter, and wrong for that reason only.
    let message = "the front matter has no end: expected a line `---` after the last `key: value`";
    Err(vec![FrontMatterError::new(0..FENCE.len(), message)])
}

/// The lines of a text with the byte at which each begins, without what ends them.
struct Lines<'a> {
    text: &'a str,
    next: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let next = text.len() - text.trim_start_matches('\u{feff}').len();
        Self { text, next }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.text.get(self.next..).filter(|rest| !rest.is_empty())?;
        let line = rest.split('\n').next().unwrap_or_default();
        let start = self.next;
        self.next += line.len() + 1;
        Some((start, line.trim_end()))
    }
}

fn parse_line(start: usize, line: &str) -> Result<Option<Entry>, FrontMatterError> {
    let whole = start..start + line.len();
    if line.is_empty() || line.trim_start().starts_with('#') {
        return Ok(None);
    }
    let expected = "expected `key: value`";
    if line.starts_with([' ', '\t', '-']) {
        let message =
            format!("{expected} at the beginning of the line; lists and tables are not read");
        return Err(FrontMatterError::new(whole, message));
    }
    let is_key = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let Some((key, rest)) = line.split_once(':').filter(|(key, rest)| {
        !key.is_empty()
            && key.chars().all(is_key)
            && (rest.is_empty() || rest.starts_with([' ', '\t']))
    }) else {
        return Err(FrontMatterError::new(whole, expected));
    };
    let key_span = start..start + key.len();
    let from = start + line.len() - rest.trim_start().len();
    let (value, len) = scalar(rest.trim_start()).map_err(|message| {
        let span = from.min(whole.end)..whole.end;
        FrontMatterError::new(span, message)
    })?;
    let value_span = if value.is_some() { from..from + len } else { key_span.clone() };
    Ok(Some(Entry { key: key.to_owned(), value, key_span, value_span }))
}

/// Returns the scalar and how many bytes it takes.
fn scalar(text: &str) -> Result<(Option<Scalar>, usize), String> {
    let (value, len) = match text.chars().next() {
        None | Some('#') => return Ok((None, 0)),
        Some('"') => double_quoted(text)?,
        Some('\'') => single_quoted(text)?,
        Some(_) => return plain(text),
    };
    let rest = text.get(len..).unwrap_or_default();
    let is_comment = rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('#');
    if !(is_comment || rest.trim().is_empty()) {
        return Err("nothing but a comment can follow the closing quote".to_owned());
    }
    Ok((Some(Scalar::Quoted(value)), len))
}

/// Reads the escapes that JSON has, too.
fn double_quoted(text: &str) -> Result<(String, usize), String> {
    let mut escaped = false;
    let end = text.bytes().enumerate().skip(1).find_map(|(index, byte)| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends.then_some(index + 1)
    });
    let quoted = end.and_then(|end| text.get(..end)).ok_or(NO_END)?;
    let value = serde_json::from_str::<String>(&quoted.replace('\t', "\\t")).map_err(|_| {
        "expected text in which only `\\\"`, `\\\\`, `\\n`, `\\r`, `\\t`, `\\b`, `\\f`, `\\/` and `\\uXXXX` stand \
         for something else"
    })?;
    Ok((value, quoted.len()))
}

/// In them only a quote is written twice.
fn single_quoted(text: &str) -> Result<(String, usize), String> {
    let mut value = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((index, letter)) = letters.next() {
        if letter != '\'' {
            value.push(letter);
        } else if letters.next_if(|(_, next)| *next == '\'').is_some() {
            value.push('\'');
        } else {
            return Ok((value, index + 1));
        }
    }
    Err(NO_END.to_owned())
}

const NO_END: &str = "the closing quote is missing; a value ends on its own line";

fn plain(text: &str) -> Result<(Option<Scalar>, usize), String> {
    let comment = text.find(" #").or_else(|| text.find("\t#"));
    let value = comment.map_or(text, |at| text.get(..at).unwrap_or(text)).trim_end();
    let begins = value.chars().next().unwrap_or_default();
    let is_list = ["-", "?", ":"].iter().any(|one| {
        value.strip_prefix(one).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
    });
    if INDICATORS.contains(begins) || is_list {
        return Err(format!("a value that begins with `{begins}` needs quotes"));
    }
    if value.contains(": ") || value.contains(":\t") || value.ends_with(':') {
        return Err("a value with `: ` in it, or `:` at its end, needs quotes".to_owned());
    }
    if let Some(letter) = value.chars().find(|letter| letter.is_control() && *letter != '\t') {
        return Err(format!("the control character {} needs quotes", letter.escape_unicode()));
    }
    Ok((Some(Scalar::Plain(value.to_owned())), value.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<(String, Option<String>)> {
        let entries = parse(text).unwrap_or_else(|errors| panic!("{text:?}: {errors:?}"));
        let value = |entry: &Entry| entry.value.as_ref().map(|value| value.text().to_owned());
        entries.iter().map(|entry| (entry.key.clone(), value(entry))).collect()
    }

    #[track_caller]
    fn reads(value: &str, expected: &str) {
        let found = values(&format!("---\nkey: {value}\n---\n"));
        assert_eq!(found, [("key".to_owned(), Some(expected.to_owned()))], "{value}");
    }

    #[track_caller]
    fn refuses(lines: &str, line: usize, says: &str) {
        let text = format!("---\n{lines}\n---\nkey: [\n");
        let errors = parse(&text).unwrap_err();
        let [error] = errors.as_slice() else { panic!("{lines}: {errors:?}") };
        let at = text.get(..error.span.start).unwrap().matches('\n').count() + 1;
        assert!(at == line && error.message.contains(says), "{lines}: {at} {error:?}");
        assert!(text.get(error.span.clone()).is_some(), "{lines}");
    }

    #[test]
    fn plain_and_quoted_values_are_read_as_yaml_reads_them() {
        reads("make test", "make test");
        reads("  cargo test -- --nocapture   # all of them", "cargo test -- --nocapture");
        reads("a#b:c 'd' \"e\"", "a#b:c 'd' \"e\"");
        reads("-x ?y", "-x ?y");
        reads("'it''s # here: now' # comment", "it's # here: now");
        reads(r#""a\n\"b\" \\ \u00e9: # c""#, "a\n\"b\" \\ é: # c");
        reads("\"Grüße\"", "Grüße");
        assert_eq!(
            values(
                "\u{feff}---\r\n# comment\r\n\r\na: 1\r\nb:\r\nc: # nothing\r\n---\r\n# b: c\r\n"
            ),
            [("a".into(), Some("1".into())), ("b".into(), None), ("c".into(), None)]
        );
        assert_eq!(values("---\n---"), []);
    }

    #[test]
    fn everything_else_is_refused_with_its_line() {
        refuses("a: 1\nb: [1, 2]", 3, "begins with `[`");
        refuses("a: |", 2, "begins with `|`");
        refuses("a:\n  b: 1", 3, "lists and tables");
        refuses("a:\n- b", 3, "lists and tables");
        refuses("a: - b", 2, "begins with `-`");
        refuses("a: 'b", 2, "closing quote is missing");
        refuses("a: \"b\\", 2, "closing quote is missing");
        refuses("a: \"b\" c", 2, "nothing but a comment");
        refuses("a: \"\\x41\"", 2, "only `\\\"`");
        refuses("a: b: c", 2, "needs quotes");
        refuses("a: b:", 2, "needs quotes");
        refuses("a:b", 2, "expected `key: value`");
        refuses("just text", 2, "expected `key: value`");
        refuses("a b: c", 2, "expected `key: value`");
        refuses("a: 1\na: 2", 3, "twice");
        refuses("a: \u{1b}[0m", 2, "control character");
    }

    #[test]
    fn without_a_beginning_or_an_end_there_is_none() {
        for text in ["", "# Plan\n", " ---\na: 1\n---\n", "\n---\na: 1\n---\n"] {
            assert!(parse(text).unwrap_err()[0].message.contains("first line"), "{text:?}");
        }
        for text in ["---", "---\na: 1\n", "---\na: 1\n# Plan\n- [ ] b\n"] {
            let errors = parse(text).unwrap_err();
            assert!(errors.len() == 1 && errors[0].message.contains("no end"), "{errors:?}");
        }
    }

    #[test]
    fn what_yaml_does_not_read_as_text_is_recognised() {
        for other in ["true", "No", "~", "12", "-1.5", "1_000", "0x1f", "1e3"] {
            assert!(Scalar::Plain(other.into()).other_type().is_some(), "{other}");
            assert_eq!(Scalar::Quoted(other.into()).other_type(), None, "{other}");
        }
        for text in ["make test", "truely", "1 apple", "none"] {
            assert_eq!(Scalar::Plain(text.into()).other_type(), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn json_text_is_read_back(text in "\\PC*|[\\x00-\\x7f]*") {
            let quoted = serde_json::to_string(&text).unwrap();
            let file = format!("---\nkey: {quoted}\n---\n");
            prop_assert_eq!(&values(&file)[0].1, &Some(text));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(---\n)?[a-z:'\"\\\\#\\- \n\\[é]{0,60}(\n---\n)?") {
            match parse(&text) {
                Ok(entries) => for entry in entries {
                    prop_assert!(text.get(entry.value_span).is_some());
                },
                Err(errors) => for error in errors {
                    prop_assert!(text.get(error.span).is_some());
                },
            }
        }
    }
}
