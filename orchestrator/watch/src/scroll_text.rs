//! A text that grows at its end and that one scrolls through. Where one reads stays where it is, whatever comes in
//! and whatever size the window gets.

use std::collections::VecDeque;

use ralph_orchestrator_text::wrap;

use crate::facts::StoryLine;

/// Entries that are kept; as many again while somebody reads the oldest of them.
const MOST_ENTRIES: usize = 10_000;

/// What is at the top of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Whatever lets the end be seen.
    End,
    /// The line of the entry that has this mark.
    At { entry: u64, mark: usize },
}

/// The size of a window on a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// A line of the window.
pub(crate) struct VisibleLine<'a> {
    pub(crate) entry: &'a StoryLine,
    pub(crate) text: String,
}

/// Which way to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

#[derive(Clone, Debug)]
pub(crate) struct ScrollText {
    entries: VecDeque<StoryLine>,
    /// The number of the first of them.
    first: u64,
    position: Position,
    indent: usize,
    /// Entries that came while the end was not shown.
    unread: u64,
    /// Some of them were dropped, so that what is read could stay.
    is_cut: bool,
    pattern: String,
    /// The entry that was found last.
    found: Option<u64>,
}

impl ScrollText {
    /// Returns a text that shows its end.
    pub(crate) fn following(indent: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            position: Position::End,
            indent,
            unread: 0,
            is_cut: false,
            pattern: String::new(),
            found: None,
        }
    }

    /// Returns a text that shows its beginning.
    pub(crate) fn from_start(lines: &[StoryLine], indent: usize) -> Self {
        let mut text = Self::following(indent);
        lines.iter().for_each(|line| text.push(line));
        text.go_to_start();
        text
    }

    /// Whether the end is shown, whatever comes.
    pub(crate) fn is_following(&self) -> bool {
        self.position == Position::End
    }

    pub(crate) const fn unread(&self) -> u64 {
        self.unread
    }

    pub(crate) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Removes all entries. The end is shown.
    pub(crate) fn clear(&mut self) {
        let pattern = std::mem::take(&mut self.pattern);
        *self = Self { pattern, ..Self::following(self.indent) };
    }

    /// Adds a line. The oldest make room, unless they are read.
    pub(crate) fn push(&mut self, line: &StoryLine) {
        for text in line.text.split('\n') {
            self.push_one(StoryLine { text: text.to_owned(), tone: line.tone });
        }
    }

    fn push_one(&mut self, line: StoryLine) {
        if !self.is_following() {
            self.unread += 1;
        }
        while self.entries.len() >= MOST_ENTRIES && !self.is_first_read() {
            self.entries.pop_front();
            self.first += 1;
        }
        // Beyond a gap nothing is added: what is missing is read again from the journal.
        self.is_cut |= self.entries.len() >= 2 * MOST_ENTRIES;
        if !self.is_cut {
            self.entries.push_back(line);
        }
    }

    fn is_first_read(&self) -> bool {
        matches!(self.position, Position::At { entry, .. } if entry <= self.first)
    }

    /// Shows the end from now on. Returns whether entries are missing, and have to be read again.
    pub(crate) fn follow(&mut self) -> bool {
        self.position = Position::End;
        self.unread = 0;
        std::mem::take(&mut self.is_cut)
    }

    /// Stays where it is from now on.
    pub(crate) fn stay(&mut self, window: Window) {
        let (entry, line) = self.top(window);
        self.set_top(entry, line, window);
    }

    pub(crate) fn go_to_start(&mut self) {
        self.position = Position::At { entry: self.first, mark: 0 };
    }

    /// Shows the last page, and stays there.
    pub(crate) fn go_to_last_page(&mut self, window: Window) {
        let (entry, line) = self.end_top(window);
        self.set_top(entry, line, window);
    }

    /// Scrolls by so many lines. The end is followed until there is something to scroll up to.
    pub(crate) fn scroll(&mut self, direction: Direction, lines: usize, window: Window) {
        let begin = self.top(window);
        let (mut entry, mut line) = begin;
        let end = self.end_top(window);
        let mut count = self.lines(entry, window).len();
        for _ in 0..lines {
            match direction {
                Direction::Up if line > 0 => line -= 1,
                Direction::Up if entry > self.first => {
                    entry -= 1;
                    count = self.lines(entry, window).len();
                    line = count.saturating_sub(1);
                }
                Direction::Down if (entry, line) < end => {
                    line += 1;
                    if line >= count {
                        (entry, line) = (entry + 1, 0);
                        count = self.lines(entry, window).len();
                    }
                }
                _ => break,
            }
        }
        if (entry, line) != begin {
            self.set_top(entry, line, window);
        }
    }

    /// Searches for a text from here on, and beyond the end from the other one. Returns whether it was found.
    pub(crate) fn search(&mut self, pattern: &str, window: Window) -> bool {
        self.pattern = pattern.to_owned();
        self.found = None;
        self.search_next(Direction::Down, window)
    }

    /// Searches for the same text again.
    pub(crate) fn search_next(&mut self, direction: Direction, window: Window) -> bool {
        let count = self.entries.len();
        if self.pattern.is_empty() || count == 0 {
            return false;
        }
        let begin = match self.found.and_then(|found| self.index(found)) {
            None => self.index(self.top(window).0).unwrap_or_default(),
            Some(found) if direction == Direction::Down => (found + 1) % count,
            Some(found) => (found + count - 1) % count,
        };
        let order = (0..count).map(|step| match direction {
            Direction::Down => (begin + step) % count,
            Direction::Up => (begin + count - step) % count,
        });
        let hit = order.into_iter().find_map(|index| {
            let place = find(&self.entries.get(index)?.text, &self.pattern)?;
            Some((index, place))
        });
        let Some((index, place)) = hit else { return false };
        let entry = self.first + u64::try_from(index).unwrap_or_default();
        self.found = Some(entry);
        self.show(entry, place, window);
        true
    }

    /// Makes a place of an entry visible; what is visible stays where it is.
    fn show(&mut self, entry: u64, place: usize, window: Window) {
        let Some(own) = self.index(entry).and_then(|index| self.entries.get(index)) else { return };
        let before = own.text.chars().take(place).filter(|c| !c.is_whitespace()).count();
        let line = line_of(&self.lines(entry, window), before);
        let (mut at, mut of) = self.top(window);
        let is_visible = (0..window.height).any(|_| {
            let is_it = (at, of) == (entry, line);
            of += 1;
            if of >= self.lines(at, window).len() {
                (at, of) = (at + 1, 0);
            }
            is_it
        });
        if is_visible {
            return self.stay(window);
        }
        self.set_top(entry, line, window);
        self.scroll(Direction::Up, window.height / 3, window);
        // Near the beginning it may have stayed.
        self.stay(window);
    }

    /// Returns what the window shows.
    pub(crate) fn visible(&self, window: Window) -> Vec<VisibleLine<'_>> {
        let (entry, skipped) = self.top(window);
        let first = self.index(entry).unwrap_or_default();
        let mut visible = Vec::new();
        for (number, own) in self.entries.iter().enumerate().skip(first) {
            let skip = if number == first { skipped } else { 0 };
            for text in wrap(&own.text, window.width, self.indent).into_iter().skip(skip) {
                if visible.len() >= window.height {
                    return visible;
                }
                visible.push(VisibleLine { entry: own, text });
            }
        }
        visible
    }

    fn index(&self, entry: u64) -> Option<usize> {
        let index = usize::try_from(entry.checked_sub(self.first)?).ok()?;
        (index < self.entries.len()).then_some(index)
    }

    fn lines(&self, entry: u64, window: Window) -> Vec<String> {
        let own = self.index(entry).and_then(|index| self.entries.get(index));
        own.map(|own| wrap(&own.text, window.width, self.indent)).unwrap_or_default()
    }

    /// The entry and the line of it at the top of the window.
    fn top(&self, window: Window) -> (u64, usize) {
        match self.position {
            Position::End => self.end_top(window),
            Position::At { entry, .. } if entry < self.first => (self.first, 0),
            Position::At { entry, mark } => (entry, line_of(&self.lines(entry, window), mark)),
        }
    }

    /// The same if the end is shown.
    fn end_top(&self, window: Window) -> (u64, usize) {
        let mut left = window.height;
        let mut top = (self.first, 0);
        for (index, own) in self.entries.iter().enumerate().rev() {
            if left == 0 {
                break;
            }
            let count = wrap(&own.text, window.width, self.indent).len();
            let entry = self.first + u64::try_from(index).unwrap_or_default();
            top = (entry, count.saturating_sub(left));
            left = left.saturating_sub(count);
        }
        top
    }

    fn set_top(&mut self, entry: u64, line: usize, window: Window) {
        let lines = self.lines(entry, window);
        let mark = marks(&lines).nth(line).unwrap_or_default();
        self.position = Position::At { entry, mark };
    }
}

/// Iterates over the marks of lines: how many characters of the text are before each, white space aside, which is the
/// same at every width.
fn marks(lines: &[String]) -> impl Iterator<Item = usize> + '_ {
    lines.iter().scan(0, |before, line| {
        let mark = *before;
        *before += line.chars().filter(|c| !c.is_whitespace()).count();
        Some(mark)
    })
}

/// The last line that begins at or before a mark.
fn line_of(lines: &[String], mark: usize) -> usize {
    marks(lines).take_while(|begin| *begin <= mark).count().saturating_sub(1)
}

/// Where a text has another, in characters. Capitals count only if the pattern has any.
pub(crate) fn find(text: &str, pattern: &str) -> Option<usize> {
    if pattern.is_empty() {
        return None;
    }
    let is_exact = pattern.chars().any(char::is_uppercase);
    // One character for one, so that places stay what they are.
    let fold = |c: char| if is_exact { c } else { c.to_lowercase().next().unwrap_or(c) };
    let text: Vec<char> = text.chars().map(fold).collect();
    let pattern: Vec<char> = pattern.chars().map(fold).collect();
    text.windows(pattern.len()).position(|part| part == pattern)
}

#[cfg(test)]
mod tests;
