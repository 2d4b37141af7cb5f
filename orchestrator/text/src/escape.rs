//! Makes what must not be shown visible.

use crate::invisible::is_printable;

/// Returns a text in which everything but line ends, tabs and what is printable stands as an escape such as `\u{1b}`:
/// nothing moves a cursor, changes a title, or hides text.
#[must_use]
pub fn escape(text: &str) -> String {
    escape_but(text, &['\n', '\t'])
}

/// Returns a text in one line, with line ends and tabs escaped, too.
#[must_use]
pub fn escape_line(text: &str) -> String {
    escape_but(text, &[])
}

fn escape_but(text: &str, kept: &[char]) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) || kept.contains(&c) {
            safe.push(c);
        } else {
            safe.extend(c.escape_default());
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn makes_control_direction_and_hidden_characters_visible() {
        for (text, lines, line) in [
            ("plain\n\ttext", "plain\n\ttext", "plain\\n\\ttext"),
            ("a\u{1b}]0;t\u{7}\r", "a\\u{1b}]0;t\\u{7}\\r", "a\\u{1b}]0;t\\u{7}\\r"),
            ("\u{202e}a\u{feff}\u{9b}", "\\u{202e}a\\u{feff}\\u{9b}", "\\u{202e}a\\u{feff}\\u{9b}"),
            ("ok\u{e0041}\u{e00ff}", "ok\\u{e0041}\\u{e00ff}", "ok\\u{e0041}\\u{e00ff}"),
            ("zażółć 日本 '\"\\", "zażółć 日本 '\"\\", "zażółć 日本 '\"\\"),
        ] {
            assert_eq!((escape(text).as_str(), escape_line(text).as_str()), (lines, line));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_escaped_is_printable(text in any::<String>()) {
            prop_assert!(escape_line(&text).chars().all(is_printable));
        }
    }
}
