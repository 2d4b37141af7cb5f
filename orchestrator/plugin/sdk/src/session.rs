//! A conversation with the host: what each of its frames makes happen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use plugin_protocol::{
    Answer, Call, Cancel, Decoded, Done, Failed, HostFrame, HostHello, Method, Open, Opened,
    PROTOCOL, Panicked, PluginFrame, PluginHello, Pong, Refused, decode, feature,
};
use ralph_orchestrator_contract::{
    AgentError, BuildError, CancelReason, ErrorClass, EventSink, Iteration,
};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinError;

use crate::calls::{Active, Calls};
use crate::glue::SDK;
use crate::guard::{self, Guarded, Panic};
use crate::item::{Built, Plugin};
use crate::log::Home;
use crate::out::{Out, SendError};
use crate::sink::{Asks, CallSink};

/// What all that goes on in a session has in common.
pub(crate) struct Session {
    plugin: &'static Plugin,
    out: Out,
    log: Home,
    runtime: Handle,
    /// Events that a call may send before it waits, if the host counts them; known after its hello.
    window: OnceLock<Option<u32>>,
    instances: Mutex<HashMap<u64, Arc<Built>>>,
    calls: Calls,
}

impl Session {
    pub(crate) fn new(plugin: &'static Plugin, out: Out, log: Home, runtime: Handle) -> Arc<Self> {
        let (window, instances, calls) = (OnceLock::new(), Mutex::default(), Calls::default());
        Arc::new(Self { plugin, out, log, runtime, window, instances, calls })
    }

    /// Does what the host says, frame by frame. Nothing here waits for the plugin's author.
    pub(crate) async fn listen(self: Arc<Self>, mut frames: mpsc::Receiver<Vec<u8>>) {
        while let Some(frame) = frames.recv().await {
            match decode::<HostFrame>(&frame) {
                Ok(Decoded::Known(frame)) => self.hear(frame).await,
                // What a newer host says.
                Ok(Decoded::Unknown(_)) => {}
                Err(error) => self.answer_unreadable(&frame, &error.to_string()).await,
            }
        }
    }

    /// When the host takes nothing any more, nothing has to go on.
    pub(crate) async fn until_gone(self: Arc<Self>) {
        self.out.gone().await;
        self.calls.cancel_all(CancelReason::Signal);
        self.calls.abort_all();
    }

    /// Asks everything to end, and waits.
    pub(crate) fn wind_down(&self, within: Duration) {
        self.calls.cancel_all(CancelReason::Signal);
        self.calls.wait(within);
        self.calls.abort_all();
        self.log.end();
        let instances = std::mem::take(&mut *self.instances());
        // The author's destructors may panic, and there is nobody left to tell.
        drop(guard::catch(|| drop(instances)));
    }

