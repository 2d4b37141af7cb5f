//! Makes what a program printed harmless and short.

use std::fmt::Write as _;

/// Control characters made visible; tabs and line ends stay. What an agent prints must not move the
/// cursor, change the title, or hide text.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let harmless = matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c));
        if harmless {
            safe.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        }
    }
    safe
}

/// Characters that change how others are shown, and such as are not seen at all.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// The text in one line of at most `most` characters.
pub fn one_line(text: &str, most: usize) -> String {
    let line = escape(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        let hostile = "a\x1b]0;title\x07b\r\x1b[2Jc\u{202e}d\u{9b}31m";
        let safe = escape(hostile);
        assert!(safe.chars().all(|c| !c.is_control()), "{safe}");
        assert_eq!(escape("plain\n\ttext"), "plain\n\ttext");
    }

    #[test]
    fn lines_are_bounded() {
        assert_eq!(one_line("a\nb   c", 10), "a b c");
        assert_eq!(one_line(&"é".repeat(1000), 5).chars().count(), 5);
    }
}
