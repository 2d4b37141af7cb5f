//! The server of one iteration: it listens in the iteration's private folder, and serves whoever knows its token.

use std::convert::Infallible;
use std::fs::OpenOptions;
use std::future::Future;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use ralph_orchestrator_contract::agent_tools::AgentTools;
use ralph_orchestrator_contract::{Event, EventSink, Iteration, Launch};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::message::{ServerRequest, read, tool_result};
use super::relay::{Address, relay_command};

/// The name of the file that the relay is given, in the iteration's private folder.
pub const TOOLS_FILE: &str = "tools.json";
const SOCKET: &str = "tools.sock";
/// The longest message, in bytes.
const LONGEST_MESSAGE: u64 = 1024 * 1024;
/// Connections at once: an agent starts a relay for each of its own agents.
const MOST_CONNECTIONS: usize = 32;

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
    tools: AgentTools,
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
        let (program, arguments) = relay_command(&tools_file(task));
        let command = std::iter::once(program.display().to_string()).chain(arguments).collect();
        let address = Address { socket, token: token.clone(), command };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(tools_file(task))?.write_all(&serde_json::to_vec(&address)?)?;
        Ok(Self { listener, token, folder: task.scratch.clone(), tools: AgentTools::new(task) })
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
                    let answer = self.tools.call(call, events).await;
                    tool_result(&id, &answer.text, answer.is_error)
                }
            };
            if output.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return;
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
