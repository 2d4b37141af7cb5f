//! A line of text that is edited.

use ralph_orchestrator_text::char_width;

use crate::key::Key;

/// The longest text, in characters.
const MOST_CHARS: usize = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextInput {
    chars: Vec<char>,
    cursor: usize,
}

impl TextInput {
    pub(crate) fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self { cursor: chars.len(), chars }
    }

    pub(crate) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// Edits the text. Keys that edit nothing have no effect.
    pub(crate) fn edit(&mut self, key: &Key) {
        match key {
            Key::Char(c) => self.insert(*c),
            Key::Paste(text) => text.chars().for_each(|c| self.insert(c)),
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.chars.len(),
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            Key::Delete if self.cursor < self.chars.len() => drop(self.chars.remove(self.cursor)),
            Key::ClearLine => *self = Self::default(),
            _ => {}
        }
    }

    /// Lines of what is pasted are joined.
    fn insert(&mut self, c: char) {
        let c = if matches!(c, '\n' | '\t' | '\r') { ' ' } else { c };
        if !c.is_control() && self.chars.len() < MOST_CHARS {
            self.chars.insert(self.cursor, c);
            self.cursor += 1;
        }
    }

    /// Returns the part of the text around the cursor that fits, and the column of the cursor in it.
    pub(crate) fn visible(&self, width: usize) -> (String, usize) {
        let before = self.chars.get(..self.cursor).unwrap_or_default();
        let mut start = self.cursor;
        let mut column = 0;
        for c in before.iter().rev() {
            if column + char_width(*c) >= width.max(1) {
                break;
            }
            column += char_width(*c);
            start -= 1;
        }
        let (mut text, mut used) = (String::new(), 0);
        for c in self.chars.iter().skip(start) {
            used += char_width(*c);
            if used > width {
                break;
            }
            text.push(*c);
        }
        (text, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_edited_at_the_cursor() {
        let mut input = TextInput::of("abd");
        [
            Key::Left,
            Key::Char('c'),
            Key::End,
            Key::Char('é'),
            Key::Backspace,
            Key::Home,
            Key::Delete,
        ]
        .iter()
        .for_each(|key| input.edit(key));
        assert_eq!(input.text(), "bcd");
        input.edit(&Key::Paste("1\n2\u{1b}[3".to_owned()));
        assert_eq!(input.text(), "1 2[3bcd");
        input.edit(&Key::ClearLine);
        input.edit(&Key::Backspace);
        assert_eq!(input, TextInput::default());
    }

    #[test]
    fn the_cursor_is_always_visible() {
        let mut input = TextInput::of(&"日a".repeat(40));
        for width in 1..30 {
            let (text, column) = input.visible(width);
            assert!(column < width.max(2), "{text:?} {column} at {width}");
        }
        input.edit(&Key::Home);
        assert_eq!(input.visible(5), ("日a日".to_owned(), 0));
    }
}
