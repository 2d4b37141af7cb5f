//! Forwards the plugin's `tracing` events to the host.
//!
//! Every library has its own copy of `tracing` with an empty dispatcher, so its events would be lost.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Once, PoisonError, RwLock};

use ralph_orchestrator_plugin_protocol::{LogLevel, LogLine, Span};
use serde_json::{Map, Value};
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, Level, LevelFilter, Metadata, Subscriber, dispatcher};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry, SpanRef};

use crate::outbox::Outbox;

/// The least severe level that is sent, numbered by [`number`]; 0 is none.
static LEVEL: AtomicU8 = AtomicU8::new(0);
/// The log target of threads that belong to no session: that of the newest session.
static DEFAULT_TARGET: RwLock<Option<LogTarget>> = RwLock::new(None);

thread_local! {
    /// The log target of this thread's session.
    static THREAD_TARGET: RefCell<Option<LogTarget>> = const { RefCell::new(None) };
}

/// The destination of a session's log: none before its `hello` and after its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogTarget(Arc<RwLock<Option<Outbox>>>);

impl LogTarget {
    /// Binds this thread to the session.
    pub(crate) fn bind_thread(&self) {
        THREAD_TARGET.set(Some(self.clone()));
    }

    /// Starts forwarding, with the host's minimum level.
    pub(crate) fn open(&self, outbox: Outbox, least: LogLevel) {
        self.set(Some(outbox));
        *DEFAULT_TARGET.write().unwrap_or_else(PoisonError::into_inner) = Some(self.clone());
        LEVEL.store(number(least), Ordering::Relaxed);
        tracing_core::callsite::rebuild_interest_cache();
    }

    /// Stops forwarding.
    pub(crate) fn close(&self) {
        self.set(None);
    }

    fn set(&self, outbox: Option<Outbox>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = outbox;
    }

    fn outbox(&self) -> Option<Outbox> {
        self.0.try_read().ok()?.clone()
    }
}

/// Installs the subscriber once for all sessions, unless the author has installed one.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        drop(dispatcher::set_global_default(Dispatch::new(Registry::default().with(ForwardLayer))));
    });
}

/// Sends a message, if its level is wanted. Never waits.
pub(crate) fn send(line: LogLine) {
    if number(line.level) > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    // A thread that is about to end has no thread-local data any more.
    let target = THREAD_TARGET.try_with(|target| target.try_borrow().ok()?.clone()).ok().flatten();
    let target = target.or_else(|| DEFAULT_TARGET.try_read().ok()?.clone());
    if let Some(outbox) = target.and_then(|target| target.outbox()) {
        outbox.log(line);
    }
}

const fn number(level: LogLevel) -> u8 {
    match level {
        LogLevel::Error => 1,
        LogLevel::Warn => 2,
        LogLevel::Info => 3,
        LogLevel::Debug => 4,
        LogLevel::Trace => 5,
    }
}

fn level_of(metadata: &Metadata<'_>) -> LogLevel {
    match *metadata.level() {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}

struct ForwardLayer;

/// The recorded fields of a span.
struct SpanFields(Map<String, Value>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ForwardLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        number(level_of(metadata)) <= LEVEL.load(Ordering::Relaxed)
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if number(level_of(metadata)) <= LEVEL.load(Ordering::Relaxed) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match LEVEL.load(Ordering::Relaxed) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(SpanFields(fields.0));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = context.span(id)
            && let Some(before) = span.extensions_mut().get_mut::<SpanFields>()
        {
            before.0.extend(fields.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = match fields.0.remove("message") {
            Some(Value::String(message)) => message,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let spans = context
            .event_scope(event)
            .map(|scope| scope.from_root().map(|span| span_of(&span)).collect())
            .unwrap_or_default();
        send(LogLine {
            level: level_of(event.metadata()),
            target: event.metadata().target().to_owned(),
            message,
            fields: fields.0,
            spans,
        });
    }
}

fn span_of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Span {
    let fields = span.extensions().get::<SpanFields>().map(|fields| fields.0.clone());
    Span { name: span.name().to_owned(), fields: fields.unwrap_or_default() }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.insert(field, value.to_string());
    }
}
