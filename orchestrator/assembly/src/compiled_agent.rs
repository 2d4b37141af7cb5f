//! An agent that is compiled in, held to what a plugin's process is held to.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    Agent, AgentError, BuildError, Description, ErrorClass, Event, EventSink, Iteration, Launch,
    Report,
};

use crate::panics::{CatchPanic, build_guarded, catch_panic};

/// The time that it has to return after it was cancelled: that of an agent in a plugin.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Ends what does not end by itself, and reports a panic as the failure of an iteration. Code that blocks its thread cannot be
/// ended: that takes a process of its own.
pub(crate) struct CompiledAgent {
    name: String,
    agent: Box<dyn Agent>,
    description: Description,
    /// The panic of a method that cannot fail: the next session does.
    panicked: Mutex<Option<String>>,
}

impl CompiledAgent {
    /// Builds the agent of this name.
    ///
    /// # Errors
    /// It cannot be built, or panics.
    pub(crate) fn build(
        name: &str,
        build: impl FnOnce() -> Result<Box<dyn Agent>, BuildError>,
    ) -> Result<Self, BuildError> {
        let build = || {
            let agent = build()?;
            let description = agent.describe();
            Ok((agent, description))
        };
        let (agent, description) = build_guarded(build, |panic| panicked(name, panic))?;
        Ok(Self { name: name.to_owned(), agent, description, panicked: Mutex::default() })
    }

    fn failed(&self, panic: &str) -> AgentError {
        AgentError::new(ErrorClass::Crashed, panicked(&self.name, panic))
    }
}

impl CompiledAgent {
    /// Drops a session that was cancelled in vain. Returns what is reported of it.
    fn give_up(&self, mut session: CatchPanic<'_, Result<Report, AgentError>>) -> String {
        let (name, seconds) = (&self.name, CANCEL_GRACE.as_secs());
        let why =
            format!("the agent `{name}` did not return within {seconds} s of being cancelled");
        match session.end() {
            Ok(()) => why,
            Err(panic) => format!("{why}; when it was dropped, {}", panicked(name, &panic)),
        }
    }
}

#[async_trait]
impl Agent for CompiledAgent {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        let checked = CatchPanic::new(self.agent.check(env)).await;
        checked.unwrap_or_else(|panic| Err(self.failed(&panic)))
    }

    fn launch(&self, task: &Iteration) -> Option<Launch> {
        catch_panic(|| self.agent.launch(task)).unwrap_or_else(|panic| {
            *self.panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            None
        })
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let earlier = self.panicked.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = earlier {
            return Err(self.failed(&panic));
        }
        let mut session = CatchPanic::new(self.agent.run(task, events));
        let cancelled = async {
            let reason = events.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
            reason
        };
        tokio::select! {
            biased;
            ended = &mut session => {
                ended.unwrap_or_else(|panic| Err(self.failed(&panic)))
            }
            reason = cancelled => {
                let why = self.give_up(session);
                events.emit(Event::Warning { message: why.clone() }).await;
                let because = reason.because();
                let message = format!("the agent was cancelled: {because}; {why}");
                Err(AgentError::new(ErrorClass::Cancelled, message))
            }
        }
    }
}

fn panicked(agent: &str, panic: &str) -> String {
    format!("the agent `{agent}` panicked: {panic}")
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;

    use async_trait::async_trait;
    use ralph_orchestrator_contract::{Budget, CancelReason, CancelSignal};

    use super::*;

    /// Panics in the method of this name.
    struct Panics(&'static str);

    /// A sink that wants the agent to end.
    struct Cancelled;

    #[async_trait]
    impl CancelSignal for Cancelled {
        async fn cancelled(&self) -> CancelReason {
            CancelReason::Signal
        }
    }

    #[async_trait]
    impl EventSink for Cancelled {
        async fn emit(&self, _: Event) {}
    }

    struct PanicInDrop;

    impl Drop for PanicInDrop {
        fn drop(&mut self) {
            panic!("cause in drop");
        }
    }

    #[async_trait]
    impl Agent for Panics {
        fn describe(&self) -> Description {
            assert_ne!(self.0, "describe", "cause");
            Description::default()
        }

        async fn check(&self, _: &BTreeMap<String, String>) -> Result<String, AgentError> {
            assert_ne!(self.0, "check", "cause");
            Ok(String::new())
        }

        fn launch(&self, _: &Iteration) -> Option<Launch> {
            assert_ne!(self.0, "launch", "cause");
            None
        }

        async fn run(&self, _: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
            assert_ne!(self.0, "run", "cause");
            let _held = (self.0 == "drop").then_some(PanicInDrop);
            events.cancelled().await;
            std::future::pending().await
        }
    }

    fn iteration() -> Iteration {
        Iteration {
            run: String::new(),
            number: 1,
            prompt: Vec::new(),
            workspace: "/".into(),
            env: BTreeMap::new(),
            budget: Budget::default(),
            scratch: "/".into(),
        }
    }

    #[track_caller]
    fn names_all(message: &str) {
        let parts = ["the agent `toy` panicked", "cause", "compiled_agent.rs:"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }

    #[tokio::test]
    async fn a_panic_anywhere_is_reported_with_text_place_and_agent() {
        let build = |how| CompiledAgent::build("toy", || Ok(Box::new(Panics(how))));
        names_all(&build("describe").err().unwrap().message);
        let none: Result<_, _> = CompiledAgent::build("toy", || panic!("cause"));
        names_all(&none.err().unwrap().message);
        names_all(&build("check").unwrap().check(&BTreeMap::new()).await.unwrap_err().message);
        for how in ["launch", "run"] {
            let agent = build(how).unwrap();
            assert!(agent.launch(&iteration()).is_none());
            names_all(&agent.run(iteration(), &Cancelled).await.unwrap_err().message);
        }
        let agent = build("drop").unwrap();
        let mut session = CatchPanic::new(agent.agent.run(iteration(), &Cancelled));
        std::future::poll_fn(|context| {
            assert!(Pin::new(&mut session).poll(context).is_pending(), "it never ends");
            Poll::Ready(())
        })
        .await;
        let why = agent.give_up(session);
        assert!(why.contains("did not return within 5 s"), "{why}");
        names_all(&why);
    }
}
