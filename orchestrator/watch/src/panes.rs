//! Where everything is, decided by the size of the screen and the focus alone: no fact moves a pane.

use ratatui::layout::Rect;

use crate::scroll_text::Window;

/// Narrower screens show one column.
const TWO_COLUMNS: u16 = 60;
/// Where there is so little room, only one list is below the head.
const BOTH_LISTS: u16 = 9;
/// On a screen of so many rows what happens has two of them.
const TALL: u16 = 30;

/// The pane that keys go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    Runs,
    Iterations,
    Story,
}

impl Focus {
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Runs => Self::Iterations,
            Self::Iterations => Self::Story,
            Self::Story => Self::Runs,
        }
    }

    pub(crate) const fn previous(self) -> Self {
        self.next().next()
    }
}

/// The areas of the screen; those that are not shown are empty. The first row of the lists is their heading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Panes {
    pub(crate) runs: Rect,
    /// The line between the runs and the chosen one.
    pub(crate) rule: Rect,
    pub(crate) head: Rect,
    pub(crate) iterations: Rect,
    pub(crate) story: Rect,
    pub(crate) message: Rect,
    pub(crate) footer: Rect,
    /// Rows of the head that say what happens.
    pub(crate) activity_rows: u16,
    /// Rows of the head with limits.
    pub(crate) limit_rows: u16,
}

impl Panes {
    /// Returns the panes of a screen. `message_rows`: how many rows the message would take.
    pub(crate) fn of(width: u16, height: u16, focus: Focus, message_rows: u16) -> Self {
        let screen = Rect::new(0, 0, width, height);
        let footer = Rect { height: u16::from(height > 2), ..screen };
        let body = Rect { height: height - footer.height, ..screen };
        let message = Rect { height: message_rows.min(body.height / 3), ..screen };
        let mut panes = Self::default();
        if width < TWO_COLUMNS && focus == Focus::Runs {
            panes.runs = body;
        } else if width < TWO_COLUMNS {
            panes.split(body, height, focus);
        } else {
            let left = (width / 4).clamp(20, 40);
            panes.runs = Rect { width: left, ..body };
            panes.rule = Rect { x: left, width: 1, ..body };
            let right = Rect { x: left + 1, width: width - left - 1, ..body };
            panes.split(right, height, focus);
        }
        // The message covers what is below, and moves nothing.
        let above = Rect { height: body.height - message.height, ..screen };
        let all = [
            &mut panes.runs,
            &mut panes.rule,
            &mut panes.head,
            &mut panes.iterations,
            &mut panes.story,
        ];
        all.into_iter().for_each(|pane| *pane = pane.intersection(above));
        panes.message = Rect { y: above.height, ..message };
        panes.footer = Rect { y: body.height, ..footer };
        panes
    }

    fn split(&mut self, right: Rect, height: u16, focus: Focus) {
        self.activity_rows = if height >= TALL { 2 } else { 1 };
        self.limit_rows = match right.width {
            100.. => 1,
            46.. => 2,
            _ => 4,
        };
        // Besides them there are the title, the verdicts and the usage.
        let head = (3 + self.activity_rows + self.limit_rows).min(right.height / 2);
        self.head = Rect { height: head, ..right };
        let rest = Rect { y: right.y + head, height: right.height - head, ..right };
        let wanted = if rest.height < BOTH_LISTS {
            if focus == Focus::Iterations { rest.height } else { 0 }
        } else {
            1 + (rest.height / 4).clamp(3, 12)
        };
        self.iterations = Rect { height: wanted, ..rest };
        self.story = Rect { y: rest.y + wanted, height: rest.height - wanted, ..rest };
    }

    /// What of a list is left below its heading.
    pub(crate) const fn below_heading(pane: Rect) -> Rect {
        let heading = if pane.height == 0 { 0 } else { 1 };
        Rect { y: pane.y + heading, height: pane.height - heading, ..pane }
    }

    /// The window on a text in a pane with a heading. A column on either side stays free.
    pub(crate) fn window(pane: Rect) -> Window {
        let inner = Self::text_area(pane);
        Window { width: usize::from(inner.width), height: usize::from(inner.height) }
    }

    /// The area of such a text.
    pub(crate) const fn text_area(pane: Rect) -> Rect {
        let below = Self::below_heading(pane);
        let margin = if below.width > 2 { 1 } else { 0 };
        Rect { x: below.x + margin, width: below.width - 2 * margin, ..below }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_fill_every_screen_and_never_leave_it() {
        for width in 0..220 {
            for height in 0..70 {
                for focus in [Focus::Runs, Focus::Iterations, Focus::Story] {
                    for rows in [0, 1, 3] {
                        let panes = Panes::of(width, height, focus, rows);
                        let all = [
                            panes.runs,
                            panes.rule,
                            panes.head,
                            panes.iterations,
                            panes.story,
                            panes.message,
                            panes.footer,
                        ];
                        let cells: u32 = all.iter().map(|area| area.area()).sum();
                        assert_eq!(cells, u32::from(width) * u32::from(height), "{panes:?}");
                        let screen = Rect::new(0, 0, width, height);
                        for area in all.into_iter().filter(|area| !area.is_empty()) {
                            assert_eq!(area.intersection(screen), area);
                        }
                    }
                }
            }
        }
    }
}
