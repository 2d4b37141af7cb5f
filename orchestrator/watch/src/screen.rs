//! The state as cells of a screen.

mod dialogs;
mod head;
mod lists;
mod text;

use ralph_orchestrator_text::{columns, fit};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};

use crate::dialog::Dialog;
use crate::facts::{Phase, Tone};
use crate::panes::{Focus, Panes};
use crate::state::WatchState;

/// Which styles the terminal gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Colours are wanted.
    pub has_colour: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
            Tone::Heading => BOLD,
            Tone::Good => self.colour(Color::Green),
            Tone::Bad => self.colour(Color::Red),
            Tone::Warning => self.colour(Color::Yellow),
        }
    }

    fn phase(self, phase: Phase) -> Style {
        match phase {
            Phase::Running | Phase::Completed => self.colour(Color::Green),
            Phase::Waiting | Phase::Paused | Phase::NeedsHuman => self.colour(Color::Yellow),
            Phase::Damaged => self.colour(Color::Red),
            Phase::Interrupted | Phase::Stopped => self.tone(Tone::Dim),
        }
    }
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

const fn glyph(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "●",
        Phase::Waiting => "◐",
        Phase::Paused => "‖",
        Phase::NeedsHuman => "?",
        Phase::Completed => "✔",
        Phase::Interrupted => "○",
        Phase::Stopped => "■",
        Phase::Damaged => "!",
    }
}

/// Draws the state, and returns where the cursor is to be if a text is typed.
pub fn draw(state: &WatchState, theme: Theme, buffer: &mut Buffer) -> Option<Position> {
    let mut pen = Pen { buffer, theme };
    let panes = state.panes();
    if let Some(Dialog::Page(page)) = &state.dialog {
        text::page(&mut pen, state.page_area(), page);
    } else {
        lists::runs(&mut pen, &panes, state);
        (panes.rule.y..panes.rule.bottom()).for_each(|y| pen.put(panes.rule.x, y, "│", DIM));
        head::draw(&mut pen, &panes, state);
        lists::iterations(&mut pen, &panes, state);
        text::story(&mut pen, &panes, state);
    }
    let tone = if matches!(state.message, Some(Err(_))) { Tone::Bad } else { Tone::Good };
    let style = theme.tone(tone);
    for (y, line) in (panes.message.y..panes.message.bottom()).zip(state.message_lines()) {
        pen.line(Rect { y, height: 1, ..panes.message }, &[(&format!(" {line}"), style)]);
    }
    let typed = dialogs::draw(&mut pen, state);
    typed.or_else(|| footer(&mut pen, panes.footer, state))
}

/// Puts text on the screen; whatever does not fit is left out.
struct Pen<'a> {
    buffer: &'a mut Buffer,
    theme: Theme,
}

impl Pen<'_> {
    fn put(&mut self, x: u16, y: u16, text: &str, style: Style) {
        let area = *self.buffer.area();
        if x < area.right() && y < area.bottom() {
            self.buffer.set_stringn(x, y, text, usize::from(area.right() - x), style);
        }
    }

    /// Writes parts one after the other into the first row of an area.
    fn line(&mut self, area: Rect, parts: &[(&str, Style)]) {
        if area.is_empty() {
            return;
        }
        let mut left = usize::from(area.width);
        let mut x = area.x;
        for (part, style) in parts {
            let part = fit(part, left);
            let used = columns(&part);
            self.put(x, area.y, &part, *style);
            left = left.saturating_sub(used);
            x = x.saturating_add(u16::try_from(used).unwrap_or(u16::MAX));
        }
    }

    /// Writes the heading of a pane: a rule with its name.
    fn heading(&mut self, pane: Rect, name: &str, more: &str, is_focused: bool) {
        if pane.is_empty() {
            return;
        }
        let name_style = if is_focused { REVERSED.patch(BOLD) } else { BOLD };
        let space = if more.is_empty() { "" } else { " " };
        let used = columns(name) + columns(more) + columns(space) + 3;
        let rule = "─".repeat(usize::from(pane.width).saturating_sub(used));
        let parts = [
            ("─", DIM),
            (&format!(" {name} "), name_style),
            (&format!("{more}{space}"), Style::new()),
            (&rule, DIM),
        ];
        self.line(pane, &parts);
    }
}

/// Writes what the keys do, or the pattern that is typed.
fn footer(pen: &mut Pen<'_>, area: Rect, state: &WatchState) -> Option<Position> {
    if area.is_empty() {
        return None;
    }
    if let Some(input) = &state.search {
        let width = usize::from(area.width.saturating_sub(2));
        let (text, column) = input.visible(width);
        pen.line(area, &[("/", BOLD), (&text, Style::new())]);
        let x = area.x + 1 + u16::try_from(column).unwrap_or_default();
        return Some(Position { x: x.min(area.right().saturating_sub(1)), y: area.y });
    }
    let items: Vec<(&str, &str)> = match &state.dialog {
        Some(Dialog::Page(_)) => {
            vec![("Esc", " close"), ("/", " search"), ("n", " next"), ("N", " previous")]
        }
        Some(_) => Vec::new(),
        None => {
            let pause = if state.pause_resumes() { " resume" } else { "ause" };
            vec![
                ("s", "teer"),
                ("a", "nswer"),
                ("p", pause),
                ("l", "imits"),
                ("x", "stop"),
                ("d", "iff"),
                ("v", "erdicts"),
                ("f", "ollow"),
                ("/", ""),
                ("?", ""),
                ("q", ""),
            ]
        }
    };
    keys(pen, area, items);
    None
}

/// Writes keys; where there is no room for all, those that the help names are left out.
fn keys(pen: &mut Pen<'_>, area: Rect, mut items: Vec<(&str, &str)>) {
    let width = |items: &[(&str, &str)]| {
        let each = items.iter().map(|(key, word)| columns(key) + columns(word) + 3);
        each.sum::<usize>().saturating_sub(1)
    };
    while width(&items) > usize::from(area.width) && items.len() > 2 {
        // The last two are `?` and `q`.
        items.remove(items.len() - 3);
    }
    let parts: Vec<(String, Style)> = items
        .iter()
        .flat_map(|(key, word)| [(format!("[{key}]"), BOLD), (format!("{word} "), Style::new())])
        .collect();
    let parts: Vec<(&str, Style)> =
        parts.iter().map(|(text, style)| (text.as_str(), *style)).collect();
    pen.line(area, &parts);
}

#[cfg(test)]
mod tests;
