//! The server.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ralph_orchestrator_contract::Tokens;
use serde_json::json;

use super::reply::Details;
use super::{Api, Fault, Reply, Request, Script, Turn, http, tools};
use crate::model_server::call::Call;

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

/// A model on a port of its own on loopback.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    handler: Box<Handler>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    served: Tokens,
    messages: u64,
    stalled: usize,
    closing: bool,
    connections: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server that answers main requests by the function.
    ///
    /// # Panics
    /// If there is no loopback.
    #[must_use]
    pub fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_on(0, handler).expect("loopback can be bound")
    }

    /// Starts a server on this port of loopback, or on any if it is 0.
    ///
    /// # Errors
    /// The port is taken.
    ///
    /// # Panics
    /// If there is no loopback.
    pub fn start_on(
        port: u16,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let listener = std::thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared, listener: Some(listener) })
    }

    /// Starts a server that answers main requests by a script.
    ///
    /// # Panics
    /// If there is no loopback.
    #[must_use]
    pub fn scripted(script: Script) -> Self {
        Self::start(script.into_handler())
    }

    /// For `ANTHROPIC_BASE_URL`. OpenAI's clients want `/v1` after it.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A base URL for one of several clients, by which its requests are told from the others'.
    #[must_use]
    pub fn base_url_for(&self, client: &str) -> String {
        format!("http://{}/{client}", self.address)
    }

    /// All requests so far, probes and side requests included.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// The main requests so far.
    #[must_use]
    pub fn main_requests(&self) -> Vec<Request> {
        self.requests().into_iter().filter(Request::is_main).collect()
    }

    /// The figures of all messages that were sent to their end.
    #[must_use]
    pub fn served(&self) -> Tokens {
        self.shared.lock().served
    }

    /// Waits until so many requests were left without an answer or in the middle of one, by
    /// [`Reply::Hang`] or [`Fault::Stall`]; false if that takes longer than `timeout`.
    #[must_use]
    pub fn wait_for_stalled(&self, count: usize, timeout: Duration) -> bool {
        let state = self.shared.lock();
        let result = self.shared.changed.wait_timeout_while(state, timeout, |s| s.stalled < count);
        !result.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        // The listener looks at the flag after each connection, so it gets one.
        drop(TcpStream::connect(self.address));
        if let Some(listener) = self.listener.take() {
            drop(listener.join());
        }
        let (connections, threads) = {
            let mut state = self.shared.lock();
            (std::mem::take(&mut state.connections), std::mem::take(&mut state.threads))
        };
        for connection in connections {
            drop(connection.shutdown(Shutdown::Both));
        }
        for thread in threads {
            drop(thread.join());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pauses, but not beyond the server's end.
    fn pause(&self, pause: Duration) {
        let state = self.lock();
        drop(self.changed.wait_timeout_while(state, pause, |state| !state.closing));
    }

    /// The number of the next message.
    fn next_message(&self) -> u64 {
        let mut state = self.lock();
        state.messages += 1;
        state.messages
    }

    fn stalled(&self) {
        self.lock().stalled += 1;
        self.changed.notify_all();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        if shared.lock().closing {
            return;
        }
        let Ok(connection) = connection else { continue };
        let Ok(copy) = connection.try_clone() else { continue };
        let serving = Arc::clone(shared);
        let thread = std::thread::spawn(move || {
            // A client that goes away in the middle is not the server's concern.
            drop(serve(&connection, &serving));
            drop(connection.shutdown(Shutdown::Both));
        });
        let mut state = shared.lock();
        state.connections.push(copy);
        state.threads.push(thread);
    }
}

fn serve(connection: &TcpStream, shared: &Shared) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    while let Some(request) = Request::read(&mut reader)? {
        shared.lock().requests.push(request.clone());
        shared.changed.notify_all();
        let keep = answer(&request, connection, shared)?;
        if !keep {
            break;
        }
    }
    Ok(())
}

