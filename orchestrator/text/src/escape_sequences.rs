//! Terminal escape sequences in what programs print.

use std::borrow::Cow;

const ESC: char = '\u{1b}';

/// Removes terminal escape sequences: no colours, no titles, nothing that moves the cursor.
#[must_use]
pub fn strip_escape_sequences(text: &str) -> Cow<'_, str> {
    if !text.contains([ESC, '\u{9b}']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let opener = match c {
            '\u{9b}' => Some('['),
            ESC => chars.next_if(|next| !matches!(next, '\n' | '\r')),
            _ => {
                out.push(c);
                continue;
            }
        };
        match opener {
            // Parameters, then one final character.
            Some('[') => {
                while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                chars.next_if(|c| matches!(c, '@'..='~'));
            }
            // A string up to BEL or ESC \, but never past the end of its line: a stray opener would hide the
            // rest of the text.
            Some(']' | 'P' | '_' | '^' | 'X') => {
                while let Some(c) = chars.next_if(|c| !matches!(c, '\n' | '\r')) {
                    if c == '\u{7}' || (c == ESC && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            // Intermediates, then one final character.
            Some(' '..='/') => {
                while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
                chars.next_if(|c| matches!(c, '0'..='~'));
            }
            _ => {}
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_go() {
        let table = [
            ("\u{1b}[1;32mgreen\u{1b}[0m", "green"),
            ("\u{9b}1mbold\u{9b}m", "bold"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]never closed\nnext", "\nnext"),
            ("\u{1b}(Btext\u{1b}Mup\u{1b}", "textup"),
            ("\u{1b}[12", ""),
            ("\u{1b}\n", "\n"),
        ];
        for (raw, plain) in table {
            assert_eq!(strip_escape_sequences(raw), plain, "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn stripping_takes_no_line_ending(text in "[a\r\n\u{1b}\u{9b}\\[\\]0m;]*") {
            let endings = |text: &str| text.matches(['\r', '\n']).collect::<String>();
            prop_assert_eq!(endings(&strip_escape_sequences(&text)), endings(&text));
        }

        #[test]
        fn no_escape_is_ever_left(line in any::<String>()) {
            let left = strip_escape_sequences(&line).contains(ESC);
            prop_assert!(!left);
        }
    }
}
