//! Shows all runs on the whole terminal: the same facts as `runs`, `status`, `log` and `diff`, and the same controls.

mod budget_words;
mod facts;
mod names;
mod requests;
mod story;
mod supply;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::signals;
use ralph_orchestrator_terminal::signals::EndSignal;
use ralph_orchestrator_watch::{
    Key, Request, TerminalEvent, TerminalSession, Theme, Update, WatchState,
};

use requests::check_limit;

/// How long news and signals may wait for their turn; keys never do.
const PATIENCE: Duration = Duration::from_millis(100);
/// Keys and sizes that are taken in before the screen is drawn again.
const MOST_EVENTS: usize = 200;

/// Shows the runs until a person or a signal ends that, and returns the exit status. `first`: the state directory of
/// the run to begin with.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) fn show_runs(first: Option<PathBuf>) -> Result<u8, CommandError> {
    let has_colour = output::wants_colour();
    let signal = signals::listen_for_end()?;
    // Whatever else is printed would be in the middle of the screen.
    output::set_quiet();
    let (updates, requests) = supply::start()?;
    let mut session = TerminalSession::begin(Theme { has_colour })?;
    let (width, height) = session.size();
    let first = first.map(|root| root.to_string_lossy().into_owned());
    let state = WatchState::new(width, height, first, check_limit);
    let mut view = View { state, updates, requests };
    let status = view.run(&mut session, &signal)?;
    drop(session);
    Ok(status)
}

struct View {
    state: WatchState,
    updates: Receiver<Update>,
    requests: Sender<Request>,
}

impl View {
    fn run(
        &mut self,
        session: &mut TerminalSession,
        signal: &EndSignal,
    ) -> Result<u8, CommandError> {
        session.draw(&self.state)?;
        loop {
            let mut is_changed = self.take_updates()?;
            let mut patience = PATIENCE;
            for _ in 0..MOST_EVENTS {
                match session.next_event(patience)? {
                    None => break,
                    Some(TerminalEvent::Gone) => return Ok(exit::TERMINATED),
                    Some(TerminalEvent::Size(width, height)) => self.state.resize(width, height),
                    Some(TerminalEvent::Key(Key::Redraw)) => session.clear()?,
                    Some(TerminalEvent::Key(key)) => {
                        let requests = self.state.handle(&key);
                        if self.send(requests) {
                            return Ok(exit::OK);
                        }
                    }
                }
                (is_changed, patience) = (true, Duration::ZERO);
            }
            if let Some(status) = signal.status() {
                return Ok(status);
            }
            if is_changed {
                session.draw(&self.state)?;
            }
        }
    }

    /// Takes in what is new, and returns whether anything was.
    fn take_updates(&mut self) -> Result<bool, CommandError> {
        let mut is_changed = false;
        loop {
            match self.updates.try_recv() {
                Ok(update) => {
                    let requests = self.state.update(update);
                    self.send(requests);
                    is_changed = true;
                }
                Err(TryRecvError::Empty) => return Ok(is_changed),
                Err(TryRecvError::Disconnected) => {
                    return Err(CommandError::internal("the thread that reads the runs has ended"));
                }
            }
        }
    }

    /// Passes requests on, and returns whether the view is to end.
    fn send(&self, requests: Vec<Request>) -> bool {
        let mut is_over = false;
        for request in requests {
            is_over |= request == Request::Quit;
            // A reader that is gone is noticed with its updates.
            drop(self.requests.send(request));
        }
        is_over
    }
}

/// Starts a channel and its sender's thread.
fn spawn(
    name: &str,
    work: impl FnOnce(Sender<Update>) + Send + 'static,
) -> std::io::Result<Receiver<Update>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || work(sender))?;
    Ok(receiver)
}
