//! The session with a plugin as a pure state machine over frames.
//!
//! It tracks open requests and permitted answers, without clock, channel or process.

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_contract::{
    BuildContext, BuildError, CancelReason, Guidance, ValidationPreview,
};
use ralph_orchestrator_plugin_protocol::{
    Call, Cancel, Credit, Done, GuidanceResult, HostHello, Item, ItemKind, LogLine, Method,
    MethodName, Open, Opened, PROTOCOL, Panicked, PluginFrame, PluginHello, Pong, PreviewRequest,
    PreviewResult, Provided, TakeGuidance, WINDOW, WriteCheck, WriteCheckResult, feature,
};
use serde_json::Value;

use crate::call_event::{CallEvent, CallOutcome};
use crate::manifest::{escaped, is_display_name, is_item_name};
use crate::violation::{Violation, with_article};

/// What a valid frame means to the host.
#[derive(Debug)]
pub(crate) enum ProtocolEvent {
    Hello(PluginHello),
    Opened { instance: u64, result: Result<Provided, BuildError> },
    Call { call: u64, event: CallEvent },
    Log(LogLine),
    Pong,
}

/// A call that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct OpenCall {
    method: MethodName,
    /// The number of events that it may still send.
    credit: u32,
    /// The preview request that is not answered yet.
    preview: Option<u64>,
    /// The question about a path that is not answered yet.
    write_check: Option<u64>,
    /// The request for guidance that is not answered yet.
    guidance: Option<u64>,
}

/// The state of the protocol: features, instances being opened and open calls.
#[derive(Debug, Default)]
pub(crate) struct ProtocolState {
    /// The plugin's features; `None` before its `hello`.
    features: Option<Vec<String>>,
    /// It was built with an SDK, which reads only the words that it knows.
    has_sdk: bool,
    opening: BTreeMap<u64, ItemKind>,
    calls: BTreeMap<u64, OpenCall>,
    last_instance: u64,
    last_call: u64,
}

impl ProtocolState {
    /// Returns the host's `hello`.
    pub(crate) fn hello() -> HostHello {
        HostHello {
            protocol: PROTOCOL,
            host: concat!("ralph-orchestrator ", env!("CARGO_PKG_VERSION")).to_owned(),
            features: feature::ALL.map(str::to_owned).into(),
            window: WINDOW,
            log: crate::log::wanted_level(),
        }
    }

    /// Whether the plugin announced a feature, all of which the host has.
    pub(crate) fn has_feature(&self, feature: &str) -> bool {
        self.features.as_ref().is_some_and(|features| features.iter().any(|one| one == feature))
    }

    /// Whether a call is not answered yet.
    pub(crate) fn has_open_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns the number and the method of the first call that is not answered yet.
    pub(crate) fn first_open_call(&self) -> Option<(u64, MethodName)> {
        self.calls.first_key_value().map(|(call, open)| (*call, open.method))
    }

    /// Returns the method of a call that is not answered yet.
    pub(crate) fn method_of(&self, call: u64) -> Option<MethodName> {
        self.calls.get(&call).map(|open| open.method)
    }

    /// Creates the frame that opens a new instance.
    pub(crate) fn open(
        &mut self,
        kind: ItemKind,
        name: Option<&str>,
        config: Value,
        context: &BuildContext,
    ) -> Open {
        self.last_instance += 1;
        self.opening.insert(self.last_instance, kind);
        let (instance, name) = (self.last_instance, name.map(str::to_owned));
        Open { instance, kind, name, config, context: context.clone() }
    }

    /// Forgets an instance whose `open` was never sent.
    pub(crate) fn forget_instance(&mut self, instance: u64) {
        self.opening.remove(&instance);
    }

