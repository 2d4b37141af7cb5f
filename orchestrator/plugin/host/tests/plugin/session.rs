//! Sessions with real plugins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ralph_orchestrator_contract::{Budget, BuildContext, Event, Report, ValidationPreview};
use ralph_orchestrator_plugin_host::{
    CallEvent, CallHandle, CallOutcome, OpenError, PrivateCopy, Session,
};
use ralph_orchestrator_plugin_protocol::{Answer, ItemKind, LogLine, Method, Provided, Task};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::HostProcess;

/// Far longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Starts a session with a library in its host process.
pub(crate) async fn start(copy: &PrivateCopy) -> Session {
    let (transport, inbound) = HostProcess::start(copy);
    timeout(LONG, Session::start(Arc::new(transport), inbound)).await.unwrap().unwrap()
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

/// All events of a call.
#[derive(Debug, Default)]
pub(crate) struct All {
    pub(crate) texts: Vec<String>,
    pub(crate) logs: Vec<LogLine>,
    pub(crate) outcome: Option<CallOutcome>,
}

impl All {
    pub(crate) fn report(&self) -> &Report {
        match &self.outcome {
            Some(CallOutcome::Done(Answer::Report(report))) => report,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn said(&self) -> &str {
        self.report().final_text.as_deref().unwrap()
    }

    /// Returns why it failed.
    pub(crate) fn failure(&self) -> String {
        match &self.outcome {
            Some(CallOutcome::Failed(error)) => format!("{}: {error}", error.class.word()),
            Some(CallOutcome::Panicked { message } | CallOutcome::SessionClosed(message)) => {
                message.clone()
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Receives all events, and answers preview requests.
pub(crate) async fn listen(mut running: CallHandle) -> All {
    let mut all = All::default();
    loop {
        match timeout(LONG, running.next_event()).await.expect("in time") {
            CallEvent::Agent(Event::Text { text }) => all.texts.push(text),
            CallEvent::Agent(other) => panic!("{other:?}"),
            CallEvent::Log(line) => all.logs.push(line),
            CallEvent::Stderr(_) => {}
            CallEvent::PreviewRequested { request, final_text } => {
                let reasons = vec![format!("no, {final_text:?}")];
                running.send_preview(request, ValidationPreview::Rejected { reasons });
            }
            CallEvent::WriteCheckRequested { request, .. } => {
                running.send_write_check(request, false);
            }
            CallEvent::GuidanceRequested { request } => running.send_guidance(request, Vec::new()),
            CallEvent::Ended(outcome) => {
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

/// Starts a run and waits for its text `armed`.
pub(crate) async fn armed(session: &Session, instance: u64, prompt: &str) -> CallHandle {
    let mut running = session.call(instance, task(prompt)).await.unwrap();
    loop {
        match timeout(LONG, running.next_event()).await.expect("in time") {
            CallEvent::Agent(Event::Text { text }) if text == "armed" => return running,
            CallEvent::Ended(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    }
}
