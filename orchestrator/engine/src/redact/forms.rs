//! The forms in which a secret may be printed.

use std::path::Path;

use ralph_orchestrator_config::SHORTEST_SECRET as SHORTEST;

use super::canonical::Canonical;

/// What escapes leave of a value must have so many bytes at least.
const SHORTEST_CANONICAL: usize = 4;
/// What a cut leaves of a secret is found if it has so many bytes at least, or a quarter of them.
const LONGEST_SEED: usize = 8;
const SEED_SHARE: usize = 4;
const SHORTEST_SEED: usize = 4;
/// What begins a URL says nothing.
const SCHEME_END: &[u8] = b"://";

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How markup writes a quotation mark and an apostrophe.
const MARKUP_QUOTES: [[&str; 2]; 3] = [["\"", "'"], ["&quot;", "&#x27;"], ["&#34;", "&#39;"]];

/// One way to write a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    /// How many of its bytes are looked for where it may have been cut.
    pub(super) seed: usize,
    /// Whether parts of it are secret too.
    pub(super) has_parts: bool,
}

impl Form {
    fn plain(bytes: &[u8], has_parts: bool) -> Self {
        let least = (bytes.len() / SEED_SHARE).clamp(SHORTEST_SEED, LONGEST_SEED);
        let scheme = memchr::memmem::find(bytes, SCHEME_END).map(|at| at + SCHEME_END.len());
        let least = scheme.map_or(least, |scheme| scheme + least);
        // Where only the whole counts, nothing less is worth a closer look.
        let seed =
            if has_parts { least.min(bytes.len()) } else { bytes.len().min(4 * LONGEST_SEED) };
        Self { bytes: bytes.to_vec(), seed, has_parts }
    }

    fn encoded(bytes: Vec<u8>, has_parts: bool) -> Self {
        let seed = LONGEST_SEED.min(bytes.len());
        Self { bytes, seed, has_parts }
    }
}

/// All forms of all values, each once.
pub(super) fn of_all<'a>(values: impl Iterator<Item = &'a str>) -> Vec<Form> {
    let mut forms = Vec::new();
    for value in values {
        // What is read by lines shows a value of several lines one by one.
        for part in [value, value.trim()].into_iter().chain(value.lines().map(str::trim)) {
            if part.chars().count() >= SHORTEST {
                add(part, &mut forms);
            }
        }
    }
    forms.sort();
    forms.dedup_by(|one, other| one.bytes == other.bytes);
    forms
}

fn add(part: &str, forms: &mut Vec<Form>) {
    // The folders above one that is there are named everywhere, and are no secret.
    let has_parts = !(part.starts_with('/') && Path::new(part).exists());
    let canonical = Canonical::new(part);
    if canonical.bytes.len() >= SHORTEST_CANONICAL {
        forms.push(Form::plain(&canonical.bytes, has_parts));
    }
    // Where an escape before it would take its first character for its own.
    forms.push(Form::plain(part.as_bytes(), has_parts));
    for quotes in MARKUP_QUOTES {
        let marked = escape_markup(part, quotes);
        if marked != part {
            forms.push(Form::plain(&Canonical::new(&marked).bytes, has_parts));
            forms.push(Form::plain(marked.as_bytes(), has_parts));
        }
    }
    for alphabet in [STANDARD, FOR_URLS] {
        let aligned = (0..3).map(|before| base64(part.as_bytes(), before, alphabet));
        let long = aligned.filter(|form| form.len() >= SHORTEST);
        forms.extend(long.map(|form| Form::encoded(form, has_parts)));
    }
    for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
        forms.push(Form::encoded(hex(part.as_bytes(), digits), has_parts));
    }
}

/// Writes a value as HTML and XML do.
fn escape_markup(value: &str, [double, single]: [&str; 2]) -> String {
    let escaped = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', double).replace('\'', single)
}

/// What base64 makes of a value that so many bytes stand before, as far as it says nothing of what
/// stands before and after.
fn base64(value: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |at: usize| {
        let byte = value.get((at / 8).checked_sub(before)?)?;
        Some(usize::from(byte >> (7 - at % 8) & 1))
    };
    let digit = |at: usize| {
        let value = (at..at + 6).try_fold(0, |sum, at| Some(sum * 2 + bit(at)?))?;
        alphabet.get(value).copied()
    };
    (0..(before + value.len()) * 8).step_by(6).filter_map(digit).collect()
}

fn hex(value: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let halves = value.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| digits.get(usize::from(half)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64_of(value: &str, before: usize) -> String {
        String::from_utf8(base64(value.as_bytes(), before, STANDARD)).unwrap()
    }

    #[test]
    fn markup_is_a_form() {
        let forms = of_all(["pa55&<x>\"q'z"].into_iter());
        for marked in ["pa55&amp;&lt;x&gt;&quot;q&#x27;z", "pa55&amp;&lt;x&gt;\"q'z"] {
            assert!(forms.iter().any(|form| form.bytes == marked.as_bytes()), "{marked}");
        }
    }

    #[test]
    fn base64_is_what_is_certain() {
        // "secret" c2VjcmV0, "xsecret" eHNlY3JldA==, "xysecret" eHlzZWNyZXQ=
        assert_eq!(base64_of("secret", 0), "c2VjcmV0");
        assert_eq!(base64_of("secret", 1), "NlY3Jld");
        assert_eq!(base64_of("secret", 2), "zZWNyZX");
        assert_eq!(base64("?>?>?>".as_bytes(), 0, FOR_URLS), b"Pz4_Pj8-");
    }

    #[test]
    fn each_form_is_there_once() {
        let forms = of_all(["secret", "secret ", "five!", "a\nb\nc\nd"].into_iter());
        let texts: Vec<_> = forms.iter().map(|form| String::from_utf8_lossy(&form.bytes)).collect();
        for form in ["secret", "secret ", "c2VjcmV0", "736563726574", "abcd"] {
            assert_eq!(texts.iter().filter(|text| *text == form).count(), 1, "{form} in {texts:?}");
        }
        assert!(!texts.iter().any(|text| text.contains("five")));
    }
}