    /// Forgets a call that was never sent.
    pub(crate) fn forget_call(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    /// Creates the frame that starts a new call.
    pub(crate) fn call(&mut self, instance: u64, method: Method) -> Call {
        self.last_call += 1;
        let call = OpenCall {
            method: method.name(),
            credit: WINDOW,
            preview: None,
            write_check: None,
            guidance: None,
        };
        self.calls.insert(self.last_call, call);
        Call { call: self.last_call, instance, method }
    }

    /// Creates the frame that cancels a call, if the call is open.
    pub(crate) fn cancel(&self, call: u64, reason: CancelReason, grace_ms: u64) -> Option<Cancel> {
        let cancel = Cancel { call, reason, grace_ms };
        let knows_all = self.has_feature(feature::CANCEL_REASONS) || !self.has_sdk;
        let cancel = if knows_all { cancel } else { cancel.with_old_reason() };
        self.calls.contains_key(&call).then_some(cancel)
    }

    /// Creates the frame that answers a preview request, if the request is open.
    pub(crate) fn answer_preview(
        &mut self,
        call: u64,
        request: u64,
        preview: ValidationPreview,
    ) -> Option<PreviewResult> {
        let open = self.calls.get_mut(&call)?;
        open.preview.take_if(|pending| *pending == request)?;
        Some(PreviewResult { call, request, preview })
    }

    /// Creates the frame that answers a question about a path, if the question is open.
    pub(crate) fn answer_write_check(
        &mut self,
        call: u64,
        request: u64,
        refused: bool,
    ) -> Option<WriteCheckResult> {
        let open = self.calls.get_mut(&call)?;
        open.write_check.take_if(|pending| *pending == request)?;
        Some(WriteCheckResult { call, request, refused })
    }

    /// Creates the frame that answers a request for guidance, if the request is open.
    pub(crate) fn answer_guidance(
        &mut self,
        call: u64,
        request: u64,
        guidance: Vec<Guidance>,
    ) -> Option<GuidanceResult> {
        let open = self.calls.get_mut(&call)?;
        open.guidance.take_if(|pending| *pending == request)?;
        Some(GuidanceResult { call, request, guidance })
    }

    /// Creates the frame that grants credit for more events, if the call is open and credit negotiated.
    pub(crate) fn grant_credit(&mut self, call: u64, events: u32) -> Option<Credit> {
        if !self.has_feature(feature::CREDIT) {
            return None;
        }
        let open = self.calls.get_mut(&call)?;
        open.credit = open.credit.saturating_add(events).min(WINDOW);
        Some(Credit { call, events })
    }

    /// Validates a frame and returns its meaning.
    ///
    /// # Errors
    /// The protocol does not allow the frame here.
    pub(crate) fn handle_frame(&mut self, frame: PluginFrame) -> Result<ProtocolEvent, Violation> {
        let name = frame_name(&frame);
        if let PluginFrame::Hello(hello) = frame {
            return self.hello_received(hello);
        }
        if self.features.is_none() {
            return Err(Violation::BeforeHello { frame: name });
        }
        Ok(match frame {
            PluginFrame::Hello(_) => return Err(Violation::SecondHello),
            PluginFrame::Opened(opened) => return self.opened(opened),
            PluginFrame::Refused(refused) => {
                let instance = refused.instance;
                self.take_opening(name, instance)?;
                ProtocolEvent::Opened { instance, result: Err(refused.into()) }
            }
            PluginFrame::Event(sent) => {
                self.event(sent.call)?;
                call_event(sent.call, CallEvent::Agent(sent.event))
            }
            PluginFrame::Preview(request) => return self.preview_requested(request),
            PluginFrame::WriteCheck(request) => return self.write_check_requested(request),
            PluginFrame::TakeGuidance(request) => return self.guidance_requested(request),
            PluginFrame::Done(done) => return self.done(done),
            PluginFrame::Failed(failed) => {
                self.remove_open_call(name, failed.call)?;
                ended(failed.call, CallOutcome::Failed(failed.into()))
            }
            PluginFrame::Panicked(Panicked { call, message, location }) => {
                self.remove_open_call(name, call)?;
                let place = location.map(|place| format!(" at {place}")).unwrap_or_default();
                let message = format!("it panicked{place}: {message}");
                ended(call, CallOutcome::Panicked { message })
            }
            PluginFrame::Log(line) => ProtocolEvent::Log(line),
            PluginFrame::Pong(Pong { .. }) => ProtocolEvent::Pong,
        })
    }

    fn hello_received(&mut self, hello: PluginHello) -> Result<ProtocolEvent, Violation> {
        if self.features.is_some() {
            return Err(Violation::SecondHello);
        }
        if hello.protocol != PROTOCOL {
            return Err(Violation::OtherProtocol { theirs: hello.protocol });
        }
        if !is_display_name(&hello.name) {
            return Err(Violation::InvalidName { name: escaped(&hello.name) });
        }
        let mut seen = BTreeSet::new();
        for Item { kind, name, .. } in &hello.provides {
            if !is_item_name(name) {
                return Err(Violation::InvalidItemName { kind: kind.word(), name: escaped(name) });
            }
            if !seen.insert((*kind, name)) {
                return Err(Violation::DuplicateItem { kind: kind.word(), name: name.clone() });
            }
        }
        self.features = Some(hello.features.clone());
        self.has_sdk = hello.sdk.is_some();
        Ok(ProtocolEvent::Hello(hello))
    }

    fn take_opening(&mut self, frame: &'static str, instance: u64) -> Result<ItemKind, Violation> {
        self.opening.remove(&instance).ok_or(Violation::UnknownInstance { frame, instance })
    }

    fn opened(&mut self, opened: Opened) -> Result<ProtocolEvent, Violation> {
        let Opened { instance, provided } = opened;
        let requested = self.take_opening("opened", instance)?;
        if provided.kind() != requested {
            let (requested, got) = (with_article(requested), with_article(provided.kind()));
            return Err(Violation::OtherKind { instance, requested, got });
        }
        Ok(ProtocolEvent::Opened { instance, result: Ok(provided) })
    }

    /// Returns the open call that a frame refers to.
    fn open_call(&mut self, frame: &'static str, call: u64) -> Result<&mut OpenCall, Violation> {
        let known = (1..=self.last_call).contains(&call);
        self.calls.get_mut(&call).ok_or(if known {
            Violation::AfterEnd { frame, call }
        } else {
            Violation::UnknownCall { frame, call }
        })
    }

    fn event(&mut self, call: u64) -> Result<(), Violation> {
        let limited = self.has_feature(feature::CREDIT);
        let open = self.open_call("event", call)?;
        require_run("event", open.method)?;
        if limited {
            open.credit = open.credit.checked_sub(1).ok_or(Violation::NoCredit { call })?;
        }
        Ok(())
    }

    fn preview_requested(&mut self, frame: PreviewRequest) -> Result<ProtocolEvent, Violation> {
        let PreviewRequest { call, request, final_text } = frame;
        let open = self.open_call("preview", call)?;
        require_run("preview", open.method)?;
        if open.preview.replace(request).is_some() {
            return Err(Violation::PreviewPending { call });
        }
        Ok(call_event(call, CallEvent::PreviewRequested { request, final_text }))
    }

    fn write_check_requested(&mut self, frame: WriteCheck) -> Result<ProtocolEvent, Violation> {
        let WriteCheck { call, request, path } = frame;
        let open = self.open_call("write_check", call)?;
        if open.method != MethodName::FindSetupProblems {
            require_run("write_check", open.method)?;
        }
        if open.write_check.replace(request).is_some() {
            return Err(Violation::WriteCheckPending { call });
        }
        Ok(call_event(call, CallEvent::WriteCheckRequested { request, path }))
    }

    fn guidance_requested(&mut self, frame: TakeGuidance) -> Result<ProtocolEvent, Violation> {
        let TakeGuidance { call, request } = frame;
        let open = self.open_call("take_guidance", call)?;
        require_run("take_guidance", open.method)?;
        if open.guidance.replace(request).is_some() {
            return Err(Violation::GuidancePending { call });
        }
        Ok(call_event(call, CallEvent::GuidanceRequested { request }))
    }

    /// Returns the violation of a `done` that has no result of its call's method, of a frame that is invalid.
    pub(crate) fn missing_answer(&self, bytes: &[u8]) -> Option<Violation> {
        let frame: Value = serde_json::from_slice(bytes).ok()?;
        let call = frame.get("call")?.as_u64()?;
        let method = self.calls.get(&call)?.method;
        let is_missing =
            frame.get("frame")?.as_str()? == "done" && frame.get(method.answer_key()).is_none();
        is_missing.then_some(Violation::OtherAnswer { call, method })
    }

    fn done(&mut self, done: Done) -> Result<ProtocolEvent, Violation> {
        let Done { call, answer } = done;
        let method = self.open_call("done", call)?.method;
        if answer.method() != method {
            return Err(Violation::OtherAnswer { call, method });
        }
        self.calls.remove(&call);
        Ok(ended(call, CallOutcome::Done(answer)))
    }

    fn remove_open_call(&mut self, frame: &'static str, call: u64) -> Result<(), Violation> {
        self.open_call(frame, call)?;
        self.calls.remove(&call);
        Ok(())
    }
}

const fn call_event(call: u64, event: CallEvent) -> ProtocolEvent {
    ProtocolEvent::Call { call, event }
}

const fn ended(call: u64, outcome: CallOutcome) -> ProtocolEvent {
    call_event(call, CallEvent::Ended(outcome))
}

fn require_run(frame: &'static str, method: MethodName) -> Result<(), Violation> {
    match method {
        MethodName::Run => Ok(()),
        _ => Err(Violation::NotInThisCall { frame, method }),
    }
}

const fn frame_name(frame: &PluginFrame) -> &'static str {
    match frame {
        PluginFrame::Hello(_) => "hello",
        PluginFrame::Opened(_) => "opened",
        PluginFrame::Refused(_) => "refused",
        PluginFrame::Event(_) => "event",
        PluginFrame::Preview(_) => "preview",
        PluginFrame::WriteCheck(_) => "write_check",
        PluginFrame::TakeGuidance(_) => "take_guidance",
        PluginFrame::Done(_) => "done",
        PluginFrame::Failed(_) => "failed",
        PluginFrame::Panicked(_) => "panicked",
        PluginFrame::Log(_) => "log",
        PluginFrame::Pong(_) => "pong",
    }
}

#[cfg(test)]
mod tests;