    fn instances(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Built>>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn hear(self: &Arc<Self>, frame: HostFrame) {
        match frame {
            HostFrame::Hello(hello) => self.greet(&hello).await,
            HostFrame::Open(open) => self.open(open),
            HostFrame::Call(call) => self.call(call).await,
            HostFrame::Cancel(cancel) => self.cancel(&cancel),
            HostFrame::Judgement(given) => {
                self.calls.answer(given.call, given.ask, given.judgement);
            }
            HostFrame::Credit(credit) => self.calls.credit(credit.call, credit.events),
            HostFrame::Ping(ping) => self.say(&PluginFrame::Pong(Pong { n: ping.n })).await,
            HostFrame::Close(_) => self.calls.cancel_all(CancelReason::Signal),
        }
    }

    /// Sends a frame that is small. That the host is gone is seen by [`until_gone`](Self::until_gone).
    async fn say(&self, frame: &PluginFrame) {
        drop(self.out.send(frame).await);
    }

    async fn greet(&self, hello: &HostHello) {
        let counts = hello.features.iter().any(|feature| feature == feature::CREDIT);
        // A second hello changes nothing.
        let _ = self.window.set(counts.then_some(hello.window));
        self.say(&PluginFrame::Hello(PluginHello {
            protocol: PROTOCOL,
            name: self.plugin.name.to_owned(),
            version: self.plugin.version.to_owned(),
            sdk: Some(SDK.to_owned()),
            features: vec![feature::CREDIT.to_owned(), feature::PING.to_owned()],
            provides: self.plugin.provides(),
        }))
        .await;
        // Not before: the hello has to be the first frame.
        self.log.begin(self.out.clone(), hello.log);
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
            let built = building.await.unwrap_or_else(|error| Err(panic_of(error)));
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
            session.say(&answer).await;
        });
    }

    async fn call(self: &Arc<Self>, call: Call) {
        let Call { call, instance, method } = call;
        let Some(built) = self.instances().get(&instance).cloned() else {
            let message = format!("there is no instance {instance}");
            let error = AgentError::new(ErrorClass::InvalidRequest, message);
            return self.say(&PluginFrame::Failed(Failed::new(call, error))).await;
        };
        let window = self.window.get().copied().flatten();
        let credits = window
            .map(|window| Arc::new(Semaphore::new(usize::try_from(window).unwrap_or(usize::MAX))));
        let (cancel, cancelled) = watch::channel(None);
        let asks = Arc::new(Asks::default());
        let sink = CallSink {
            call,
            out: self.out.clone(),
            credits: credits.clone(),
            cancelled,
            asks: Arc::clone(&asks),
        };
        let task = self.runtime.spawn(Guarded::new(perform(built, call, method, sink)));
        self.calls.add(call, Active { cancel, credits, asks, task: task.abort_handle() });
        let session = Arc::clone(self);
        self.runtime.spawn(async move {
            let frame = match task.await {
                Ok(Ok(frame)) => frame,
                Ok(Err(panic)) => panicked(call, panic),
                Err(error) if error.is_panic() => panicked(call, panic_of(error)),
                Err(_) => PluginFrame::Failed(Failed::new(
                    call,
                    AgentError::new(
                        ErrorClass::Cancelled,
                        "it did not end by itself after it was asked to, and was aborted",
                    ),
                )),
            };
            session.end(call, frame).await;
        });
    }

    /// The one last frame of a call.
    async fn end(&self, call: u64, frame: PluginFrame) {
        self.calls.remove(call);
        if let Err(SendError::Frame(error)) = self.out.send(&frame).await {
            let message = format!("what it had to say at its end cannot be said: {error}");
            let error = AgentError::new(ErrorClass::Crashed, message);
            self.say(&PluginFrame::Failed(Failed::new(call, error))).await;
        }
    }

    fn cancel(self: &Arc<Self>, cancel: &Cancel) {
        let Cancel { call, reason, grace_ms } = *cancel;
        self.calls.cancel(call, reason);
        if self.calls.has(call) {
            let session = Arc::clone(self);
            self.runtime.spawn(async move {
                // A little before the host gives it up, so that the end still is in time.
                let grace = Duration::from_millis(grace_ms.saturating_sub(grace_ms / 5));
                tokio::time::sleep(grace).await;
                session.calls.abort(call);
            });
        }
    }

    /// A call that cannot be read would wait for ever; of anything else the host learns nothing.
    async fn answer_unreadable(&self, frame: &[u8], why: &str) {
        let value = serde_json::from_slice::<serde_json::Value>(frame).unwrap_or_default();
        let is_call = value.get("frame").and_then(serde_json::Value::as_str) == Some("call");
        let number = value.get("call").and_then(serde_json::Value::as_u64);
        if let (true, Some(call)) = (is_call, number) {
            let error = AgentError::new(ErrorClass::InvalidRequest, why);
            self.say(&PluginFrame::Failed(Failed::new(call, error))).await;
        }
    }
}

fn panicked(call: u64, panic: Panic) -> PluginFrame {
    let Panic { message, location } = panic;
    PluginFrame::Panicked(Panicked { call, message, location })
}

fn panic_of(error: JoinError) -> Panic {
    match error.try_into_panic() {
        Ok(payload) => guard::of_payload(payload),
        Err(error) => Panic { message: error.to_string(), location: None },
    }
}

/// Runs the author's code.
async fn perform(built: Arc<Built>, call: u64, method: Method, sink: CallSink) -> PluginFrame {
    let name = method.name();
    let answer = match (&*built, method) {
        (Built::Agent(agent), Method::Check { env }) => agent.check(&env).await.map(Answer::Found),
        (Built::Agent(agent), Method::Run { task }) => match Iteration::try_from(task) {
            Ok(task) => agent.run(task, &sink as &dyn EventSink).await.map(Answer::Report),
            Err(error) => Err(AgentError::new(ErrorClass::InvalidRequest, error.to_string())),
        },
        (Built::Detector(detector), Method::Observe { event }) => {
            Ok(Answer::Claims(detector.observe(&event).await))
        }
        (Built::Detector(detector), Method::Inspect { view }) => {
            Ok(Answer::Findings(detector.inspect(view.view()).await))
        }
        (Built::Detector(detector), Method::StripClaims { prompt }) => {
            Ok(Answer::Text(detector.strip_claims(&prompt).await.into_owned()))
        }
        (Built::Validator(validator), Method::Check { env }) => validator
            .check(&env)
            .await
            .map(|()| Answer::Found(String::new()))
            .map_err(|message| AgentError::new(ErrorClass::Unavailable, message)),
        (Built::Validator(validator), Method::Validate { context }) => {
            Ok(Answer::Verdict(validator.validate(context.context(), &sink).await))
        }
        _ => Err(AgentError::new(ErrorClass::InvalidRequest, built.has_no(name))),
    };
    match answer {
        Ok(answer) => PluginFrame::Done(Done { call, answer }),
        Err(error) => PluginFrame::Failed(Failed::new(call, error)),
    }
}
