//! The story, and pages to read.

use ralph_orchestrator_text::columns;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{DIM, Focus, Panes, Pen, REVERSED};
use crate::dialog::Page;
use crate::scroll_text::{ScrollText, find};
use crate::state::WatchState;

pub(super) fn story(pen: &mut Pen<'_>, panes: &Panes, state: &WatchState) {
    let more = match (state.story.is_following(), state.story.unread()) {
        (true, _) if state.skipped > 0 => format!("following; {} earlier in `log`", state.skipped),
        (true, _) => "following".to_owned(),
        (false, 0) => "f follows".to_owned(),
        (false, unread) => format!("{unread} newer; f follows"),
    };
    pen.heading(panes.story, "story", &more, state.focus == Focus::Story);
    text(pen, panes.story, &state.story);
}

pub(super) fn page(pen: &mut Pen<'_>, area: Rect, page: &Page) {
    let more = if page.is_awaited { "reading" } else { "" };
    pen.heading(area, &page.title, more, true);
    text(pen, area, &page.text);
}

fn text(pen: &mut Pen<'_>, pane: Rect, text: &ScrollText) {
    let area = Panes::text_area(pane);
    for (y, line) in (area.y..area.bottom()).zip(text.visible(Panes::window(pane))) {
        let style = pen.theme.tone(line.entry.tone);
        highlighted(pen, Rect { y, height: 1, ..area }, &line.text, style, text.pattern());
    }
}

/// Writes a line, with the matches of a pattern highlighted.
fn highlighted(pen: &mut Pen<'_>, row: Rect, line: &str, style: Style, pattern: &str) {
    let mut parts = Vec::new();
    let mut rest: Vec<char> = line.chars().collect();
    while let Some(at) = find(&rest.iter().collect::<String>(), pattern) {
        let tail = rest.split_off((at + pattern.chars().count()).min(rest.len()));
        let found = rest.split_off(at.min(rest.len()));
        parts.push((rest.into_iter().collect::<String>(), style));
        parts.push((found.into_iter().collect(), style.patch(REVERSED)));
        rest = tail;
    }
    parts.push((rest.into_iter().collect(), style));
    let is_long = columns(line) > usize::from(row.width);
    let parts: Vec<(&str, Style)> =
        parts.iter().map(|(text, style)| (text.as_str(), *style)).collect();
    pen.line(row, &parts);
    if is_long && row.width > 0 {
        pen.put(row.right() - 1, row.y, "…", DIM);
    }
}
