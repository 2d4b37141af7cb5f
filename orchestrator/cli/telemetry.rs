//! The trace of a run, sent to the collector of `[telemetry]` while the run is active.
//!
//! What is sent is read from the journal, by a task of its own: the run never waits for the collector, and nothing is
//! held in memory while that does not answer.

mod collector;
mod ended_spans;
mod sent;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_engine::{RunEvent, RunObserver};
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{Layout, list_runs};
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_terminal::output;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

pub(crate) use collector::Collector;
use collector::Delivered;
use ended_spans::EndedSpans;
pub(crate) use ended_spans::read_transcript;

/// Earlier runs of which what a collector has not taken is sent.
const EARLIER_RUNS: usize = 2;

/// Exports runs. Without a collector it does nothing.
pub(crate) struct Telemetry {
    exporter: Option<Exporter>,
}

struct Exporter {
    /// The runs of which there is more to send.
    runs: Arc<Mutex<Option<UnboundedSender<String>>>>,
    closing: watch::Sender<bool>,
    worker: JoinHandle<bool>,
}

impl Telemetry {
    /// Begins to export, within a runtime, with what an earlier start has left.
    pub(crate) fn start(context: &Context, layout: &Layout, switch: &KillSwitch) -> Self {
        let config = &context.loaded.config.telemetry;
        let Some(address) = &config.otlp else { return Self { exporter: None } };
        let (runs, wakes) = unbounded_channel();
        let (closing, closed) = watch::channel(false);
        let worker = Worker {
            layout: layout.clone(),
            has_content: config.content,
            collector: Collector::new(context, address, switch),
            closing: closed,
            current: None,
        };
        let worker = tokio::spawn(worker.serve(wakes));
        let runs = Arc::new(Mutex::new(Some(runs)));
        Self { exporter: Some(Exporter { runs, closing, worker }) }
    }

    /// Returns an observer of runs that passes everything on.
    pub(crate) fn observe(&self, inner: Arc<dyn RunObserver>) -> Arc<dyn RunObserver> {
        match &self.exporter {
            Some(exporter) => Arc::new(SpanObserver { runs: Arc::clone(&exporter.runs), inner }),
            None => inner,
        }
    }

    /// Waits for at most `grace` until the last spans are taken.
    pub(crate) async fn finish(self, grace: Duration) {
        let Some(Exporter { runs, closing, mut worker }) = self.exporter else { return };
        // Then the worker ends once all is sent.
        drop(runs.lock().unwrap_or_else(PoisonError::into_inner).take());
        closing.send_replace(true);
        let ended = tokio::time::timeout(grace, &mut worker).await;
        if ended.is_err() {
            worker.abort();
        }
        if !matches!(ended, Ok(Ok(true))) {
            output::info(
                "telemetry: the collector has not taken the whole trace yet; the next `run` sends the rest",
            );
        }
    }
}

struct SpanObserver {
    runs: Arc<Mutex<Option<UnboundedSender<String>>>>,
    inner: Arc<dyn RunObserver>,
}

impl RunObserver for SpanObserver {
    fn on_event(&self, run: &str, event: &RunEvent) {
        self.inner.on_event(run, event);
    }

    fn on_record(&self, run: &str, seq: u64, time: Timestamp, record: &Record) {
        self.inner.on_record(run, seq, time, record);
        // Between these, spans end that can wait.
        let has_ended = matches!(
            record,
            Record::IterationStarted { .. } | Record::Stopped { .. } | Record::Completed { .. }
        );
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runs) = runs.as_ref().filter(|_| has_ended) {
            drop(runs.send(run.to_owned()));
        }
    }
}

/// Sends the spans of runs, in their order.
struct Worker {
    layout: Layout,
    has_content: bool,
    collector: Collector,
    closing: watch::Receiver<bool>,
    current: Option<EndedSpans>,
}

impl Worker {
    /// Returns whether the collector has taken everything.
    async fn serve(mut self, mut wakes: UnboundedReceiver<String>) -> bool {
        let earlier = list_runs(&self.layout).unwrap_or_default();
        for run in earlier.iter().take(EARLIER_RUNS).rev() {
            let spans = EndedSpans::open(&self.layout, run, self.has_content, &self.collector.url);
            // Of a run without any record of it, nothing was to be sent.
            if spans.was_begun() {
                self.current = Some(spans);
                if !self.export().await {
                    return false;
                }
            }
        }
        while let Some(mut run) = wakes.recv().await {
            loop {
                let next = wakes.try_recv().ok();
                if next.as_ref() != Some(&run) && !self.export_run(&run).await {
                    return false;
                }
                let Some(next) = next else { break };
                run = next;
            }
        }
        true
    }

    async fn export_run(&mut self, run: &str) -> bool {
        if self.current.as_ref().is_none_or(|current| current.run() != run) {
            let spans = EndedSpans::open(&self.layout, run, self.has_content, &self.collector.url);
            self.current = Some(spans);
        }
        self.export().await
    }

    /// Sends what of the run has ended. Returns whether the collector has taken it.
    async fn export(&mut self) -> bool {
        while let Some(mut spans) = self.current.take() {
            let Ok((mut spans, part)) = spawn_blocking(move || {
                let part = spans.read();
                (spans, part)
            })
            .await
            else {
                return false;
            };
            let Some(part) = part else {
                self.current = Some(spans);
                return true;
            };
            match self.collector.deliver(&part.trace, &mut self.closing).await {
                Delivered::Taken => {}
                Delivered::NotYet => return false,
            }
            if let Err(error) = spans.confirm(&part) {
                output::info(&format!("telemetry: what was sent cannot be recorded: {error}"));
            }
            self.current = Some(spans);
        }
        true
    }
}
