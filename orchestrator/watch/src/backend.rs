//! Cells of the screen as the control sequences that every terminal knows.

use std::fmt::Write as _;
use std::io::{self, Write as _, stdout};

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use rustix::termios::tcgetwinsize;

/// The terminal behind stdout. A frame is written at once.
#[derive(Debug, Default)]
pub(crate) struct TerminalBackend {
    text: String,
    cursor: Position,
}

/// The styles of a cell.
type Style = (Color, Color, Modifier);

const PLAIN: Style = (Color::Reset, Color::Reset, Modifier::empty());

impl TerminalBackend {
    /// Adds a control sequence.
    pub(crate) fn add(&mut self, sequence: &str) {
        self.text.push_str(sequence);
    }

    fn add_style(&mut self, (fg, bg, modifier): Style) {
        self.add("\x1b[0");
        let codes = [
            (Modifier::BOLD, ";1"),
            (Modifier::DIM, ";2"),
            (Modifier::ITALIC, ";3"),
            (Modifier::UNDERLINED, ";4"),
            (Modifier::REVERSED, ";7"),
        ];
        let set = codes.iter().filter(|(own, _)| modifier.contains(*own));
        set.for_each(|(_, code)| self.add(code));
        for (colour, ground) in [(fg, 30), (bg, 40)] {
            // Writing to a String cannot fail.
            let _ = match colour {
                Color::Reset => Ok(()),
                Color::Indexed(index) => write!(self.text, ";{};5;{index}", ground + 8),
                Color::Rgb(r, g, b) => write!(self.text, ";{};2;{r};{g};{b}", ground + 8),
                named => write!(self.text, ";{}", ground + code(named)),
            };
        }
        self.add("m");
    }
}

/// The code of a named colour, from black.
const fn code(colour: Color) -> u8 {
    match colour {
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
        _ => 0,
    }
}

impl Backend for TerminalBackend {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let (mut style, mut next) = (PLAIN, None);
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.set_cursor_position((x, y))?;
            }
            next = Some((x.saturating_add(1), y));
            let own = (cell.fg, cell.bg, cell.modifier);
            if own != style {
                self.add_style(own);
                style = own;
            }
            self.add(cell.symbol());
        }
        if style != PLAIN {
            self.add("\x1b[0m");
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.add("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.add("\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor = position.into();
        let Position { x, y } = self.cursor;
        let (row, column) = (y.saturating_add(1), x.saturating_add(1));
        self.add(&format!("\x1b[{row};{column}H"));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.add(match region {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(stdout())?;
        // One that does not know it has the size that terminals once had.
        Ok(match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => Size::new(80, 24),
            (columns, rows) => Size::new(columns, rows),
        })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::default() })
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.text);
        let mut out = stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style as CellStyle;

    use super::*;

    fn written(draw: impl FnOnce(&mut Buffer)) -> String {
        let empty = Buffer::empty(Rect::new(0, 0, 20, 3));
        let mut buffer = empty.clone();
        draw(&mut buffer);
        let mut backend = TerminalBackend::default();
        backend.draw(empty.diff(&buffer).into_iter()).unwrap();
        backend.text
    }

    #[test]
    fn only_what_changed_is_written_each_style_once() {
        assert_eq!(written(|_| ()), "");
        assert_eq!(
            written(|buffer| buffer.set_string(3, 1, "ab", CellStyle::new())),
            "\x1b[2;4Hab"
        );
        let style = CellStyle::new().fg(Color::Green).add_modifier(Modifier::BOLD);
        assert_eq!(
            written(|buffer| buffer.set_string(0, 0, "日x", style)),
            "\x1b[1;1H\x1b[0;1;32m日\x1b[1;3Hx\x1b[0m"
        );
    }

    #[test]
    fn all_colours_have_their_codes() {
        let style = CellStyle::new().fg(Color::Rgb(1, 2, 3)).bg(Color::Indexed(200));
        let text = written(|buffer| buffer.set_string(0, 0, "x", style));
        assert_eq!(text, "\x1b[1;1H\x1b[0;38;2;1;2;3;48;5;200mx\x1b[0m");
        let style = CellStyle::new().fg(Color::White).bg(Color::LightRed);
        let text = written(|buffer| buffer.set_string(0, 0, "x", style));
        assert_eq!(text, "\x1b[1;1H\x1b[0;97;101mx\x1b[0m");
    }
}
