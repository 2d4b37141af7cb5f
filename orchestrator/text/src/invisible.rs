//! Characters that are not seen.

/// Returns whether a character is not seen, but hides text or changes the order or the look of others: formatting and
/// direction marks, and tags, which spell out text that a model reads and nobody sees.
#[must_use]
pub const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e00ff}'
    )
}

/// Returns whether a character takes no room and is ignored where words are compared. Variation selectors are shown as
/// they are, since they choose the look of the character before them.
#[must_use]
pub const fn is_zero_width(c: char) -> bool {
    is_invisible(c) || matches!(c, '\u{fe00}'..='\u{fe0f}')
}

/// Returns whether a character can be shown in a line as it is. U+2028 and U+2029 would end the line; U+FFFE and U+FFFF
/// are no characters, and not allowed in XML.
#[must_use]
pub fn is_printable(c: char) -> bool {
    let breaks_line = matches!(c, '\u{2028}' | '\u{2029}');
    !(c.is_control() || is_invisible(c) || breaks_line || matches!(c, '\u{fffe}' | '\u{ffff}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_character_has_one_answer() {
        // First and last of each range and its neighbours: whether it is printable, invisible, without width.
        let table = [
            ("a b\u{a0}é日🦀\u{301}", (true, false, false)),
            (
                "\u{ac}\u{ae}\u{61b}\u{200a}\u{2010}\u{2027}\u{202f}\u{205f}\u{2070}",
                (true, false, false),
            ),
            ("\u{fefe}\u{ff00}\u{fff8}\u{fffc}\u{fffd}\u{dffff}\u{e0100}", (true, false, false)),
            ("\0\t\n\r\u{1b}\u{7f}\u{80}\u{9b}\u{9f}", (false, false, false)),
            ("\u{2028}\u{2029}\u{fffe}\u{ffff}", (false, false, false)),
            ("\u{ad}\u{61c}\u{180e}\u{feff}", (false, true, true)),
            ("\u{200b}\u{200d}\u{200e}\u{200f}", (false, true, true)),
            (
                "\u{202a}\u{202e}\u{2060}\u{2065}\u{2066}\u{2069}\u{206a}\u{206f}",
                (false, true, true),
            ),
            ("\u{fff9}\u{fffb}", (false, true, true)),
            (
                "\u{e0000}\u{e0001}\u{e0020}\u{e0041}\u{e007f}\u{e0080}\u{e00ff}",
                (false, true, true),
            ),
            ("\u{fe00}\u{fe0f}", (true, false, true)),
        ];
        for (characters, expected) in table {
            for c in characters.chars() {
                let found = (is_printable(c), is_invisible(c), is_zero_width(c));
                assert_eq!(found, expected, "{}", c.escape_unicode());
            }
        }
    }
}
