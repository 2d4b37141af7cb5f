//! Templates of files: lines that belong to some variants, and words that are replaced.

/// What a file is written from.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The conditions that hold, such as `agent` or `python`.
    pub(super) conditions: Vec<&'static str>,
    /// What replaces `@WORD@`.
    pub(super) words: Vec<(&'static str, String)>,
}

impl Values {
    /// Returns a text with its words replaced. Lines between `@if A B@` and `@end@` are kept if one of the
    /// conditions holds; `no-A` holds where `A` does not.
    pub(super) fn fill(&self, template: &str) -> String {
        let mut filled = String::new();
        // Whether the lines here are kept, from the outermost condition to the innermost.
        let mut kept: Vec<bool> = Vec::new();
        for line in template.lines() {
            if let Some(conditions) = marker(line) {
                kept.push(conditions.split(' ').any(|condition| self.holds(condition)));
            } else if line == "@end@" {
                kept.pop();
            } else if kept.iter().all(|kept| *kept) {
                filled.push_str(line);
                filled.push('\n');
            }
        }
        let words = self.words.iter();
        let filled =
            words.fold(filled, |text, (word, value)| text.replace(&format!("@{word}@"), value));
        // A part that was left out may have been between two empty lines.
        filled.replace("\n\n\n\n", "\n\n\n").trim_start_matches('\n').to_owned()
    }

    fn holds(&self, condition: &str) -> bool {
        match condition.strip_prefix("no-") {
            Some(absent) => !self.conditions.contains(&absent),
            None => self.conditions.contains(&condition),
        }
    }
}

fn marker(line: &str) -> Option<&str> {
    line.strip_prefix("@if ")?.strip_suffix('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_variants_are_left_out() {
        let values =
            Values { conditions: vec!["agent", "c"], words: vec![("NAME", "mine".to_owned())] };
        let template = "a @NAME@\n@if agent@\nb\n@if python node@\nc\n@end@\n@if no-python@\nd\n@end@\n@end@\n\
                        @if validator c@\ne\n@end@\n@if no-agent@\nf\n@if c@\ng\n@end@\n@end@\nh @else@\n";
        assert_eq!(values.fill(template), "a mine\nb\nd\ne\nh @else@\n");
    }
}
