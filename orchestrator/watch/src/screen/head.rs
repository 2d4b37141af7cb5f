//! What is known of the chosen run: its phase, what happens, its limits, the last verdicts.

use ralph_orchestrator_text::{columns, fit, wrap};
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::{BOLD, DIM, Panes, Pen, glyph};
use crate::facts::{LimitFacts, RunFacts, Tone, VerdictWord};
use crate::state::WatchState;

/// From here on, in thousandths, a limit is nearly used up.
const NEARLY: u16 = 750;
const ALMOST_ALL: u16 = 900;
const WIDEST_BAR: usize = 12;
/// Narrower limits have short names, so that there is room for their bars.
const FULL_NAMES: u16 = 33;

pub(super) fn draw(pen: &mut Pen<'_>, panes: &Panes, state: &WatchState) {
    let mut rows = (panes.head.y..panes.head.bottom()).map(|y| Rect { y, height: 1, ..panes.head });
    let Some(item) = state.runs.chosen() else {
        let text = match state.runs.is_known {
            true => " no run of this user yet; `ralph-orchestrator run` starts one",
            false => " reading the runs",
        };
        if let Some(row) = rows.next() {
            pen.line(row, &[(text, DIM)]);
        }
        return;
    };
    if let (Some(row), Some(phase)) = (rows.next(), state.phase()) {
        let style = pen.theme.phase(phase).patch(BOLD);
        let word = phase.word().to_uppercase();
        let agent = state.facts.as_ref().map(|facts| format!("  {}", facts.agent));
        let name = format!(" {}  ", item.name);
        let mark = format!("{} {word}", glyph(phase));
        pen.line(row, &[(&name, BOLD), (&mark, style), (&agent.unwrap_or_default(), DIM)]);
    }
    let Some(facts) = &state.facts else {
        if let Some(row) = rows.next() {
            pen.line(row, &[(" reading the run", DIM)]);
        }
        return;
    };
    let width = usize::from(panes.head.width.saturating_sub(2));
    let style = pen.theme.tone(facts.activity_tone);
    let activity = wrap(&facts.activity, width, 0);
    for at in 0..usize::from(panes.activity_rows) {
        let Some(row) = rows.next() else { return };
        let is_last = at + 1 == usize::from(panes.activity_rows);
        let text = match activity.get(at) {
            // What is left is said to be more.
            Some(line) if is_last && at + 1 < activity.len() => fit(&format!("{line}…"), width),
            line => line.cloned().unwrap_or_default(),
        };
        pen.line(row, &[(" ", Style::new()), (&text, style)]);
    }
    limits(pen, panes, facts, &mut rows);
    if let Some(row) = rows.next() {
        verdicts(pen, row, facts);
    }
    if let Some(row) = rows.next() {
        pen.line(row, &[(&format!(" {}", facts.usage), DIM)]);
    }
}

/// Writes the limits as bars, in as many rows as the panes have for them.
fn limits(
    pen: &mut Pen<'_>,
    panes: &Panes,
    facts: &RunFacts,
    rows: &mut impl Iterator<Item = Rect>,
) {
    let of_row = facts.limits.len().div_ceil(usize::from(panes.limit_rows.max(1)));
    let width = panes.head.width.saturating_sub(1) / u16::try_from(of_row).unwrap_or(1).max(1);
    for part in facts.limits.chunks(of_row.max(1)) {
        let Some(row) = rows.next() else { return };
        for (column, limit) in (0_u16..).zip(part) {
            let x = row.x + 1 + column * width;
            bar(pen, Rect { x, width: width.saturating_sub(2), ..row }, limit);
        }
    }
}

fn bar(pen: &mut Pen<'_>, area: Rect, limit: &LimitFacts) {
    let text = match &limit.max {
        Some(max) => format!("{} of {max}", limit.used),
        None => format!("{}, no limit", limit.used),
    };
    let name = limit.name;
    let name = match area.width {
        FULL_NAMES.. => format!("{name:<10} "),
        _ => format!("{:<8}", name.get(..4).filter(|_| name == "iterations").unwrap_or(name)),
    };
    let used = columns(&name) + columns(&text) + 1;
    let room = usize::from(area.width).saturating_sub(used).min(WIDEST_BAR);
    let Some(share) = limit.share.filter(|_| room >= 4) else {
        return pen.line(area, &[(&name, DIM), (&text, Style::new())]);
    };
    let filled = ((room * usize::from(share) + 500) / 1000).min(room);
    let colour = match share {
        ALMOST_ALL.. => Color::Red,
        NEARLY.. => Color::Yellow,
        _ => Color::Green,
    };
    let style = pen.theme.colour(colour);
    let (full, empty) = ("█".repeat(filled), "░".repeat(room - filled));
    let text = format!(" {text}");
    pen.line(area, &[(&name, DIM), (&full, style), (&empty, DIM), (&text, Style::new())]);
}

fn verdicts(pen: &mut Pen<'_>, row: Rect, facts: &RunFacts) {
    let mut parts = vec![(" ".to_owned(), Style::new())];
    if facts.verdicts.is_empty() {
        parts.push(("nothing validated yet".to_owned(), DIM));
    }
    for verdict in &facts.verdicts {
        let (mark, tone) = match verdict.word {
            VerdictWord::Accepted => ("✓", Tone::Good),
            VerdictWord::Rejected => ("✗", Tone::Bad),
            VerdictWord::Error => ("!", Tone::Warning),
        };
        parts.push((format!("{mark} {}  ", verdict.validator), pen.theme.tone(tone)));
    }
    let parts: Vec<(&str, Style)> =
        parts.iter().map(|(text, style)| (text.as_str(), *style)).collect();
    pen.line(row, &parts);
}
