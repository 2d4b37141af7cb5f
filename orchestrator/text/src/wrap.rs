//! Lines that fit a width whatever it is: words that are longer than a line are broken.

use crate::width::char_width;

/// Folds a text at spaces, and words that are longer than a line anywhere. Folded lines begin after `indent` spaces.
#[must_use]
pub fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let width = width.max(1);
    let indent = if width < 8 || indent * 2 > width { 0 } else { indent };
    let mut lines = Vec::new();
    for line in text.split('\n') {
        wrap_line(&line.replace('\t', "    "), (width, indent), &mut lines);
    }
    lines
}

fn wrap_line(line: &str, (width, indent): (usize, usize), lines: &mut Vec<String>) {
    let mut rest: Vec<char> = line.chars().collect();
    // Every line has something of the text, so that each begins elsewhere in it.
    let leading = rest.iter().take_while(|c| c.is_whitespace()).count();
    let most = if width < 8 { 0 } else { width / 2 };
    drop(rest.drain(..leading.saturating_sub(most)));
    let mut prefix = 0;
    loop {
        let fitting = count_fitting(&rest, width.saturating_sub(prefix).max(1));
        let tail = rest.split_off(fitting);
        let text: String = rest.iter().collect();
        lines.push(format!("{}{}", " ".repeat(prefix), text.trim_end()));
        rest = tail.into_iter().skip_while(|c| *c == ' ').collect();
        if rest.is_empty() {
            return;
        }
        prefix = indent;
    }
}

/// Returns how many of the characters belong into a line.
fn count_fitting(chars: &[char], width: usize) -> usize {
    let (mut used, mut last_space, mut has_word) = (0, None, false);
    for (at, c) in chars.iter().enumerate() {
        let more = char_width(*c);
        if *c == ' ' {
            if has_word {
                last_space = Some(at);
            }
        } else {
            has_word = true;
        }
        if used + more > width {
            return match last_space {
                Some(space) => space,
                None => at.max(1),
            };
        }
        used += more;
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::width::columns;

    #[test]
    fn words_stay_whole_where_they_fit() {
        assert_eq!(wrap("one two three", 20, 2), ["one two three"]);
        assert_eq!(wrap("one two three", 7, 2), ["one two", "three"]);
        assert_eq!(wrap("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(wrap("supercalifragilistic", 10, 2), ["supercalif", "  ragilist", "  ic"]);
        assert_eq!(wrap("a\n\nb", 10, 2), ["a", "", "b"]);
        assert_eq!(wrap("  - deep", 20, 2), ["  - deep"]);
        assert_eq!(wrap("日本語", 1, 0), ["日", "本", "語"]);
        assert_eq!(wrap("", 5, 2), [""]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_all_lines_fit(
            text in "[a-c é日\\t\n]{0,60}", width in 2..40_usize, indent in 0..12_usize,
        ) {
            let all = wrap(&text, width, indent);
            let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(plain(&all.concat()), plain(&text));
            for line in &all {
                prop_assert!(columns(line) <= width, "{:?} at {}", line, width);
            }
        }
    }
}
