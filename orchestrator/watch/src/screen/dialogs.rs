//! Dialogs, in the middle of the screen.

use ralph_orchestrator_text::{columns, wrap};
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use super::{BOLD, DIM, Pen, REVERSED};
use crate::dialog::{Dialog, LimitField, LimitsForm, Target};
use crate::facts::Tone;
use crate::state::WatchState;
use crate::text_input::TextInput;

const WIDEST: u16 = 90;
/// Columns before what is typed in the form of limits.
const LABEL: u16 = 12;

/// A dialog's rows, and where its cursor is.
struct Rows {
    width: usize,
    lines: Vec<Vec<(String, Style)>>,
    cursor: Option<(usize, usize)>,
}

impl Rows {
    fn text(&mut self, text: &str, style: Style) {
        let lines = wrap(text, self.width, 0);
        self.lines.extend(lines.into_iter().map(|line| vec![(line, style)]));
    }

    fn input(&mut self, input: &TextInput) {
        let (text, column) = input.visible(self.width.saturating_sub(3));
        self.cursor = Some((self.lines.len(), column + 2));
        self.lines.push(vec![("> ".to_owned(), BOLD), (text, Style::new())]);
    }
}

/// Draws the dialog, and returns where its cursor is.
pub(super) fn draw(pen: &mut Pen<'_>, state: &WatchState) -> Option<Position> {
    let area = state.page_area();
    let width = area.width.saturating_sub(4).min(WIDEST);
    let rows =
        Rows { width: usize::from(width.saturating_sub(4)), lines: Vec::new(), cursor: None };
    let (title, rows) = match state.dialog.as_ref()? {
        Dialog::Page(_) => return None,
        Dialog::Steer(target, input) => ("steer", steer(rows, target, input)),
        Dialog::Answer(target, question, input) => {
            ("answer", answer(pen, rows, target, question.as_deref(), input))
        }
        Dialog::Stop(target) => ("stop", stop(rows, target)),
        Dialog::Limits(target, form) => ("limits", limits(pen, rows, target, form)),
    };
    put(pen, area, width, title, &rows)
}

fn steer(mut rows: Rows, target: &Target, input: &TextInput) -> Rows {
    rows.text(&format!("Guidance for the agent of {}:", target.name), Style::new());
    rows.input(input);
    rows.text("Enter sends it, Esc cancels", DIM);
    rows
}

fn answer(
    pen: &Pen<'_>,
    mut rows: Rows,
    target: &Target,
    question: Option<&str>,
    input: &TextInput,
) -> Rows {
    match question {
        Some(question) => {
            rows.text(&format!("{} asks:", target.name), Style::new());
            rows.text(question, pen.theme.tone(Tone::Warning));
        }
        None => {
            let text = format!("No question of {} is open; the text is guidance:", target.name);
            rows.text(&text, Style::new());
        }
    }
    rows.input(input);
    rows.text("Enter sends it, Esc cancels", DIM);
    rows
}

fn stop(mut rows: Rows, target: &Target) -> Rows {
    let text = format!(
        "Stop the run of {}? The running iteration is cancelled; `run` resumes.",
        target.name
    );
    rows.text(&text, BOLD);
    rows.text("[y] stop  [n] do not", DIM);
    rows
}

fn limits(pen: &Pen<'_>, mut rows: Rows, target: &Target, form: &LimitsForm) -> Rows {
    rows.text(&format!("Limits of {}; none is no limit:", target.name), Style::new());
    for (at, LimitField { name, input, used, .. }) in form.fields.iter().enumerate() {
        let is_current = at == form.at && !form.is_asking;
        let room = rows.width.saturating_sub(14) / 2;
        let room = room.clamp(6, 14);
        let (text, column) = input.visible(room);
        let mark = if is_current { "▸ " } else { "  " };
        if is_current {
            rows.cursor = Some((rows.lines.len(), usize::from(LABEL) + 1 + column));
        }
        let pad = " ".repeat((room + 1).saturating_sub(columns(&text)));
        let style = if is_current { REVERSED } else { Style::new() };
        rows.lines.push(vec![
            (format!("{mark}{name:<11}"), if is_current { BOLD } else { Style::new() }),
            (format!("{text}{pad}"), style),
            (format!(" {used} used"), DIM),
        ]);
    }
    match &form.problem {
        Some(problem) => rows.text(problem, pen.theme.tone(Tone::Bad)),
        None if form.is_asking => {
            rows.text(&format!("Change {}?", form.changes().join(", ")), BOLD);
            rows.text("[y] change  [n] do not", DIM);
        }
        None => rows.text("Enter goes on, Esc cancels", DIM),
    }
    rows
}

/// Puts a box with these rows into the middle.
fn put(pen: &mut Pen<'_>, area: Rect, width: u16, title: &str, rows: &Rows) -> Option<Position> {
    let most = area.height.saturating_sub(2);
    let height = u16::try_from(rows.lines.len()).unwrap_or(u16::MAX).min(most);
    if width < 6 || height == 0 {
        return None;
    }
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height - 2) / 2;
    let frame = |left: &str, right: &str, title: &str| {
        let line = "─".repeat(usize::from(width).saturating_sub(columns(title) + 2));
        format!("{left}{title}{line}{right}")
    };
    let inner = usize::from(width) - 2;
    pen.put(x, y, &frame("╭", "╮", &format!("─ {title} ")), Style::new());
    // What was typed last matters most: of too many rows the first are left out.
    let hidden = rows.lines.len().saturating_sub(usize::from(height));
    for (at, parts) in (1_u16..=height).zip(rows.lines.iter().skip(hidden)) {
        pen.put(x, y + at, &format!("│{}│", " ".repeat(inner)), Style::new());
        let parts: Vec<(&str, Style)> =
            parts.iter().map(|(text, style)| (text.as_str(), *style)).collect();
        pen.line(Rect::new(x + 2, y + at, width.saturating_sub(4), 1), &parts);
    }
    pen.put(x, y + height + 1, &frame("╰", "╯", ""), Style::new());
    let (row, column) = rows.cursor?;
    let row = u16::try_from(row.checked_sub(hidden)?).ok()?;
    let column = u16::try_from(column).ok()?;
    Some(Position { x: (x + 2 + column).min(area.right().saturating_sub(1)), y: y + 1 + row })
}
