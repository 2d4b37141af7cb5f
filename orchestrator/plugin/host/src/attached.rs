//! A plugin that its author has started, such as under a debugger, and that listens on a socket.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ralph_orchestrator_supervisor::{Ending, Exit, ProcessId, Stop};
use rustix::process::geteuid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};

use crate::process::{Connection, FrameInput, FrameSplitter, PluginProcess, forward, next_stop};
use crate::transport::{INBOUND_QUEUE, Inbound};

/// How much is read at once, in bytes.
const CHUNK: usize = 64 * 1024;
/// What stands in the place of a digest: nothing is known of what was started.
pub(crate) const ATTACHED_DIGEST: &str = "attached, not started by the orchestrator";

/// Why a plugin cannot be attached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    /// Nothing listens there.
    #[error(
        "cannot attach at {}: {error}; start the plugin so that it listens there, or unset RALPH_PLUGIN_ATTACH",
        socket.display()
    )]
    Connect { socket: PathBuf, error: std::io::Error },
    /// The process is another user's, or is not known.
    #[error("cannot attach at {}: the process that listens there is not yours", socket.display())]
    OtherUser { socket: PathBuf },
    /// The process is not that of the sessions before.
    #[error(
        "cannot attach at {}: another process listens there than before; start the orchestrator anew to accept it",
        socket.display()
    )]
    OtherProcess { socket: PathBuf },
}

/// The socket of a plugin that was started by its author. Each session is a connection of its own.
#[derive(Debug)]
pub(crate) struct AttachedPlugin {
    socket: PathBuf,
    /// Who listened at the first connection. Nobody else is spoken to: an agent could put a socket of its own there.
    listener: Mutex<Option<ProcessId>>,
}

impl AttachedPlugin {
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), listener: Mutex::default() }
    }

    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Connection, AttachError> {
        let socket = || self.socket.clone();
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| AttachError::Connect { socket: socket(), error })?;
        self.verify_listener(&stream)?;
        let (reading, writing) = stream.into_split();
        let (frames_tx, frames_rx) = mpsc::unbounded_channel();
        tokio::spawn(write_frames(writing, frames_rx));
        let (inbound_tx, inbound) = mpsc::channel(INBOUND_QUEUE);
        let (stop_tx, stop_rx) = watch::channel(None);
        let reader = tokio::spawn(read_frames(reading, stop_rx, inbound_tx));
        let input = FrameInput::Socket(frames_tx);
        let (process, transport) = PluginProcess::new(input, stop_tx, reader);
        Ok(Connection { process, transport, inbound })
    }

    fn verify_listener(&self, stream: &UnixStream) -> Result<(), AttachError> {
        let socket = || self.socket.clone();
        let credentials = stream.peer_cred().ok();
        let is_own = credentials.is_some_and(|peer| peer.uid() == geteuid().as_raw());
        let listener = credentials.and_then(|peer| ProcessId::of(peer.pid()?));
        let Some(listener) = listener.filter(|_| is_own) else {
            return Err(AttachError::OtherUser { socket: socket() });
        };
        let mut known = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_or_insert_with(|| listener.clone()) == &listener {
            true => Ok(()),
            false => Err(AttachError::OtherProcess { socket: socket() }),
        }
    }
}

/// Writes frames until there are no more, and ends the stream then.
async fn write_frames(mut writing: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        // That it is gone is noticed by what reads.
        if writing.write_all(&frame).await.is_err() {
            return;
        }
    }
    drop(writing.shutdown().await);
}

/// Reads frames until the plugin closes the connection, or the session is given up.
async fn read_frames(
    mut reading: OwnedReadHalf,
    mut stop_rx: watch::Receiver<Option<Stop>>,
    inbound_tx: mpsc::Sender<Inbound>,
) -> Exit {
    let mut inbound_tx = Some(inbound_tx);
    let mut frames = FrameSplitter::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = tokio::select! {
            biased;
            _ = next_stop(&mut stop_rx) => return disconnected(true),
            read = reading.read(&mut chunk) => read,
        };
        let mut messages = Vec::new();
        let bytes = read.ok().and_then(|count| chunk.get(..count)).filter(|read| !read.is_empty());
        let is_end = bytes.is_none();
        match bytes {
            Some(bytes) => frames.push(bytes, &mut messages),
            None => {
                frames.finish(&mut messages);
                messages.push(Inbound::Ended("it closed the connection".to_owned()));
            }
        }
        if forward(messages, &mut inbound_tx, &mut stop_rx).await.is_some() {
            return disconnected(true);
        }
        if is_end {
            return disconnected(false);
        }
    }
}

/// Returns the exit of a process that is not ours: it may live on.
fn disconnected(stopped: bool) -> Exit {
    Exit {
        ending: Ending::Lost,
        left_behind: Vec::new(),
        survived: Vec::new(),
        leaked: false,
        stopped,
        killed: false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt as _, BufReader};
    use tokio::net::UnixListener;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::plugin::Plugin;
    use crate::session::HELLO_TIMEOUT;

    const HELLO: &str = "{\"frame\":\"hello\",\"protocol\":1,\"name\":\"mine\",\"provides\":[]}\n";

    fn socket() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.sock");
        (folder, path)
    }

    /// Answers `hello` of one connection, after so long.
    async fn answer(listener: &UnixListener, delay: Duration) {
        let (stream, _) = listener.accept().await.unwrap();
        let (reading, mut writing) = stream.into_split();
        let mut lines = BufReader::new(reading).lines();
        assert!(lines.next_line().await.unwrap().unwrap().contains("\"hello\""));
        sleep(delay).await;
        writing.write_all(HELLO.as_bytes()).await.unwrap();
        while lines.next_line().await.unwrap().is_some() {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_is_stopped_in_a_debugger_is_waited_for() {
        let (_folder, path) = socket();
        let listener = UnixListener::bind(&path).unwrap();
        let plugin = Plugin::attached("mine", &path, BTreeMap::new());
        let supervisor = ralph_orchestrator_supervisor::Supervisor::this_binary();
        let (hello, ()) =
            tokio::join!(plugin.probe(&supervisor), answer(&listener, 100 * HELLO_TIMEOUT));
        assert_eq!(hello.unwrap().name, "mine");
    }

    #[tokio::test]
    async fn another_process_that_listens_there_later_is_not_spoken_to() {
        let (_folder, path) = socket();
        let plugin = AttachedPlugin::new(&path);
        let error = plugin.connect().await.err().unwrap();
        assert!(matches!(error, AttachError::Connect { .. }), "{error}");
        let _listener = UnixListener::bind(&path).unwrap();
        plugin.connect().await.unwrap();
        plugin.connect().await.unwrap();
        let other = ProcessId { pid: 1, started: 0 };
        *plugin.listener.lock().unwrap() = Some(other);
        let error = timeout(HELLO_TIMEOUT, plugin.connect()).await.unwrap().err().unwrap();
        assert!(matches!(error, AttachError::OtherProcess { .. }), "{error}");
    }
}