/// Answers one request; false if the connection has to end then.
fn answer(request: &Request, mut connection: &TcpStream, shared: &Shared) -> io::Result<bool> {
    let Some(api) = request.api() else {
        aside(request, &mut connection)?;
        return Ok(true);
    };
    let reply = if request.is_main() {
        (shared.handler)(request)
    } else {
        Turn::text("ok").usage(Tokens::default()).into()
    };
    let reply = match reply {
        Reply::Turn(turn) => match tools::resolve(turn, request) {
            Ok(turn) => return speak(api, &turn, request, connection, shared),
            Err(message) => Reply::error(400, &message),
        },
        other => other,
    };
    match reply {
        Reply::Error { status, headers, kind, message, details } => {
            let body = api.error(&kind, &message, &details);
            http::respond(&mut connection, status, &headers, &body).map(|()| true)
        }
        Reply::Failed { kind, message } if request.wants_stream() => {
            http::begin_stream(&mut connection, &[])?;
            let call = Call { id: shared.next_message(), request };
            for event in api.failure(&kind, &message, &call) {
                http::chunk(&mut connection, &event)?;
            }
            http::chunk(&mut connection, "").map(|()| true)
        }
        Reply::Failed { kind, message } => {
            let body = api.error(&kind, &message, &Details::new());
            http::respond(&mut connection, 400, &[], &body).map(|()| true)
        }
        Reply::Hang => hang(connection, shared),
        Reply::Drop | Reply::Turn(_) => Ok(false),
    }
}

/// Answers what asks for no message.
fn aside(request: &Request, mut connection: &mut &TcpStream) -> io::Result<()> {
    match (request.method.as_str(), request.path()) {
        ("HEAD", _) => http::respond_empty(&mut connection, 200),
        ("POST", "/v1/messages/count_tokens") => {
            let body = json!({"input_tokens": request.body.to_string().len() / 4});
            http::respond(&mut connection, 200, &[], &body)
        }
        // Who asks for another protocol there is told at once that there is none.
        ("GET", "/v1/responses") => http::respond_empty(&mut connection, 426),
        _ => {
            let body = Api::Messages.error("not_found_error", "no such path", &Details::new());
            http::respond(&mut connection, 404, &[], &body)
        }
    }
}

/// Waits until the client goes away or the server ends.
fn hang(mut connection: &TcpStream, shared: &Shared) -> io::Result<bool> {
    shared.stalled();
    while connection.read(&mut [0; 1024])? > 0 {}
    Ok(false)
}

fn speak(
    api: Api,
    turn: &Turn,
    request: &Request,
    mut connection: &TcpStream,
    shared: &Shared,
) -> io::Result<bool> {
    let call = Call { id: shared.next_message(), request };
    if !request.wants_stream() {
        // A message that comes whole or not at all.
        match turn.fault {
            Some(Fault::Stall) => return hang(connection, shared),
            Some(Fault::Cut) => return Ok(false),
            Some(Fault::Error) | None => {}
        }
        shared.lock().served += turn.usage;
        let message = api.message(turn, &call);
        return http::respond(&mut connection, 200, &turn.headers, &message).map(|()| true);
    }
    http::begin_stream(&mut connection, &turn.headers)?;
    let mut events = api.events(turn, &call).into_iter().peekable();
    while let Some(event) = events.next() {
        if let Some(pace) = turn.pace {
            shared.pause(pace);
        }
        // The usage is said by now, or is with the last event: a client that goes away has to pay for it.
        if events.peek().is_none() && turn.fault.is_none() {
            shared.lock().served += turn.usage;
        }
        http::chunk(&mut connection, &event)?;
    }
    match turn.fault {
        Some(Fault::Stall) => return hang(connection, shared),
        Some(Fault::Cut) => return Ok(false),
        Some(Fault::Error) | None => {}
    }
    http::chunk(&mut connection, "")?;
    connection.flush()?;
    Ok(true)
}
