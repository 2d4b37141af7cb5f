//! The list of runs and that of iterations.

use ralph_orchestrator_text::{columns, fit};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{BOLD, DIM, Focus, Panes, Pen, REVERSED, glyph};
use crate::facts::{IterationFacts, RunListItem};
use crate::state::WatchState;

/// Narrower lists have no words for phases.
const WITH_WORDS: u16 = 32;

pub(super) fn runs(pen: &mut Pen<'_>, panes: &Panes, state: &WatchState) {
    let pane = panes.runs;
    let is_focused = state.focus == Focus::Runs;
    pen.heading(pane, &format!("runs ({})", state.runs.items().len()), "", is_focused);
    let below = Panes::below_heading(pane);
    let shown = state.runs.items().iter().enumerate().skip(state.runs.top());
    for (y, (at, item)) in (below.y..below.bottom()).zip(shown) {
        let is_chosen = state.runs.chosen_index() == Some(at);
        run(pen, Rect { y, height: 1, ..below }, item, is_chosen, is_focused);
    }
}

fn run(pen: &mut Pen<'_>, row: Rect, item: &RunListItem, is_chosen: bool, is_focused: bool) {
    let style = match (is_chosen, is_focused) {
        (true, true) => REVERSED,
        (true, false) => BOLD,
        (false, _) => Style::new(),
    };
    let width = usize::from(row.width);
    // Where there is little room, the sign says it alone.
    let word = if row.width < WITH_WORDS { "" } else { item.phase.word() };
    let count = item.iterations.map(|count| format!(" {count:>3}")).unwrap_or_default();
    let room = width.saturating_sub(columns(word) + columns(&count) + 5);
    let name = fit(&item.name, room);
    let pad = " ".repeat(room.saturating_sub(columns(&name)) + 1);
    let mark = if is_chosen { "▸" } else { " " };
    let sign = pen.theme.phase(item.phase).patch(style);
    let parts = [
        (mark, style),
        (glyph(item.phase), sign),
        (" ", style),
        (&name, style),
        (&pad, style),
        (word, sign),
        (&count, style),
        (" ", style),
    ];
    pen.line(row, &parts);
}

pub(super) fn iterations(pen: &mut Pen<'_>, panes: &Panes, state: &WatchState) {
    let pane = panes.iterations;
    let all = state.facts.as_ref().map(|facts| facts.iterations.as_slice()).unwrap_or_default();
    let is_focused = state.focus == Focus::Iterations;
    let more = match is_focused {
        true => "Enter transcript, d changes",
        false => "",
    };
    pen.heading(pane, "iterations", more, is_focused);
    let below = Panes::below_heading(pane);
    let visible = state.iterations.visible(all, usize::from(below.height));
    let rows: Vec<&IterationFacts> = all.iter().skip(visible.first).collect();
    let shown = rows.get(..rows.len().min(usize::from(below.height))).unwrap_or_default();
    let widths = widths(shown);
    for ((y, own), at) in (below.y..below.bottom()).zip(shown).zip(visible.first..) {
        let is_chosen = is_focused && visible.chosen == Some(at);
        let style = if is_chosen { REVERSED } else { pen.theme.tone(own.tone) };
        let text = line(own, &widths);
        let pad = " ".repeat(usize::from(below.width).saturating_sub(columns(&text)));
        let text = if is_chosen { format!("{text}{pad}") } else { text };
        pen.line(Rect { y, height: 1, ..below }, &[(&text, style)]);
    }
    if all.is_empty() && state.facts.is_some() {
        pen.line(below, &[(" none yet", DIM)]);
    }
}

fn widths(rows: &[&IterationFacts]) -> Vec<usize> {
    let most = rows.iter().map(|own| own.cells.len()).max().unwrap_or_default();
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|own| own.cells.get(at));
        cells.map(|cell| columns(cell)).max().unwrap_or_default()
    };
    (0..most).map(width).collect()
}

fn line(own: &IterationFacts, widths: &[usize]) -> String {
    let mut text = String::from(" ");
    for (at, (cell, width)) in
        own.cells.iter().zip(widths).enumerate().filter(|(_, (_, w))| **w > 0)
    {
        let pad = " ".repeat(width.saturating_sub(columns(cell)));
        // Numbers stand below one another at their last digit.
        let cell = if at == 0 { format!("{pad}{cell}") } else { format!("{cell}{pad}") };
        text.push_str(&format!("{cell}  "));
    }
    text.trim_end().to_owned()
}
