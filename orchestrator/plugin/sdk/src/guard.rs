//! Catches the plugin's panics, with message and location.
//!
//! Every library has its own copy of the standard library, so the hook sees the plugin's panics only,
//! and `catch_unwind` here is the only one that can catch them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use ralph_orchestrator_plugin_protocol::{LogLevel, LogLine};
use serde_json::Map;

use crate::log;

/// A caught panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panic {
    pub(crate) message: String,
    /// As `file:line:column`.
    pub(crate) location: Option<String>,
}

impl std::fmt::Display for Panic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.location {
            Some(location) => write!(f, "{} (at {location})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

thread_local! {
    /// Whether code on this thread catches panics.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// The last panic on this thread since it was last guarded.
    static LAST: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

/// Installs the panic hook, once for all sessions.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_hook(Box::new(hook)));
}

fn hook(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("a panic without a message").to_owned();
    let panic = Panic { message, location: info.location().map(ToString::to_string) };
    // A thread that is about to end has no such data any more.
    let guarded = GUARDED.try_with(Cell::get).unwrap_or(false);
    let before = LAST
        .try_with(|last| {
            last.try_borrow_mut().ok().and_then(|mut last| last.replace(panic.clone()))
        })
        .ok()
        .flatten();
    if let (true, Some(before)) = (guarded, before) {
        // One during another ends the process, and these may be its last words.
        drop(writeln!(std::io::stderr(), "panicked: {before}\nand then panicked: {panic}"));
    }
    if !guarded {
        log_it(&panic);
    }
}

/// Nobody reports a panic on a thread of the plugin's own, or in a task that it spawned.
fn log_it(panic: &Panic) {
    let mut fields = Map::new();
    if let Some(location) = &panic.location {
        fields.insert("location".to_owned(), location.as_str().into());
    }
    if let Some(thread) = std::thread::current().name() {
        fields.insert("thread".to_owned(), thread.into());
    }
    log::send(LogLine {
        level: LogLevel::Error,
        target: "panic".to_owned(),
        message: format!("panicked: {}", panic.message),
        fields,
        spans: Vec::new(),
    });
}

/// Calls a function and catches its panic.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    let before = GUARDED.replace(true);
    LAST.take();
    let result = catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(before);
    let last = LAST.take();
    result.map_err(|payload| last.unwrap_or_else(|| from_payload(payload)))
}

/// Returns the panic that a payload describes, without location.
pub(crate) fn from_payload(payload: Box<dyn Any + Send>) -> Panic {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    // Dropping the payload may panic, too.
    drop(catch_unwind(AssertUnwindSafe(|| drop(payload))));
    Panic {
        message: text.unwrap_or_else(|| "a panic without a message".to_owned()),
        location: None,
    }
}

/// A future that catches its panics.
pub(crate) struct CatchPanic<F>(Pin<Box<F>>);

impl<F> CatchPanic<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for CatchPanic<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch(|| self.0.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
