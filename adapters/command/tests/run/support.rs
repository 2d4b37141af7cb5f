//! A place to run agents in, and a sink that remembers and can ask for the end.

use std::fs;
use std::ops::Deref;
use std::sync::Mutex;

use ralph_orchestrator_contract::{
    Agent, AgentError, CancelReason, CancelSignal, Event, EventSink, Iteration, Report, async_trait,
};
use ralph_orchestrator_testkit::TestWorkspace;
use ralph_orchestrator_testkit::shim::supervisor;
use serde_json::Value;
use tokio::sync::watch;

pub(crate) struct Place(TestWorkspace);

impl Deref for Place {
    type Target = TestWorkspace;

    fn deref(&self) -> &TestWorkspace {
        &self.0
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(TestWorkspace::new("workspace"))
    }

    pub(crate) fn agent(&self, config: Value) -> Box<dyn Agent> {
        ralph_adapter_command::build(config, &self.context(), &supervisor()).unwrap()
    }

    pub(crate) fn task(&self, prompt: &[u8]) -> Iteration {
        let mut task = self.0.task(3, prompt);
        task.env.insert("WORD".into(), "a b\n".into());
        task
    }

    /// One iteration, after which none of its processes may be left.
    pub(crate) async fn run(
        &self,
        config: Value,
        prompt: &[u8],
        sink: &Sink,
    ) -> Result<Report, AgentError> {
        self.finish(self.agent(config).run(self.task(prompt), sink)).await
    }

    /// `sh -c SCRIPT` with text output.
    pub(crate) async fn shell(&self, script: &str, sink: &Sink) -> Result<Report, AgentError> {
        self.run(serde_json::json!({"program": ["sh", "-c", script]}), b"", sink).await
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.workspace.join(name)).unwrap()
    }
}

type Hook = Box<dyn Fn(&Event) -> Then + Send + Sync>;

/// What the sink does after an event.
pub(crate) enum Then {
    /// Takes the next one.
    GoOn,
    /// Asks for the end.
    Cancel,
    /// Asks for the end, and takes no more before it is asked for.
    Block,
}

/// Remembers events.
pub(crate) struct Sink {
    pub(crate) events: Mutex<Vec<Event>>,
    cancel: watch::Sender<bool>,
    hook: Hook,
    forgets: bool,
}

impl Sink {
    pub(crate) fn new() -> Self {
        Self::with(|_| Then::GoOn)
    }

    pub(crate) fn with(hook: impl Fn(&Event) -> Then + Send + Sync + 'static) -> Self {
        let cancel = watch::Sender::new(false);
        Self { events: Mutex::default(), cancel, hook: Box::new(hook), forgets: false }
    }

    /// Keeps no events.
    pub(crate) fn forgetting(self) -> Self {
        Self { forgets: true, ..self }
    }

    /// Asks for the end.
    pub(crate) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// All text events, joined.
    pub(crate) fn text(&self) -> String {
        let events = self.events.lock().unwrap();
        let texts = events.iter().filter_map(|event| match event {
            Event::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

#[async_trait]
impl CancelSignal for Sink {
    async fn cancelled(&self) -> CancelReason {
        self.cancel.subscribe().wait_for(|asked| *asked).await.unwrap();
        CancelReason::Signal
    }
}

#[async_trait]
impl EventSink for Sink {
    async fn emit(&self, event: Event) {
        let then = (self.hook)(&event);
        if !self.forgets {
            self.events.lock().unwrap().push(event);
        }
        match then {
            Then::GoOn => {}
            Then::Cancel => self.cancel(),
            Then::Block => {
                let mut asked = self.cancel.subscribe();
                // Somebody else asks while this one is full.
                let sender = self.cancel.clone();
                tokio::spawn(async move { sender.send_replace(true) });
                asked.wait_for(|asked| *asked).await.unwrap();
            }
        }
    }
}
