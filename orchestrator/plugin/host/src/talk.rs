//! The conversation with a plugin as a pure state machine over frames.
//!
//! It knows what was asked and what may be answered; no clock, no channel, no process.

use std::collections::BTreeMap;

use plugin_protocol::{
    Answer, Call, Cancel, Credit, Done, HostHello, ItemKind, Judge, JudgementGiven, LogLine,
    Method, MethodName, Open, Opened, PROTOCOL, Panicked, PluginFrame, PluginHello, Pong, Provided,
    WINDOW, feature,
};
use ralph_orchestrator_contract::{
    AgentError, BuildContext, BuildError, CancelReason, Event, Judgement,
};

use serde_json::Value;

use crate::violation::{Violation, a};

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// With an answer that belongs to its method.
    Done(Answer),
    /// By the plugin's own account.
    Failed(AgentError),
    /// The plugin's code panicked.
    Panicked {
        /// What it said, and where.
        message: String,
    },
    /// The conversation broke: the plugin is gone or broke the protocol. Says how.
    Broken(String),
}

/// What a frame means to the host.
#[derive(Debug)]
pub(crate) enum News {
    Hello(PluginHello),
    Opened { instance: u64, result: Result<Provided, BuildError> },
    Event { call: u64, event: Event },
    Judge { call: u64, ask: u64, final_text: Option<String> },
    Ended { call: u64, outcome: Outcome },
    Log(LogLine),
    Pong,
}

/// A call that was not answered yet.
#[derive(Clone, Copy, Debug)]
struct Ongoing {
    method: MethodName,
    /// So many events it may still send.
    credit: u32,
    /// The question that is open.
    asked: Option<u64>,
}

/// What was said so far, as far as it matters.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// What the plugin can do; nothing before its hello.
    features: Option<Vec<String>>,
    opening: BTreeMap<u64, ItemKind>,
    calls: BTreeMap<u64, Ongoing>,
    instances: u64,
    begun: u64,
}

impl Talk {
    /// The first frame.
    pub(crate) fn hello() -> HostHello {
        HostHello {
            protocol: PROTOCOL,
            host: concat!("ralph-orchestrator ", env!("CARGO_PKG_VERSION")).to_owned(),
            features: vec![feature::CREDIT.to_owned(), feature::PING.to_owned()],
            window: WINDOW,
            log: crate::log::wanted(),
        }
    }

    /// Whether both sides can do it.
    pub(crate) fn agreed(&self, feature: &str) -> bool {
        self.features.as_ref().is_some_and(|features| features.iter().any(|one| one == feature))
    }

