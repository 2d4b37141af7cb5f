//! Texts in lines that fit a width, each with its place in the text.

use unicode_width::UnicodeWidthChar as _;

/// A line of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrappedLine {
    pub(crate) text: String,
    /// Characters of the text before the line, white space aside: the same at every width.
    pub(crate) mark: usize,
}

pub(crate) fn char_width(c: char) -> usize {
    c.width().unwrap_or_default()
}

/// Columns of a text.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns the beginning of a text that fits, with `…` for what is left out.
pub(crate) fn fit(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let (mut fitting, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += char_width(c);
        if used >= most {
            break;
        }
        fitting.push(c);
    }
    if most > 0 {
        fitting.push('…');
    }
    fitting
}

/// Folds a text at spaces, and words that are longer than a line anywhere. Folded lines begin after `indent` spaces.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> Vec<WrappedLine> {
    let mut wrapper = Wrapper { width: width.max(1), lines: Vec::new(), mark: 0 };
    let indent = if width < 8 || indent * 2 > width { 0 } else { indent };
    for line in text.split('\n') {
        wrapper.line(&line.replace('\t', "    "), indent);
    }
    wrapper.lines
}

struct Wrapper {
    width: usize,
    lines: Vec<WrappedLine>,
    mark: usize,
}

impl Wrapper {
    fn line(&mut self, line: &str, indent: usize) {
        let mut rest: Vec<char> = line.chars().collect();
        // Every line has something of the text, so that its mark is its own.
        let leading = rest.iter().take_while(|c| c.is_whitespace()).count();
        let most = if self.width < 8 { 0 } else { self.width / 2 };
        drop(rest.drain(..leading.saturating_sub(most)));
        let mut prefix = 0;
        loop {
            let fitting = fitting(&rest, self.width.saturating_sub(prefix).max(1));
            let tail = rest.split_off(fitting);
            let text: String = rest.iter().collect();
            let marks = rest.iter().filter(|c| !c.is_whitespace()).count();
            let text = format!("{}{}", " ".repeat(prefix), text.trim_end());
            self.lines.push(WrappedLine { text, mark: self.mark });
            self.mark += marks;
            rest = tail.into_iter().skip_while(|c| *c == ' ').collect();
            if rest.is_empty() {
                return;
            }
            prefix = indent;
        }
    }
}

/// How many of the characters belong into a line.
fn fitting(chars: &[char], width: usize) -> usize {
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

    fn lines(text: &str, width: usize, indent: usize) -> Vec<String> {
        wrap(text, width, indent).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn words_stay_whole_where_they_fit() {
        assert_eq!(lines("one two three", 20, 2), ["one two three"]);
        assert_eq!(lines("one two three", 7, 2), ["one two", "three"]);
        assert_eq!(lines("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(lines("supercalifragilistic", 10, 2), ["supercalif", "  ragilist", "  ic"]);
        assert_eq!(lines("a\n\nb", 10, 2), ["a", "", "b"]);
        assert_eq!(lines("  - deep", 20, 2), ["  - deep"]);
        assert_eq!(lines("日本語", 1, 0), ["日", "本", "語"]);
        assert_eq!(lines("", 5, 2), [""]);
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("abc", 0), "");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_all_lines_fit(
            text in "[a-c é日\\t\n]{0,60}", width in 2..40_usize, indent in 0..12_usize,
        ) {
            let all = wrap(&text, width, indent);
            let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            let joined: String = all.iter().map(|line| line.text.as_str()).collect();
            prop_assert_eq!(plain(&joined), plain(&text));
            let mut mark = 0;
            for line in &all {
                prop_assert!(columns(&line.text) <= width, "{:?} at {}", line, width);
                prop_assert_eq!(line.mark, mark);
                mark += plain(&line.text).chars().count();
            }
        }
    }
}
