//! A session with the host: handles its frames.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ralph_orchestrator_contract::{
    AgentError, BacklogItem, BuildError, CancelReason, ErrorClass, EventSink, FormatError,
    Iteration, Setup,
};
use ralph_orchestrator_plugin_protocol::{
    Answer, Call, Cancel, Decoded, Done, EditedBacklog, Failed, GuidanceResult, HostFrame,
    HostHello, Method, Open, Opened, PROTOCOL, Panicked, PluginFrame, PluginHello, Pong,
    PreviewResult, ReadBacklog, Refused, WriteCheckResult, decode, feature,
};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinError;

use crate::guard::{self, CatchPanic, Panic};
use crate::in_flight::{InFlight, InFlightCall};
use crate::item::{BuiltItem, PluginDefinition};
use crate::log::LogTarget;
use crate::outbox::{Outbox, SendError};
use crate::sink::{CallSink, Requests};
use crate::versions::SDK;

/// The features of the host.
#[derive(Clone, Copy, Debug, Default)]
struct HostFeatures {
    /// The number of events that a call may send before it waits, if credit is negotiated.
    window: Option<u32>,
    /// Whether it answers `write_check`.
    write_check: bool,
    /// Whether it answers `take_guidance`.
    guidance: bool,
}

/// The state of a session.
pub(crate) struct PluginSession {
    plugin: &'static PluginDefinition,
    outbox: Outbox,
    log: LogTarget,
    runtime: Handle,
    /// What the host can do; known after its `hello`.
    host: OnceLock<HostFeatures>,
    instances: Mutex<HashMap<u64, Arc<BuiltItem>>>,
    in_flight: InFlight,
}

impl PluginSession {
    pub(crate) fn new(
        plugin: &'static PluginDefinition,
        outbox: Outbox,
        log: LogTarget,
        runtime: Handle,
    ) -> Arc<Self> {
        let (host, instances, in_flight) = (OnceLock::new(), Mutex::default(), InFlight::default());
        Arc::new(Self { plugin, outbox, log, runtime, host, instances, in_flight })
    }

    /// Handles the host's frames in order. Nothing here waits for the author's code.
    pub(crate) async fn handle_frames(self: Arc<Self>, mut frames: mpsc::Receiver<Vec<u8>>) {
        while let Some(frame) = frames.recv().await {
            match decode::<HostFrame>(&frame) {
                Ok(Decoded::Known(frame)) => self.handle_frame(frame).await,
                // A frame of a newer host.
                Ok(Decoded::Unknown(_) | Decoded::KnownInPart(..)) => {}
                Err(error) => self.reject_invalid(&frame, &error.to_string()).await,
            }
        }
    }

    /// Waits until the host is gone, and aborts all calls.
    pub(crate) async fn abort_when_disconnected(self: Arc<Self>) {
        self.outbox.closed().await;
        self.in_flight.cancel_all(CancelReason::Signal);
        self.in_flight.abort_all();
    }

    /// Cancels all calls and waits for them, up to `timeout`.
    pub(crate) fn shut_down(&self, timeout: Duration) {
        self.in_flight.cancel_all(CancelReason::Signal);
        self.in_flight.wait(timeout);
        self.in_flight.abort_all();
        self.log.close();
        let instances = std::mem::take(&mut *self.instances());
        // The author's destructors may panic, which cannot be reported any more.
        drop(guard::catch(|| drop(instances)));
    }

