//! The receivers of `[[notify]]`, and the collector of `[telemetry]`, from the side of a command.

mod progress;
mod scripts;
pub(crate) mod transport;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_backlog::Backlog;
use ralph_orchestrator_config::{Notify, NotifyKind};
use ralph_orchestrator_driver::{BacklogEvent, BacklogObserver};
use ralph_orchestrator_engine::{RunEvent, RunObserver};
use ralph_orchestrator_machine::{Record, StopReason};
use ralph_orchestrator_notices::{Notifier, NotifierSetup, Receiver};
use ralph_orchestrator_shell_text::quote_word;
use ralph_orchestrator_store::Layout;
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::count;

use crate::telemetry::Telemetry;

use progress::ProgressWebhook;
use transport::make_transport;

pub(crate) use scripts::{confine_command, describe, describe_command, describe_hook};

/// The longest that the end of a run is held up by receivers that do not answer.
const GRACE: Duration = Duration::from_secs(5);

/// Tells the receivers and the collector of a configuration what happens. Without any it does nothing.
pub(crate) struct Notices {
    notifier: Option<Arc<Notifier>>,
    telemetry: Telemetry,
    /// Of a backlog, once that is observed.
    progress: Option<ProgressWebhook>,
}

impl Notices {
    /// Begins to serve the receivers, within a runtime, with what an earlier start has left.
    pub(crate) fn start(context: &Context, layout: &Layout, switch: &KillSwitch) -> Self {
        let telemetry = Telemetry::start(context, layout, switch);
        let mut receivers = Vec::new();
        for (name, resolved) in resolve(context) {
            match resolved {
                Ok(receiver) if receiver.takes_notices() => {
                    let warning = describe(&receiver);
                    warning
                        .iter()
                        .for_each(|text| output::info(&format!("warning: notify {text}")));
                    receivers.push(receiver);
                }
                // It is sent the progress of a backlog: see below.
                Ok(_) => {}
                Err(problem) => {
                    output::info(&format!("warning: notify {name}: {problem}; it is sent nothing"));
                }
            }
        }
        if receivers.is_empty() {
            return Self { notifier: None, telemetry, progress: None };
        }
        let config = &context.loaded.config;
        let notifier = Notifier::start(NotifierSetup {
            layout: layout.clone(),
            workspace: config.run.workspace.display().to_string(),
            program: format!("ralph-orchestrator -w {}", quote_word(&config.run.workspace)),
            has_backlog: config.backlog.is_some(),
            receivers,
            transport: Arc::new(make_transport(context, switch)),
            say: Arc::new(output::info),
        });
        notifier.send_left();
        Self { notifier: Some(Arc::new(notifier)), telemetry, progress: None }
    }

    /// Returns an observer of runs that passes everything on.
    pub(crate) fn observe(&self, inner: Arc<dyn RunObserver>) -> Arc<dyn RunObserver> {
        let inner = self.telemetry.observe(inner);
        match &self.notifier {
            Some(notifier) => Arc::new(NoticeObserver { notifier: Arc::clone(notifier), inner }),
            None => inner,
        }
    }

    /// Returns an observer of a backlog that passes everything on. Whoever is posted the progress of the list is from
    /// now on.
    pub(crate) async fn observe_backlog(
        &mut self,
        context: &Context,
        list: &Arc<dyn Backlog>,
        switch: &KillSwitch,
        inner: Arc<dyn BacklogObserver>,
    ) -> Arc<dyn BacklogObserver> {
        let mut receivers = resolve(context).into_iter().filter_map(|(_, resolved)| resolved.ok());
        if let Some(receiver) = receivers.find(|receiver| !receiver.takes_notices()) {
            let workspace = context.loaded.config.run.workspace.clone();
            let (transport, list) = (make_transport(context, switch), Arc::clone(list));
            let started = ProgressWebhook::start(receiver, transport, list, workspace).await;
            self.progress = Some(started);
        }
        let inner = match &self.progress {
            Some(progress) => progress.observe(inner),
            None => inner,
        };
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

    /// Waits a little until the last notices are answered, and the last spans taken.
    pub(crate) async fn finish(self) {
        let notifier = self.notifier;
        let notified = async {
            match notifier {
                Some(notifier) => notifier.finish(GRACE).await,
                None => Vec::new(),
            }
        };
        let progress = self.progress;
        let posted = async {
            if let Some(progress) = progress {
                progress.finish(GRACE).await;
            }
        };
        let (undelivered, (), ()) = tokio::join!(notified, self.telemetry.finish(GRACE), posted);
        for left in undelivered {
            output::info(&format!(
                "notify {}: {} not delivered yet; the next `run` sends them again",
                left.receiver,
                count(u64::try_from(left.notices).unwrap_or(u64::MAX), "notice")
            ));
        }
    }
}

/// Returns each receiver of the configuration, by its name, or why it cannot be reached. Where AutoCoder would post
/// nothing, as its variable is not set, there is none.
pub(crate) fn resolve(context: &Context) -> Vec<(String, Result<Receiver, String>)> {
    let is_set = |name: &String| context.vars.get(name).is_some_and(|value| !value.is_empty());
    let is_used = |notify: &&Notify| {
        notify.kind != Some(NotifyKind::Autocoder) || notify.url_env.as_ref().is_none_or(is_set)
    };
    let receivers = context.loaded.config.notify.iter().filter(is_used);
    receivers
        .map(|notify| {
            let name = notify.name.clone().unwrap_or_default();
            let mut resolved = Receiver::resolve(notify, &context.vars);
            resolved.iter_mut().for_each(|receiver| scripts::confine(receiver, context));
            (name, resolved)
        })
        .collect()
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
