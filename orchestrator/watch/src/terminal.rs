//! The terminal that the view takes over, and gives back however it ends.

use std::collections::VecDeque;
use std::io::{self, Write as _, stdin, stdout};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::Backend as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::backend::TerminalBackend;
use crate::key::Key;
use crate::key_parser::KeyParser;
use crate::screen::{Theme, draw};
use crate::state::WatchState;

/// What the terminal was set to, if it has to be given back.
static TAKEN: Mutex<Option<Termios>> = Mutex::new(None);

/// The other screen, texts that are pasted as such, no cursor.
const BEGIN: &str = "\x1b[?1049h\x1b[?2004h\x1b[?25l";
const END: &str = "\x1b[0m\x1b[?2004l\x1b[?1049l\x1b[?25h";
/// How long the rest of a key's bytes may take.
const REST_OF_KEY: Duration = Duration::from_millis(50);

/// What a terminal reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    /// A key.
    Key(Key),
    /// Its size, in columns and rows.
    Size(u16, u16),
    /// It is gone.
    Gone,
}

/// The terminal behind stdin and stdout, taken over. It is given back when this is dropped, and before a panic is
/// reported, in whatever thread.
#[derive(Debug)]
pub struct TerminalSession {
    terminal: Terminal<TerminalBackend>,
    theme: Theme,
    size: (u16, u16),
    parser: KeyParser,
    keys: VecDeque<Key>,
}

impl TerminalSession {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// It is none, or cannot be written to.
    pub fn begin(theme: Theme) -> io::Result<Self> {
        restore_before_a_panic();
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        let mut backend = TerminalBackend::default();
        backend.add(BEGIN);
        let size = backend.size()?;
        Ok(Self {
            terminal: Terminal::new(backend)?,
            theme,
            size: (size.width, size.height),
            parser: KeyParser::default(),
            keys: VecDeque::new(),
        })
    }

    /// Returns its columns and rows.
    #[must_use]
    pub const fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Shows the state.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, state: &WatchState) -> io::Result<()> {
        let theme = self.theme;
        self.terminal.draw(|frame| {
            if let Some(position) = draw(state, theme, frame.buffer_mut()) {
                frame.set_cursor_position(position);
            }
        })?;
        Ok(())
    }

    /// Has the next drawing write every cell again, as after something else wrote to the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Waits so long for what the terminal reports next; `None` if there is nothing that matters. Its size is
    /// compared each time.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub fn next_event(&mut self, patience: Duration) -> io::Result<Option<TerminalEvent>> {
        let size = self.terminal.backend().size().map(|size| (size.width, size.height));
        if let Ok((width, height)) = size
            && self.size != (width, height)
        {
            self.size = (width, height);
            return Ok(Some(TerminalEvent::Size(width, height)));
        }
        if self.keys.is_empty() && !self.read(patience)? {
            return Ok(Some(TerminalEvent::Gone));
        }
        Ok(self.keys.pop_front().map(TerminalEvent::Key))
    }

    /// Reads keys, and returns whether the terminal is still there.
    fn read(&mut self, patience: Duration) -> io::Result<bool> {
        let is_waiting = self.parser.is_waiting();
        let patience = if is_waiting { REST_OF_KEY } else { patience };
        let input = stdin();
        let mut side = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut side, Timespec::try_from(patience).ok().as_ref()) {
            Ok(0) if is_waiting => self.keys.extend(self.parser.finish()),
            // A signal is looked at by others.
            Ok(0) | Err(Errno::INTR) => {}
            // Whoever has the other side may be gone: then there is an end to be read.
            Ok(_) => {
                let mut bytes = [0; 4096];
                match rustix::io::read(&input, &mut bytes) {
                    Ok(0) | Err(Errno::IO) => return Ok(false),
                    Ok(count) => {
                        let bytes = bytes.get(..count).unwrap_or_default();
                        self.keys.extend(self.parser.take(bytes));
                    }
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Gives the terminal back if it was taken; what fails of it cannot be helped.
fn restore_terminal() {
    let Some(before) = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let mut out = stdout().lock();
    drop(out.write_all(END.as_bytes()).and_then(|()| out.flush()));
    let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
}

/// A program that aborts on a panic runs no destructors, but this.
fn restore_before_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore_terminal();
        report(panic);
    }));
}

#[cfg(test)]
mod tests {
    use rustix::pty::{OpenptFlags, openpt};

    use super::*;

    #[test]
    fn a_panic_in_any_thread_gives_the_terminal_back() {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        restore_before_a_panic();
        *TAKEN.lock().unwrap() = Some(tcgetattr(&terminal).unwrap());
        let panicked = std::thread::spawn(|| panic!("as expected")).join();
        assert!(panicked.is_err() && TAKEN.lock().unwrap().is_none());
    }
}
