//! Counting tokens while the agent runs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ralph_orchestrator_contract::{Tokens, Usage, Usd};
use serde_json::Value;

use crate::claude_stream::message::{Assistant, ModelUsage, Outcome, WireUsage};
use crate::claude_stream::text::bounded;

/// Ids are kept for the whole iteration; real ones are 36 bytes at most.
const MAX_ID: usize = 128;

/// Sums the usage of the messages seen so far.
///
/// A message's usage comes with each of its lines, so it is kept by the message's id. Its output
/// figure is a placeholder until the end: what is summed is an estimate from below.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    by_message: BTreeMap<String, Tokens>,
    /// The message now being streamed, by the tool call whose subagent it belongs to.
    streaming: BTreeMap<Option<String>, String>,
    sum: Tokens,
    /// The most that results told: a process may take several turns, each with a result of its own.
    told: Usage,
}

impl Meter {
    /// The sum so far, if this line changed it.
    pub(crate) fn assistant(&mut self, message: &Assistant) -> Option<Tokens> {
        let usage = message.usage?;
        self.record(message.id.as_deref().unwrap_or_default(), usage.tokens())
    }

    /// The same for an event of the model's own stream: it brings the true output figure.
    pub(crate) fn stream(&mut self, event: &Value, parent: Option<String>) -> Option<Tokens> {
        let usage =
            |value: &Value| serde_json::from_value::<WireUsage>(value.get("usage")?.clone()).ok();
        match event.get("type")?.as_str()? {
            "message_start" => {
                let message = event.get("message")?;
                let id = message.get("id")?.as_str()?.to_owned();
                self.streaming.insert(parent, id.clone());
                self.record(&id, usage(message)?.tokens())
            }
            "message_delta" => {
                let id = self.streaming.get(&parent)?.clone();
                self.record(&id, usage(event)?.tokens())
            }
            _ => None,
        }
    }

    /// The whole usage, if this cost is more than was known.
    pub(crate) fn cost(&mut self, cost: Usd) -> Option<Usage> {
        let more = cost > Usd::ZERO && self.told.cost.is_none_or(|told| cost > told);
        more.then(|| {
            self.told.cost = Some(cost);
            self.estimate()
        })
    }

    fn record(&mut self, id: &str, tokens: Tokens) -> Option<Tokens> {
        let id: Cow<'_, str> =
            if id.len() > MAX_ID { bounded(id, MAX_ID).into() } else { id.into() };
        // Nearly always the message of the line before.
        if !self.by_message.contains_key(&*id) {
            self.by_message.insert(id.clone().into_owned(), Tokens::default());
        }
        let known = self.by_message.get_mut(&*id)?;
        let larger = known.max(tokens);
        if larger == *known {
            return None;
        }
        self.sum += difference(larger, *known);
        *known = larger;
        Some(self.told.tokens.map_or(self.sum, |told| told.max(self.sum)))
    }

    /// The usage of the whole, as far as it is known without a result.
    pub(crate) fn estimate(&self) -> Usage {
        self.told.max(Usage { tokens: self.seen(), ..Usage::default() })
    }

    /// The usage of the whole: what the result says, but never less than what was seen and told.
    pub(crate) fn settle(&self, outcome: &Outcome) -> Usage {
        self.told.max(self.settled(outcome))
    }

    /// The same, once this result has come: later figures are never less.
    pub(crate) fn result(&mut self, outcome: &Outcome) -> Usage {
        self.told = self.settle(outcome);
        self.told
    }

    fn seen(&self) -> Option<Tokens> {
        (!self.by_message.is_empty()).then_some(self.sum)
    }

    fn settled(&self, outcome: &Outcome) -> Usage {
        let seen = self.seen().filter(|seen| seen.total() > 0);
        let cost = outcome.total_cost_usd.and_then(Usd::from_dollars);
        // The figures leave an interrupted call out. When there was no other, nothing is known.
        let interrupted = outcome.terminal_reason.as_deref() == Some("aborted_streaming");
        let counted = cost != Some(Usd::ZERO) || !outcome.model_usage.is_empty();
        if !counted && (interrupted || seen.is_some()) {
            return Usage { tokens: seen, ..Usage::default() };
        }
        let by_model = outcome.model_usage.values().map(ModelUsage::tokens).reduce(|a, b| a + b);
        let told = by_model.or_else(|| outcome.usage.map(|usage| usage.tokens()));
        let tokens = match (told, seen) {
            (Some(told), Some(seen)) => Some(told.max(seen)),
            (told, seen) => told.or(seen),
        };
        Usage { tokens, cost, estimated: false }
    }
}

fn difference(larger: Tokens, smaller: Tokens) -> Tokens {
    Tokens {
        input: larger.input.saturating_sub(smaller.input),
        output: larger.output.saturating_sub(smaller.output),
        cache_read: larger.cache_read.saturating_sub(smaller.cache_read),
        cache_write: larger.cache_write.saturating_sub(smaller.cache_write),
    }
}
