//! The carrier `library`: a plugin in this very process.
//!
//! A thread of its own makes all calls into the library, so that one that does not return holds up
//! nobody else: the session notices that no frame comes.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use plugin_abi::{MAX_FRAME, status};
use tokio::sync::mpsc;

use crate::carrier::{Carrier, Gone, Inbound, QUEUE};
use crate::library::{Loaded, Session, Sink};

/// Frames that wait for the library, at most. Far more than calls and credits can be open, so that
/// only a library that does not take them at all fills it.
const WAITING: usize = 4096;
/// How long the threads of a plugin may take to end when its session is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// A session with a library in this process. To drop it closes the session.
#[derive(Debug)]
pub struct LibraryCarrier {
    frames: SyncSender<Vec<u8>>,
}

impl LibraryCarrier {
    /// Opens a session with a loaded library. What comes from it is in the channel; that it could not
    /// be opened, too.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(library: Loaded) -> std::io::Result<(Self, mpsc::Receiver<Inbound>)> {
        let (frames, waiting) = sync_channel(WAITING);
        let (inbound, session) = mpsc::channel(QUEUE);
        // The kernel keeps 15 bytes of a name.
        let name =
            library.manifest().name.chars().filter(char::is_ascii).take(8).collect::<String>();
        thread::Builder::new().name(format!("plugin {name}")).spawn(move || {
            let how = talk(&library, &waiting, &inbound);
            // Nobody may be there any more to hear it.
            let _ = inbound.blocking_send(Inbound::Ended(how));
        })?;
        Ok((Self { frames }, session))
    }
}

impl Carrier for LibraryCarrier {
    fn send(&self, frame: Vec<u8>) -> Result<(), Gone> {
        self.frames.try_send(frame).map_err(|error| match error {
            TrySendError::Full(_) => {
                Gone(format!("it does not take what it is sent: {WAITING} frames wait for it"))
            }
            TrySendError::Disconnected(_) => Gone("its session is closed".to_owned()),
        })
    }

    fn lasts(&self) -> bool {
        true
    }
}

/// The whole session; how it ended.
fn talk(library: &Loaded, waiting: &Receiver<Vec<u8>>, to: &mpsc::Sender<Inbound>) -> String {
    let open = Arc::new(Mutex::new(Some(to.clone())));
    let mut session = match Session::open(library, sink(Arc::clone(&open))) {
        Ok(session) => session,
        Err(failure) => {
            shut(&open);
            return failure.to_string();
        }
    };
    let mut how = "its session was closed".to_owned();
    for frame in waiting {
        if let Err(failure) = session.send(&frame) {
            how = failure.to_string();
            break;
        }
    }
    if let Err(failure) = session.close(CLOSE_WITHIN) {
        how = format!("{how}, and {failure}");
    }
    shut(&open);
    how
}

type Open = Arc<Mutex<Option<mpsc::Sender<Inbound>>>>;

fn shut(open: &Open) {
    *open.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Where the frames of the plugin go, until it is shut.
fn sink(open: Open) -> Sink {
    Box::new(move |frame, must_not_wait| {
        let Some(to) = open.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return status::CLOSED;
        };
        let (inbound, good) = if frame.len() > MAX_FRAME {
            let bytes = u64::try_from(frame.len()).unwrap_or(u64::MAX);
            (Inbound::TooLong { bytes }, status::INVALID)
        } else {
            (Inbound::Frame(frame.to_vec()), status::OK)
        };
        match to.try_send(inbound) {
            Ok(()) => good,
            Err(mpsc::error::TrySendError::Closed(_)) => status::CLOSED,
            Err(mpsc::error::TrySendError::Full(_)) if must_not_wait => status::BUSY,
            // A thread of the plugin, never one of ours: this is what slows the plugin down.
            Err(mpsc::error::TrySendError::Full(inbound)) => match to.blocking_send(inbound) {
                Ok(()) => good,
                Err(_) => status::CLOSED,
            },
        }
    })
}
