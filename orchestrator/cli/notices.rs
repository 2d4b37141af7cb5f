//! The receivers of `[[notify]]`, from the side of a command.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_core::engine::{RunEvent, RunObserver};
use ralph_orchestrator_core::machine::{Record, StopReason};
use ralph_orchestrator_core::store::Layout;
use ralph_orchestrator_driver::{BacklogEvent, BacklogObserver};
use ralph_orchestrator_notices::{Notifier, NotifierSetup, Receiver, SupervisedTransport};
use ralph_orchestrator_supervisor::KillSwitch;

use crate::context::{Context, shell_word};
use crate::output;
use crate::registry;
use crate::render::text::count;

/// The longest that the end of a run is held up by receivers that do not answer.
const GRACE: Duration = Duration::from_secs(5);

/// Tells the receivers of a configuration what happens. Without any it does nothing.
pub(crate) struct Notices {
    notifier: Option<Arc<Notifier>>,
}

impl Notices {
    /// Begins to serve the receivers, within a runtime, with what an earlier start has left.
    pub(crate) fn start(context: &Context, layout: &Layout, switch: &KillSwitch) -> Self {
        let mut receivers = Vec::new();
        for (name, resolved) in resolve(context) {
            match resolved {
                Ok(receiver) => receivers.push(receiver),
                Err(problem) => {
                    output::info(&format!("warning: notify {name}: {problem}; it is sent nothing"));
                }
            }
        }
        if receivers.is_empty() {
            return Self { notifier: None };
        }
        let config = &context.loaded.config;
        let notifier = Notifier::start(NotifierSetup {
            layout: layout.clone(),
            workspace: config.run.workspace.display().to_string(),
            program: format!("ralph-orchestrator -w {}", shell_word(&config.run.workspace)),
            has_backlog: config.backlog.is_some(),
            receivers,
            transport: Arc::new(transport(context, switch)),
            say: Arc::new(output::info),
        });
        notifier.send_left();
        Self { notifier: Some(Arc::new(notifier)) }
    }

    /// Returns an observer of runs that passes everything on.
    pub(crate) fn observe(&self, inner: Arc<dyn RunObserver>) -> Arc<dyn RunObserver> {
        match &self.notifier {
            Some(notifier) => Arc::new(NoticeObserver { notifier: Arc::clone(notifier), inner }),
            None => inner,
        }
    }

    /// Returns an observer of a backlog that passes everything on.
    pub(crate) fn observe_backlog(
        &self,
        inner: Arc<dyn BacklogObserver>,
    ) -> Arc<dyn BacklogObserver> {
        match &self.notifier {
            Some(notifier) => Arc::new(BacklogNotices { notifier: Arc::clone(notifier), inner }),
            None => inner,
        }
    }

    /// Waits for a run, and then a little for the last notices.
    pub(crate) async fn serve<T>(self, run: impl Future<Output = T>) -> T {
        let ended = run.await;
        self.finish().await;
        ended
    }

    /// Waits a little until the last notices are answered.
    pub(crate) async fn finish(self) {
        let Some(notifier) = self.notifier else { return };
        for left in notifier.finish(GRACE).await {
            output::info(&format!(
                "notify {}: {} not delivered yet; the next `run` sends them again",
                left.receiver,
                count(u64::try_from(left.notices).unwrap_or(u64::MAX), "notice")
            ));
        }
    }
}

/// Returns each receiver of the configuration, by its name, or why it cannot be reached.
pub(crate) fn resolve(context: &Context) -> Vec<(String, Result<Receiver, String>)> {
    let receivers = context.loaded.config.notify.iter();
    receivers
        .map(|notify| {
            let name = notify.name.clone().unwrap_or_default();
            (name, Receiver::resolve(notify, &context.vars))
        })
        .collect()
}

/// Returns what hands notices over.
pub(crate) fn transport(context: &Context, switch: &KillSwitch) -> SupervisedTransport {
    SupervisedTransport {
        supervisor: registry::supervisor_of_one(switch.clone()),
        vars: context.vars.clone(),
        folder: context.loaded.dir().to_owned(),
    }
}

struct NoticeObserver {
    notifier: Arc<Notifier>,
    inner: Arc<dyn RunObserver>,
}

impl RunObserver for NoticeObserver {
    fn on_event(&self, run: &str, event: &RunEvent) {
        self.inner.on_event(run, event);
    }

    fn on_record(&self, run: &str, seq: u64, time: Timestamp, record: &Record) {
        self.inner.on_record(run, seq, time, record);
        self.notifier.take(run, seq, time, record);
    }
}

struct BacklogNotices {
    notifier: Arc<Notifier>,
    inner: Arc<dyn BacklogObserver>,
}

impl BacklogObserver for BacklogNotices {
    fn on_backlog_event(&self, event: &BacklogEvent) {
        self.inner.on_backlog_event(event);
        if let BacklogEvent::BacklogFinished {
            stop_reason: StopReason::Completed, message, ..
        } = event
        {
            self.notifier.take_backlog_completion(message);
        }
    }
}
