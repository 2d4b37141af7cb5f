//! An agent that is compiled in, held to what a plugin's process is held to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    Agent, AgentError, Description, ErrorClass, Event, EventSink, Iteration, Launch, Report,
};

/// The time that it has to return after it was cancelled: that of an agent in a plugin.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Ends what does not end by itself, and reports a panic as the failure of an iteration. Code that blocks its thread cannot be
/// ended: that takes a process of its own.
pub(crate) struct CompiledAgent {
    name: String,
    agent: Box<dyn Agent>,
}

impl CompiledAgent {
    /// Returns the agent of this name.
    pub(crate) fn new(name: &str, agent: Box<dyn Agent>) -> Self {
        install_hook();
        Self { name: name.to_owned(), agent }
    }

    fn failed(&self, panic: &str) -> AgentError {
        AgentError::new(ErrorClass::Crashed, format!("the agent `{}` panicked: {panic}", self.name))
    }
}

#[async_trait]
impl Agent for CompiledAgent {
    fn describe(&self) -> Description {
        self.agent.describe()
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let checked = CatchPanic(self.agent.check(env)).await;
        checked.unwrap_or_else(|panic| Err(self.failed(&panic)))
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        self.agent.launch(task)
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let cancelled = async {
            let reason = events.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
            reason
        };
        tokio::select! {
            biased;
            ended = CatchPanic(self.agent.run(task, events)) => {
                ended.unwrap_or_else(|panic| Err(self.failed(&panic)))
            }
            reason = cancelled => {
                let seconds = CANCEL_GRACE.as_secs();
                let why = format!("the agent `{}` did not return within {seconds} s of being cancelled", self.name);
                events.emit(Event::Warning { message: why.clone() }).await;
                let because = reason.because();
                let message = format!("the agent was cancelled: {because}; {why}");
                Err(AgentError::new(ErrorClass::Cancelled, message))
            }
        }
    }
}

thread_local! {
    /// Whether code on this thread is polled that is not ours.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic of such code was.
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has the places of panics kept, once for all agents. What the program itself does with panics, it still does.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if IS_GUARDED.try_with(Cell::get).unwrap_or(false) {
                let location = info.location().map(ToString::to_string);
                // A thread that is about to end has no such data any more.
                drop(LOCATION.try_with(|last| last.replace(location)));
            }
            before(info);
        }));
    });
}

/// A future that ends with the text and the place of its panic.
struct CatchPanic<'a, T>(Pin<Box<dyn Future<Output = T> + Send + 'a>>);

impl<T> Future for CatchPanic<'_, T> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let was_guarded = IS_GUARDED.replace(true);
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        IS_GUARDED.set(was_guarded);
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(payload) => {
                let text = payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| payload.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "a panic without a message".to_owned());
                Poll::Ready(Err(match LOCATION.take() {
                    Some(location) => format!("{text} (at {location})"),
                    None => text,
                }))
            }
        }
    }
}
