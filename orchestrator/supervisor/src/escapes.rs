//! Terminal escape sequences in what programs print.

use std::borrow::Cow;

/// The text without terminal escape sequences: no colours, no titles, nothing that moves the cursor.
#[must_use]
pub fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1B}') {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\u{1B}' {
            plain.push(character);
            continue;
        }
        match rest.next() {
            // CSI: parameters, then one final character.
            Some('[') => {
                let _ = rest.find(|character| ('\u{40}'..='\u{7E}').contains(character));
            }
            // OSC: up to BEL or ESC \.
            Some(']') => {
                while let Some(character) = rest.next() {
                    if character == '\u{7}' {
                        break;
                    }
                    if character == '\u{1B}' {
                        rest.next_if_eq(&'\\');
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    plain.into()
}

/// The text as one short line that does nothing to a terminal: without escape sequences and control
/// characters, white space made one space, with an ellipsis after `most` characters.
#[must_use]
pub fn harmless_line(text: &str, most: usize) -> String {
    let plain = without_escapes(text);
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = words.chars().filter(|character| !is_invisible(*character));
    let mut line: String = shown.by_ref().take(most).collect();
    if shown.next().is_some() {
        line.push('…');
    }
    line
}

/// Control characters and those that reorder the text around them.
fn is_invisible(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn terminal_sequences_are_removed() {
        assert_eq!(without_escapes("\u{1b}[1;32mok\u{1b}[0m. 3 passed"), "ok. 3 passed");
        assert_eq!(without_escapes("\u{1b}]0;title\u{7}a\u{1b}]8;;x\u{1b}\\b\u{1b}(Bc"), "abBc");
        assert_eq!(without_escapes("cut \u{1b}[3"), "cut ");
        assert_eq!(without_escapes("cut \u{1b}"), "cut ");
    }

    #[test]
    fn a_line_is_short_and_harmless() {
        assert_eq!(
            harmless_line("\u{1b}[1mno\u{1b}[0m\n\t licence\r\u{9b}x\u{7}", 99),
            "no licence x"
        );
        assert_eq!(harmless_line("äöüß", 3), "äöü…");
        assert_eq!(harmless_line("äöü", 3), "äöü");
    }

    proptest! {
        #[test]
        fn no_escape_is_ever_left(line in any::<String>()) {
            let left = without_escapes(&line).contains('\u{1B}');
            prop_assert!(!left);
        }
    }
}