    /// Whether a call waits for its answer.
    pub(crate) fn is_busy(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Begins to open an instance.
    pub(crate) fn open(
        &mut self,
        kind: ItemKind,
        name: Option<&str>,
        config: Value,
        context: &BuildContext,
    ) -> Open {
        self.instances += 1;
        self.opening.insert(self.instances, kind);
        let (instance, name) = (self.instances, name.map(str::to_owned));
        Open { instance, kind, name, config, context: context.clone() }
    }

    /// It was never sent.
    pub(crate) fn not_opened(&mut self, instance: u64) {
        self.opening.remove(&instance);
    }

    /// It was never sent.
    pub(crate) fn not_called(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    /// Begins a call.
    pub(crate) fn call(&mut self, instance: u64, method: Method) -> Call {
        self.begun += 1;
        let ongoing = Ongoing { method: method.name(), credit: WINDOW, asked: None };
        self.calls.insert(self.begun, ongoing);
        Call { call: self.begun, instance, method }
    }

    /// Asks for the end of a call, if it has none yet.
    pub(crate) fn cancel(&self, call: u64, reason: CancelReason, grace_ms: u64) -> Option<Cancel> {
        self.calls.contains_key(&call).then_some(Cancel { call, reason, grace_ms })
    }

    /// Answers a question, if it is still open.
    pub(crate) fn judgement(
        &mut self,
        call: u64,
        ask: u64,
        judgement: Judgement,
    ) -> Option<JudgementGiven> {
        let ongoing = self.calls.get_mut(&call)?;
        ongoing.asked.take_if(|asked| *asked == ask)?;
        Some(JudgementGiven { call, ask, judgement })
    }

    /// Grants credit for more events, if the call goes on and that is agreed on.
    pub(crate) fn credit(&mut self, call: u64, events: u32) -> Option<Credit> {
        if !self.agreed(feature::CREDIT) {
            return None;
        }
        let ongoing = self.calls.get_mut(&call)?;
        ongoing.credit = ongoing.credit.saturating_add(events).min(WINDOW);
        Some(Credit { call, events })
    }

    /// What a frame means.
    ///
    /// # Errors
    /// The protocol does not allow it here.
    pub(crate) fn take(&mut self, frame: PluginFrame) -> Result<News, Violation> {
        let name = word(&frame);
        if let PluginFrame::Hello(hello) = frame {
            return self.greeted(hello);
        }
        if self.features.is_none() {
            return Err(Violation::BeforeHello { frame: name });
        }
        Ok(match frame {
            PluginFrame::Hello(_) => return Err(Violation::SecondHello),
            PluginFrame::Opened(opened) => return self.opened(opened),
            PluginFrame::Refused(refused) => {
                let instance = refused.instance;
                self.opened_kind(name, instance)?;
                News::Opened { instance, result: Err(refused.into()) }
            }
            PluginFrame::Event(sent) => {
                self.event(sent.call)?;
                News::Event { call: sent.call, event: sent.event }
            }
            PluginFrame::Judge(judge) => return self.asked(judge),
            PluginFrame::Done(done) => return self.done(done),
            PluginFrame::Failed(failed) => {
                self.end(name, failed.call)?;
                News::Ended { call: failed.call, outcome: Outcome::Failed(failed.into()) }
            }
            PluginFrame::Panicked(Panicked { call, message, location }) => {
                self.end(name, call)?;
                let place = location.map(|place| format!(" at {place}")).unwrap_or_default();
                let message = format!("it panicked{place}: {message}");
                News::Ended { call, outcome: Outcome::Panicked { message } }
            }
            PluginFrame::Log(line) => News::Log(line),
            PluginFrame::Pong(Pong { .. }) => News::Pong,
        })
    }

    fn greeted(&mut self, hello: PluginHello) -> Result<News, Violation> {
        if self.features.is_some() {
            return Err(Violation::SecondHello);
        }
        if hello.protocol != PROTOCOL {
            return Err(Violation::OtherProtocol { theirs: hello.protocol });
        }
        self.features = Some(hello.features.clone());
        Ok(News::Hello(hello))
    }

    fn opened_kind(&mut self, frame: &'static str, instance: u64) -> Result<ItemKind, Violation> {
        self.opening.remove(&instance).ok_or(Violation::UnknownInstance { frame, instance })
    }

    fn opened(&mut self, opened: Opened) -> Result<News, Violation> {
        let Opened { instance, provided } = opened;
        let asked = self.opened_kind("opened", instance)?;
        if provided.kind() != asked {
            let (asked, got) = (a(asked), a(provided.kind()));
            return Err(Violation::OtherKind { instance, asked, got });
        }
        Ok(News::Opened { instance, result: Ok(provided) })
    }

    /// The call that a frame is about.
    fn ongoing(&mut self, frame: &'static str, call: u64) -> Result<&mut Ongoing, Violation> {
        let known = (1..=self.begun).contains(&call);
        self.calls.get_mut(&call).ok_or(if known {
            Violation::AfterEnd { frame, call }
        } else {
            Violation::UnknownCall { frame, call }
        })
    }

    fn event(&mut self, call: u64) -> Result<(), Violation> {
        let limited = self.agreed(feature::CREDIT);
        let ongoing = self.ongoing("event", call)?;
        running("event", ongoing.method)?;
        if limited {
            ongoing.credit = ongoing.credit.checked_sub(1).ok_or(Violation::NoCredit { call })?;
        }
        Ok(())
    }

    fn asked(&mut self, judge: Judge) -> Result<News, Violation> {
        let Judge { call, ask, final_text } = judge;
        let ongoing = self.ongoing("judge", call)?;
        running("judge", ongoing.method)?;
        if ongoing.asked.replace(ask).is_some() {
            return Err(Violation::AskedTwice { call });
        }
        Ok(News::Judge { call, ask, final_text })
    }

    fn done(&mut self, done: Done) -> Result<News, Violation> {
        let Done { call, answer } = done;
        let method = self.ongoing("done", call)?.method;
        if answer.method() != method {
            return Err(Violation::OtherAnswer { call, method });
        }
        self.calls.remove(&call);
        Ok(News::Ended { call, outcome: Outcome::Done(answer) })
    }

    fn end(&mut self, frame: &'static str, call: u64) -> Result<(), Violation> {
        self.ongoing(frame, call)?;
        self.calls.remove(&call);
        Ok(())
    }
}

fn running(frame: &'static str, method: MethodName) -> Result<(), Violation> {
    match method {
        MethodName::Run => Ok(()),
        _ => Err(Violation::NotInThisCall { frame, method }),
    }
}

const fn word(frame: &PluginFrame) -> &'static str {
    match frame {
        PluginFrame::Hello(_) => "hello",
        PluginFrame::Opened(_) => "opened",
        PluginFrame::Refused(_) => "refused",
        PluginFrame::Event(_) => "event",
        PluginFrame::Judge(_) => "judge",
        PluginFrame::Done(_) => "done",
        PluginFrame::Failed(_) => "failed",
        PluginFrame::Panicked(_) => "panicked",
        PluginFrame::Log(_) => "log",
        PluginFrame::Pong(_) => "pong",
    }
}

#[cfg(test)]
mod tests;
