//! Sessions with real plugins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plugin_host::{LibraryCarrier, OpenError, Outcome, PrivateCopy, Running, Session, Told, load};
use plugin_protocol::{Answer, ItemKind, LogLine, Method, Provided, Task};
use ralph_orchestrator_contract::{Budget, BuildContext, Event, Judgement, Report};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Far longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A session with a library in this process.
pub(crate) async fn inside(copy: &PrivateCopy) -> Session {
    let (carrier, inbound) = LibraryCarrier::start(load(copy).unwrap()).unwrap();
    timeout(LONG, Session::begin(Arc::new(carrier), inbound)).await.unwrap().unwrap()
}

pub(crate) fn context() -> BuildContext {
    BuildContext {
        config_dir: "/where/ralph.toml/is".into(),
        workspace: "/w".into(),
        prompt_dir: "/w".into(),
        path: "/bin".into(),
    }
}

pub(crate) async fn open(
    session: &Session,
    kind: ItemKind,
    config: Value,
) -> Result<(u64, Provided), OpenError> {
    timeout(LONG, session.open(kind, None, config, &context())).await.unwrap()
}

/// An agent whose table is empty.
pub(crate) async fn agent(session: &Session) -> u64 {
    open(session, ItemKind::Agent, json!({})).await.unwrap().0
}

pub(crate) fn task(prompt: &str) -> Method {
    Method::Run {
        task: Task {
            run: "r-1".into(),
            number: 7,
            prompt: Some(prompt.into()),
            prompt_base64: None,
            workspace: "/w".into(),
            env: BTreeMap::new(),
            budget: Budget::default(),
            scratch: "/s".into(),
        },
    }
}

/// Everything that was told of a call.
#[derive(Debug, Default)]
pub(crate) struct All {
    pub(crate) texts: Vec<String>,
    pub(crate) logs: Vec<LogLine>,
    pub(crate) outcome: Option<Outcome>,
}

impl All {
    pub(crate) fn report(&self) -> &Report {
        match &self.outcome {
            Some(Outcome::Done(Answer::Report(report))) => report,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn said(&self) -> &str {
        self.report().final_text.as_deref().unwrap()
    }

    /// How it failed, in words.
    pub(crate) fn failure(&self) -> String {
        match &self.outcome {
            Some(Outcome::Failed(error)) => format!("{}: {error}", error.class.word()),
            Some(Outcome::Panicked { message } | Outcome::Broken(message)) => message.clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// Listens until the end, and answers questions.
pub(crate) async fn listen(mut running: Running) -> All {
    let mut all = All::default();
    loop {
        match timeout(LONG, running.next()).await.expect("in time") {
            Told::Event(Event::Text { text }) => all.texts.push(text),
            Told::Event(other) => panic!("{other:?}"),
            Told::Log(line) => all.logs.push(line),
            Told::Stderr(_) => {}
            Told::Judge { ask, final_text } => {
                let reasons = vec![format!("no, {final_text:?}")];
                running.answer(ask, Judgement::Rejected { reasons });
            }
            Told::Ended(outcome) => {
                all.outcome = Some(outcome);
                return all;
            }
        }
    }
}

/// Runs a prompt to its end.
pub(crate) async fn run(session: &Session, instance: u64, prompt: &str) -> All {
    listen(session.call(instance, task(prompt)).await.unwrap()).await
}

/// Begins a run and waits until it says that it is where it wants to be.
pub(crate) async fn armed(session: &Session, instance: u64, prompt: &str) -> Running {
    let mut running = session.call(instance, task(prompt)).await.unwrap();
    loop {
        match timeout(LONG, running.next()).await.expect("in time") {
            Told::Event(Event::Text { text }) if text == "armed" => return running,
            Told::Ended(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    }
}
