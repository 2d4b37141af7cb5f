//! The server of one iteration: it listens in the iteration's private folder, and serves whoever knows its token.

use std::convert::Infallible;
use std::fs::OpenOptions;
use std::future::Future;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use data_encoding::HEXLOWER;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use ralph_orchestrator_contract::{
    ClaimKind, Event, EventSink, Iteration, Launch, ValidationPreview,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::message::{
    ACCEPTED, ASKED, MAX_NOTE, NOTED, ServerRequest, ToolCall, VALIDATED_LATER, read, rejection,
    tool_result,
};
use super::relay::Address;
use crate::json::bounded;

/// The name of the file that the relay is given, in the iteration's private folder.
pub const TOOLS_FILE: &str = "tools.json";
const SOCKET: &str = "tools.sock";
/// The longest message, in bytes.
const LONGEST_MESSAGE: u64 = 1024 * 1024;
/// Connections at once: an agent starts a relay for each of its own agents.
const MOST_CONNECTIONS: usize = 32;
/// Claims that are validated while the session goes on. Later ones are validated at its end.
const MOST_PREVIEWS: u32 = 20;

/// Returns the file that the relay of an iteration is given.
#[must_use]
pub fn tools_file(task: &Iteration) -> PathBuf {
    task.scratch.join(TOOLS_FILE)
}

/// Returns the same where it is not known yet which iteration it will be.
#[must_use]
pub fn launched_tools_file() -> PathBuf {
    PathBuf::from(Launch::SCRATCH).join(TOOLS_FILE)
}

/// Serves the tools of one iteration.
#[derive(Debug)]
pub struct ToolServer {
    listener: UnixListener,
    token: String,
    folder: PathBuf,
    status: Value,
    prompt: String,
    previews: AtomicU32,
}

impl ToolServer {
    /// Listens in the private folder of an iteration, and writes there what the relay needs.
    ///
    /// # Errors
    /// The folder cannot be written, or its path is too long for a socket.
    pub fn open(task: &Iteration) -> io::Result<Self> {
        let mut token = [0; 32];
        getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
        let token = HEXLOWER.encode(&token);
        let socket = task.scratch.join(SOCKET);
        let listener = UnixListener::bind(&socket)?;
        let address = Address { socket, token: token.clone() };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(tools_file(task))?.write_all(&serde_json::to_vec(&address)?)?;
        let budget = &task.budget;
        let status = json!({
            "iteration": task.number,
            "cost_left_usd": budget.cost,
            "tokens_left": budget.tokens,
            "seconds_in_all": budget.time.map(|time| time.as_secs()),
        });
        Ok(Self {
            listener,
            token,
            folder: task.scratch.clone(),
            status,
            prompt: String::from_utf8_lossy(&task.prompt).into_owned(),
            previews: AtomicU32::new(0),
        })
    }

    /// Runs an agent to its end with the tools of its iteration. Where they cannot be opened it works without them,
    /// which is a warning.
    pub async fn beside<T>(
        task: &Iteration,
        events: &dyn EventSink,
        run: impl Future<Output = T>,
    ) -> T {
        let server = match Self::open(task) {
            Ok(server) => server,
            Err(error) => {
                let message = format!("the agent has no tools of the orchestrator: {error}");
                events.emit(Event::Warning { message }).await;
                return run.await;
            }
        };
        tokio::select! {
            biased;
            ended = run => ended,
            never = server.serve(events) => match never {},
        }
    }

    /// Serves connections for ever.
    async fn serve(&self, events: &dyn EventSink) -> Infallible {
        let mut connections = FuturesUnordered::new();
        loop {
            let has_room = connections.len() < MOST_CONNECTIONS;
            tokio::select! {
                accepted = self.listener.accept(), if has_room => match accepted {
                    Ok((stream, _)) => connections.push(self.connection(stream, events)),
                    // Too many files are open: it may get better when a connection ends.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
                },
                Some(()) = connections.next(), if !connections.is_empty() => {}
            }
        }
    }

    /// Serves one connection to its end. What is no message of somebody who knows the token ends it.
    async fn connection(&self, stream: UnixStream, events: &dyn EventSink) {
        let (input, mut output) = stream.into_split();
        let mut input = BufReader::new(input);
        if next_line(&mut input).await.as_deref() != Some(self.token.as_bytes()) {
            return;
        }
        while let Some(line) = next_line(&mut input).await {
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { return };
            // A notification has no answer.
            if message.get("id").is_none_or(Value::is_null) {
                continue;
            }
            let answer = match read(&message) {
                ServerRequest::Answered(answer) => answer,
                ServerRequest::ToolCall { id, call } => {
                    let (text, is_error) = self.call(call, events).await;
                    tool_result(&id, &text, is_error)
                }
            };
            if output.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// Performs a call. Returns its result, and whether it is an error.
    async fn call(&self, call: ToolCall, events: &dyn EventSink) -> (String, bool) {
        let text = match call {
            ToolCall::ClaimComplete(text) => {
                events.emit(Event::Claim { kind: ClaimKind::Complete, text }).await;
                return self.preview(events).await;
            }
            ToolCall::NeedHuman(text) => {
                events.emit(Event::Claim { kind: ClaimKind::NeedsHuman, text }).await;
                ASKED.to_owned()
            }
            ToolCall::Note(text) => {
                let text = text.get(..text.floor_char_boundary(MAX_NOTE)).unwrap_or_default();
                events.emit(Event::Note { text: text.to_owned() }).await;
                NOTED.to_owned()
            }
            ToolCall::Status => self.status.to_string(),
            ToolCall::NextTask => bounded(&self.prompt),
        };
        (text, false)
    }

    async fn preview(&self, events: &dyn EventSink) -> (String, bool) {
        if self.previews.fetch_add(1, Ordering::Relaxed) >= MOST_PREVIEWS {
            return (VALIDATED_LATER.to_owned(), false);
        }
        match events.preview(None).await {
            ValidationPreview::Accepted => (ACCEPTED.to_owned(), false),
            ValidationPreview::Rejected { reasons } => (rejection(&reasons), true),
            ValidationPreview::NoClaim | ValidationPreview::NotNow { .. } => {
                (VALIDATED_LATER.to_owned(), false)
            }
        }
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        // The folder is used again if nothing is left in it.
        for name in [SOCKET, TOOLS_FILE] {
            drop(std::fs::remove_file(self.folder.join(name)));
        }
    }
}

/// Returns the next line without its end; `None` at the end, or if it is longer than any message.
async fn next_line(input: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = input.take(LONGEST_MESSAGE).read_until(b'\n', &mut line).await.ok()?;
    if read == 0 || line.pop() != Some(b'\n') {
        return None;
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Some(line)
}
