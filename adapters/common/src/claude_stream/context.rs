//! How full the main conversation's context is.

use ralph_orchestrator_contract::Event;
use serde_json::Value;

use crate::claude_stream::message::{Assistant, Compaction, Outcome, WireUsage};

/// What the suffix of a model's name promises.
const LARGE: (&str, u64) = ("[1m]", 1_000_000);
/// The name of messages that the agent wrote itself.
const SYNTHETIC: &str = "<synthetic>";

/// How full a context is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Tokens in it.
    pub used: u64,
    /// Tokens it can hold, if known.
    pub window: Option<u64>,
}

impl Context {
    /// The share that is used, if the window is known.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let window = self.window.filter(|window| *window > 0)?;
        // Counts of tokens are far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        Some(self.used as f64 / window as f64)
    }
}

/// Follows the context of the main conversation. What is in it is what the last request to the model
/// read: that is what Claude Code counts, too.
#[derive(Debug, Default)]
pub(crate) struct ContextMeter {
    used: Option<u64>,
    /// What the agent said when asked.
    answered: Option<u64>,
    /// What a result said.
    told: Option<u64>,
    /// What the model's name says.
    named: Option<u64>,
    /// The model of the session, and of its last message.
    model: Option<String>,
    answering: Option<String>,
    shown: Option<Context>,
}

impl ContextMeter {
    pub(crate) fn now(&self) -> Option<Context> {
        let window = self.answered.or(self.told).or(self.named);
        self.used.map(|used| Context { used, window })
    }

    pub(crate) fn init(&mut self, model: Option<&str>) {
        let Some(model) = model else { return };
        self.named = model.ends_with(LARGE.0).then_some(LARGE.1);
        let before = self.model.replace(model.to_owned());
        if before.is_some_and(|before| before != model) {
            // The answers were about another model.
            self.answered = None;
            self.told = None;
        }
    }

    pub(crate) fn set_window(&mut self, tokens: u64) -> Option<Event> {
        self.answered = Some(tokens).filter(|tokens| *tokens > 0);
        self.changed()
    }

    pub(crate) fn assistant(&mut self, message: &Assistant) -> Option<Event> {
        let synthetic = message.model.as_deref() == Some(SYNTHETIC);
        if message.parent.is_some() || synthetic {
            return None;
        }
        self.read(message.usage?, message.model.as_deref())
    }

    /// The same for an event of the model's own stream, of the main conversation.
    pub(crate) fn stream(&mut self, event: &Value) -> Option<Event> {
        if event.get("type")?.as_str()? != "message_start" {
            return None;
        }
        let message = event.get("message")?;
        let usage = serde_json::from_value(message.get("usage")?.clone()).ok()?;
        self.read(usage, message.get("model").and_then(Value::as_str))
    }

    fn read(&mut self, usage: WireUsage, model: Option<&str>) -> Option<Event> {
        let tokens = usage.tokens();
        let used =
            tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
        if used == 0 {
            return None;
        }
        self.used = Some(used);
        if let Some(model) = model {
            self.answering = Some(model.to_owned());
        }
        self.changed()
    }

    pub(crate) fn compacted(&mut self, compaction: &Compaction) -> Option<Event> {
        self.used = Some(compaction.post_tokens.unwrap_or_default());
        self.changed()
    }

    pub(crate) fn result(&mut self, outcome: &Outcome) -> Option<Event> {
        let told = self.window_in(outcome).filter(|window| *window > 0);
        self.told = told.or(self.told);
        self.changed()
    }

    fn window_in(&self, outcome: &Outcome) -> Option<u64> {
        let models = &outcome.model_usage;
        let named = |name: &Option<String>| models.get(name.as_ref()?);
        named(&self.model)
            .or_else(|| named(&self.answering))
            .or_else(|| models.values().next().filter(|_| models.len() == 1))?
            .context_window
    }

    fn changed(&mut self) -> Option<Event> {
        let now = self.now()?;
        if self.shown == Some(now) {
            return None;
        }
        self.shown = Some(now);
        Some(Event::Context { used: now.used, window: now.window })
    }
}