    fn instances(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<BuiltItem>>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle_frame(self: &Arc<Self>, frame: HostFrame) {
        match frame {
            HostFrame::Hello(hello) => self.handle_hello(&hello).await,
            HostFrame::Open(open) => self.open(open),
            HostFrame::Call(call) => self.call(call).await,
            HostFrame::Cancel(cancel) => self.cancel(&cancel),
            HostFrame::PreviewResult(PreviewResult { call, request, preview }) => {
                self.in_flight.complete_preview(call, request, preview);
            }
            HostFrame::WriteCheckResult(WriteCheckResult { call, request, refused }) => {
                self.in_flight.complete_write_check(call, request, refused);
            }
            HostFrame::GuidanceResult(GuidanceResult { call, request, guidance }) => {
                self.in_flight.complete_guidance(call, request, guidance);
            }
            HostFrame::Credit(credit) => self.in_flight.add_credit(credit.call, credit.events),
            HostFrame::Ping(ping) => self.send(&PluginFrame::Pong(Pong { n: ping.n })).await,
            HostFrame::Close(_) => self.in_flight.cancel_all(CancelReason::Signal),
        }
    }

    /// Sends a small frame. [`abort_when_disconnected`](Self::abort_when_disconnected) handles a host that
    /// is gone.
    async fn send(&self, frame: &PluginFrame) {
        drop(self.outbox.send(frame).await);
    }

    async fn handle_hello(&self, hello: &HostHello) {
        let has = |feature: &str| hello.features.iter().any(|one| one == feature);
        let window = has(feature::CREDIT).then_some(hello.window);
        let (write_check, guidance) = (has(feature::WRITE_CHECK), has(feature::GUIDANCE));
        let features = HostFeatures { window, write_check, guidance };
        // A second hello changes nothing.
        let _ = self.host.set(features);
        self.send(&PluginFrame::Hello(PluginHello {
            protocol: PROTOCOL,
            name: self.plugin.name.to_owned(),
            version: self.plugin.version.to_owned(),
            sdk: Some(SDK.to_owned()),
            features: feature::ALL.map(str::to_owned).into(),
            provides: self.plugin.provides(),
        }))
        .await;
        // Only now: `hello` has to be the first frame.
        self.log.open(self.outbox.clone(), hello.log);
    }

    /// The author's code may block, for instance to read a file.
    fn open(self: &Arc<Self>, open: Open) {
        let session = Arc::clone(self);
        self.runtime.spawn(async move {
            let Open { instance, kind, name, config, context } = open;
            let plugin = session.plugin;
            let building = session.runtime.spawn_blocking(move || {
                guard::catch(|| {
                    let built = (plugin.find(kind, name.as_deref())?.build)(config, &context)?;
                    let provided = built.describe();
                    Ok((built, provided))
                })
            });
            let built = building.await.unwrap_or_else(|error| Err(panic_from(error)));
            let answer = match built {
                Ok(Ok((built, provided))) => {
                    session.instances().insert(instance, Arc::new(built));
                    PluginFrame::Opened(Opened { instance, provided })
                }
                Ok(Err(error)) => PluginFrame::Refused(Refused::new(instance, error)),
                Err(panic) => {
                    let error = BuildError::at("", format!("the plugin panicked: {panic}"));
                    PluginFrame::Refused(Refused::new(instance, error))
                }
            };
            session.send(&answer).await;
        });
    }

    async fn call(self: &Arc<Self>, call: Call) {
        let Call { call, instance, method } = call;
        let Some(built) = self.instances().get(&instance).cloned() else {
            let message = format!("there is no instance {instance}");
            let error = AgentError::new(ErrorClass::InvalidRequest, message);
            return self.send(&PluginFrame::Failed(Failed::new(call, error))).await;
        };
        let features = self.host.get().copied().unwrap_or_default();
        let credits = features
            .window
            .map(|window| Arc::new(Semaphore::new(usize::try_from(window).unwrap_or(usize::MAX))));
        let (cancel, cancelled) = watch::channel(None);
        let previews = Arc::new(Requests::default());
        let write_checks = features.write_check.then(Arc::default);
        let guidance = features.guidance.then(Arc::default);
        let sink = CallSink {
            call,
            outbox: self.outbox.clone(),
            credits: credits.clone(),
            cancelled,
            previews: Arc::clone(&previews),
            write_checks: write_checks.clone(),
            guidance: guidance.clone(),
        };
        let task = self.runtime.spawn(CatchPanic::new(run_method(built, call, method, sink)));
        self.in_flight.add(
            call,
            InFlightCall {
                cancel,
                credits,
                previews,
                write_checks,
                guidance,
                task: task.abort_handle(),
            },
        );
        let session = Arc::clone(self);
        self.runtime.spawn(async move {
            let frame = match task.await {
                Ok(Ok(frame)) => frame,
                Ok(Err(panic)) => panicked(call, panic),
                Err(error) if error.is_panic() => panicked(call, panic_from(error)),
                Err(_) => PluginFrame::Failed(Failed::new(
                    call,
                    AgentError::new(
                        ErrorClass::Cancelled,
                        "it did not end after cancellation and was aborted",
                    ),
                )),
            };
            session.finish_call(call, frame).await;
        });
    }

    /// Sends the last frame of a call.
    async fn finish_call(&self, call: u64, frame: PluginFrame) {
        self.in_flight.remove(call);
        if let Err(SendError::Encode(error)) = self.outbox.send(&frame).await {
            let message = format!("its result cannot be encoded: {error}");
            let error = AgentError::new(ErrorClass::Crashed, message);
            self.send(&PluginFrame::Failed(Failed::new(call, error))).await;
        }
    }

    fn cancel(self: &Arc<Self>, cancel: &Cancel) {
        let Cancel { call, reason, grace_ms } = *cancel;
        self.in_flight.cancel(call, reason);
        if self.in_flight.contains(call) {
            let session = Arc::clone(self);
            self.runtime.spawn(async move {
                // A little earlier than the host, so that the answer is in time.
                let grace = Duration::from_millis(grace_ms.saturating_sub(grace_ms / 5));
                tokio::time::sleep(grace).await;
                session.in_flight.abort(call);
            });
        }
    }

    /// Fails a call that cannot be decoded, which would wait for ever. Other invalid frames are ignored.
    async fn reject_invalid(&self, frame: &[u8], why: &str) {
        let value = serde_json::from_slice::<serde_json::Value>(frame).unwrap_or_default();
        let is_call = value.get("frame").and_then(serde_json::Value::as_str) == Some("call");
        let number = value.get("call").and_then(serde_json::Value::as_u64);
        if let (true, Some(call)) = (is_call, number) {
            let error = AgentError::new(ErrorClass::InvalidRequest, why);
            self.send(&PluginFrame::Failed(Failed::new(call, error))).await;
        }
    }
}

fn panicked(call: u64, panic: Panic) -> PluginFrame {
    let Panic { message, location } = panic;
    PluginFrame::Panicked(Panicked { call, message, location })
}

fn panic_from(error: JoinError) -> Panic {
    match error.try_into_panic() {
        Ok(payload) => guard::from_payload(payload),
        Err(error) => Panic { message: error.to_string(), location: None },
    }
}

fn answer_read(result: Result<Vec<BacklogItem>, FormatError>) -> Result<Answer, AgentError> {
    match result {
        Ok(items) => Ok(Answer::Backlog(ReadBacklog { items, defects: Vec::new() })),
        // Without any, the text would count as valid.
        Err(FormatError::Defects(defects)) if !defects.is_empty() => {
            Ok(Answer::Backlog(ReadBacklog { items: Vec::new(), defects }))
        }
        Err(error) => Err(AgentError::new(ErrorClass::Crashed, error.to_string())),
    }
}

fn answer_edit(result: Result<String, FormatError>) -> Result<Answer, AgentError> {
    Ok(Answer::Edited(match result {
        Ok(text) => EditedBacklog::Text(text),
        Err(FormatError::NotStorable(what)) => EditedBacklog::NotStorable(what),
        Err(FormatError::InvalidItem(problem)) => EditedBacklog::InvalidItem(problem),
        Err(error) => return Err(AgentError::new(ErrorClass::Crashed, error.to_string())),
    }))
}

/// Runs the author's code.
async fn run_method(
    built: Arc<BuiltItem>,
    call: u64,
    method: Method,
    sink: CallSink,
) -> PluginFrame {
    let name = method.name();
    let answer = match (&*built, method) {
        (BuiltItem::Agent(agent), Method::Check { env }) => {
            agent.check(&env).await.map(Answer::Found)
        }
        (BuiltItem::Agent(agent), Method::Run { task }) => match Iteration::try_from(task) {
            Ok(task) => agent.run(task, &sink as &dyn EventSink).await.map(Answer::Report),
            Err(error) => Err(AgentError::new(ErrorClass::InvalidRequest, error.to_string())),
        },
        (BuiltItem::Detector(detector), Method::Observe { event }) => {
            Ok(Answer::Claims(detector.observe(&event).await))
        }
        (BuiltItem::Detector(detector), Method::Inspect { input }) => {
            Ok(Answer::Findings(detector.inspect(input.as_detector_input()).await))
        }
        (BuiltItem::Detector(detector), Method::StripClaims { prompt }) => {
            Ok(Answer::Text(detector.strip_claims(&prompt).await.into_owned()))
        }
        (BuiltItem::Validator(validator), Method::Check { env }) => validator
            .check(&env)
            .await
            .map(|()| Answer::Found(String::new()))
            .map_err(|message| AgentError::new(ErrorClass::Unavailable, message)),
        (BuiltItem::Agent(agent), Method::Launch { task }) => match Iteration::try_from(task) {
            Ok(task) => Ok(Answer::Launch(agent.launch(&task))),
            Err(error) => Err(AgentError::new(ErrorClass::InvalidRequest, error.to_string())),
        },
        (BuiltItem::Validator(validator), Method::FindSetupProblems { workspace, env }) => {
            let is_protected = |path: &Path| sink.wait(sink.is_write_refused(path));
            let setup = Setup { workspace: &workspace, env: &env, is_protected: &is_protected };
            Ok(Answer::SetupProblems(validator.find_setup_problems(setup).await))
        }
        (BuiltItem::Validator(validator), Method::Validate { context }) => {
            Ok(Answer::Verdict(validator.validate(context.as_context(), &sink).await))
        }
        (BuiltItem::Backlog(format), Method::ReadBacklog { text }) => {
            answer_read(format.read(&text))
        }
        (BuiltItem::Backlog(format), Method::EditBacklog { text, edits }) => {
            answer_edit(format.edit(&text, &edits))
        }
        _ => Err(AgentError::new(ErrorClass::InvalidRequest, built.unknown_method(name))),
    };
    match answer {
        Ok(answer) => PluginFrame::Done(Done { call, answer }),
        Err(error) => PluginFrame::Failed(Failed::new(call, error)),
    }
}
