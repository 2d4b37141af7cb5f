//! Reads a line by rules. Knows nothing of the lines before it.

use jiff::Timestamp;
use ralph_adapter_common::error_text::classify;
use ralph_adapter_common::json::bounded;
use ralph_orchestrator_contract::{BuildError, Capabilities, ErrorClass, Tokens, Usage, Usd};
use ralph_orchestrator_text::plain_line;
use serde_json::Value;

use super::finding::{Finding, Found};
use super::keys::{
    ContextKeys, FailureKeys, Literal, PathOr, RateWindowKeys, RuleKeys, StreamKeys, ToolCallKeys,
    ToolResultKeys, UsageKeys,
};
use super::path::{Scope, Selection, ValuePath};
use super::units::{TimeUnit, tokens};

/// How much of a value a mismatch quotes, in characters.
const QUOTED_MAX: usize = 60;

/// Says what a string means.
type MakeFinding = fn(String) -> Finding;

/// The rules of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Rules(Vec<RuleKeys>);

impl Rules {
    /// Creates the rules that these keys describe.
    ///
    /// # Errors
    /// The first mistake, with its key below `[agent.config]`.
    pub(crate) fn new(keys: StreamKeys) -> Result<Self, BuildError> {
        keys.validate()?;
        Ok(Self(keys.rule))
    }

    /// Returns how many rules there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns whether a rule says when the agent is done.
    pub(crate) fn have_end(&self) -> bool {
        self.0.iter().any(|rule| rule.end)
    }

    /// Returns what an agent reports by these rules.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let any = |has: fn(&RuleKeys) -> bool| self.0.iter().any(has);
        Capabilities {
            cost: any(|rule| rule.usage.as_ref().is_some_and(|usage| usage.cost.is_some())),
            tokens: any(|rule| rule.usage.as_ref().is_some_and(UsageKeys::has_tokens)),
            context: any(|rule| rule.context.is_some()),
            rate_windows: any(|rule| rule.rate_window.is_some()),
            tool_calls: any(|rule| rule.tool_call.is_some()),
            ..Capabilities::default()
        }
    }

    /// Returns what the rules make of a line, in their order; nothing if none is for it.
    pub(crate) fn read(&self, line: &Value) -> Vec<Found> {
        let now_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        let mut found = Vec::new();
        for (rule, number) in self.0.iter().zip(1..) {
            let mut reader = RuleReader {
                scope: Scope { line, element: line },
                now_ms,
                rule: number,
                found: &mut found,
            };
            match &rule.each {
                None => reader.read_element(rule),
                Some(each) => {
                    for element in reader.select("each", each) {
                        reader.scope.element = element;
                        reader.read_element(rule);
                    }
                }
            }
        }
        found
    }
}

/// Reads a line, or an element of it, by one rule.
struct RuleReader<'a, 'f> {
    scope: Scope<'a>,
    now_ms: u64,
    rule: usize,
    found: &'f mut Vec<Found>,
}

impl<'a> RuleReader<'a, '_> {
    fn read_element(&mut self, rule: &RuleKeys) {
        if !self.fits(rule) {
            return;
        }
        if rule.new_message {
            self.push("new_message", Finding::NewMessage);
        }
        self.read_strings(rule);
        if let Some(keys) = &rule.tool_call {
            self.read_tool_call(keys);
        }
        if let Some(keys) = &rule.tool_result {
            self.read_tool_result(keys);
        }
        if let Some(keys) = &rule.usage {
            self.read_usage(keys);
        }
        if let Some(keys) = &rule.context {
            self.read_context(keys);
        }
        if let Some(keys) = &rule.rate_window {
            self.read_rate_window(keys);
        }
        if rule.end {
            self.push("end", Finding::End);
        }
        if let Some(keys) = &rule.failure {
            self.read_failure(keys);
        }
    }

    fn fits(&self, rule: &RuleKeys) -> bool {
        let is_equal = |(path, literal): (&ValuePath, &Literal)| {
            path.select(self.scope).values.into_iter().any(|value| literal.is_equal(value))
        };
        rule.when.iter().all(is_equal)
            && rule.has.iter().all(|path| !path.select(self.scope).values.is_empty())
    }

    fn read_strings(&mut self, rule: &RuleKeys) {
        if let Some(id) = self.id("session", rule.session.as_ref()) {
            self.push("session", Finding::Session(id));
        }
        let pieces: [(_, _, MakeFinding); 4] = [
            ("model", &rule.model, Finding::Model),
            ("thinking", &rule.thinking, Finding::Thinking),
            ("text", &rule.text, Finding::Text),
            ("question", &rule.question, Finding::Question),
        ];
        for (key, path, finding) in pieces {
            for text in self.strings(key, path.as_ref()) {
                self.push(key, finding(text));
            }
        }
        let texts = self.strings("final_text", rule.final_text.as_ref());
        if !texts.is_empty() {
            self.push("final_text", Finding::FinalText(texts.concat()));
        }
    }

    fn read_tool_call(&mut self, keys: &ToolCallKeys) {
        let id = self.id("tool_call.id", keys.id.as_ref());
        let input = keys.input.as_ref().and_then(|path| self.first("tool_call.input", path));
        if let Some(name) = self.string("tool_call.name", Some(&keys.name)) {
            let (id, input) = (id.unwrap_or_default(), input.cloned().unwrap_or_default());
            self.push("tool_call", Finding::ToolCall { id, name, input });
        }
    }

    fn read_tool_result(&mut self, keys: &ToolResultKeys) {
        let id = self.id("tool_result.id", keys.id.as_ref());
        let value = keys.text.as_ref().and_then(|path| self.first("tool_result.text", path));
        let is_error = match &keys.is_error {
            None => false,
            Some(PathOr::Value(is_error)) => *is_error,
            Some(PathOr::Path(path)) => {
                let truth = self.one("tool_result.is_error", path, "true or false", Value::as_bool);
                truth.unwrap_or(false)
            }
        };
        if id.is_none() && value.is_none() {
            return;
        }
        let text = match value {
            None => String::new(),
            Some(Value::String(text)) => bounded(text),
            Some(other) => bounded(&other.to_string()),
        };
        let id = id.unwrap_or_default();
        self.push("tool_result", Finding::ToolResult { id, is_error, text });
    }

    /// Reads each figure by itself: one that is wrong costs no other.
    fn read_usage(&mut self, keys: &UsageKeys) {
        let mut figures = [
            ("usage.input", &keys.input),
            ("usage.output", &keys.output),
            ("usage.cache_read", &keys.cache_read),
            ("usage.cache_write", &keys.cache_write),
        ]
        .map(|(key, path)| self.sum_tokens(key, path.as_ref()));
        if let [Some(input), _, read, write] = &mut figures
            && keys.input_includes_cache
        {
            let cached = read.unwrap_or(0).saturating_add(write.unwrap_or(0));
            *input = input.saturating_sub(cached);
        }
        let tokens = figures.iter().any(Option::is_some).then(|| {
            let [input, output, cache_read, cache_write] = figures.map(Option::unwrap_or_default);
            Tokens { input, output, cache_read, cache_write }
        });
        let expected = "an amount that is not negative";
        let costs = self
            .all("usage.cost", keys.cost.as_ref(), expected, |value| keys.cost_unit.cost(value));
        let cost = (!costs.is_empty()).then(|| costs.into_iter().sum::<Usd>());
        if tokens.is_some() || cost.is_some() {
            let usage = Usage { tokens, cost, estimated: false };
            self.push("usage", Finding::Usage { counts: keys.counts, usage });
        }
    }

    fn read_context(&mut self, keys: &ContextKeys) {
        let window = match &keys.window {
            None => None,
            Some(PathOr::Value(window)) => Some(*window),
            Some(PathOr::Path(path)) => self.sum_tokens("context.window", Some(path)),
        };
        if let Some(used) = self.sum_tokens("context.used", Some(&keys.used)) {
            self.push("context", Finding::Context { used, window });
        }
    }

    fn read_rate_window(&mut self, keys: &RateWindowKeys) {
        let reset = (keys.reset.as_ref(), keys.reset_unit);
        let resets_at_ms = self.moment("rate_window.reset", reset);
        let share = |value: &Value| keys.used_unit.share(value);
        let expected = "a number that is not negative";
        if let Some(used) = self.one("rate_window.used", &keys.used, expected, share) {
            let name = keys.name.clone();
            self.push("rate_window", Finding::RateWindow { name, used, resets_at_ms });
        }
    }

    fn read_failure(&mut self, keys: &FailureKeys) {
        let message = self.string("failure.message", keys.message.as_ref()).unwrap_or_default();
        let until = self.moment("failure.reset", (keys.reset.as_ref(), keys.reset_unit));
        let class = match (keys.class, classify(&message)) {
            (None, ErrorClass::RateLimited { until_ms }) => {
                ErrorClass::RateLimited { until_ms: until.or(until_ms) }
            }
            (None, class) => class,
            // The message may name the moment in words.
            (Some(class), ErrorClass::RateLimited { until_ms }) => {
                class.to_error_class(until.or(until_ms))
            }
            (Some(class), _) => class.to_error_class(until),
        };
        self.push("failure", Finding::Failure { class, message });
    }

    fn strings(&mut self, key: &'static str, path: Option<&ValuePath>) -> Vec<String> {
        self.all(key, path, "a string", |value| value.as_str().map(str::to_owned))
    }

    fn string(&mut self, key: &'static str, path: Option<&ValuePath>) -> Option<String> {
        self.one(key, path?, "a string", |value| value.as_str().map(str::to_owned))
    }

    fn id(&mut self, key: &'static str, path: Option<&ValuePath>) -> Option<String> {
        self.one(key, path?, "a string or a number", |value| match value {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        })
    }

    fn sum_tokens(&mut self, key: &'static str, path: Option<&ValuePath>) -> Option<u64> {
        let expected = "a whole number that is not negative";
        self.all(key, path, expected, tokens).into_iter().reduce(u64::saturating_add)
    }

    fn moment(
        &mut self,
        key: &'static str,
        (path, unit): (Option<&ValuePath>, Option<TimeUnit>),
    ) -> Option<u64> {
        let (unit, now_ms) = (unit?, self.now_ms);
        self.one(key, path?, "a time in the unit of `reset_unit`", |value| {
            unit.moment(value, now_ms)
        })
    }

    /// Returns the first value at a path, if it can be converted.
    fn one<T>(
        &mut self,
        key: &'static str,
        path: &ValuePath,
        expected: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.first(key, path)?;
        self.convert(key, path, expected, value, convert)
    }

    /// Returns the values at a path that can be converted.
    fn all<T>(
        &mut self,
        key: &'static str,
        path: Option<&ValuePath>,
        expected: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Vec<T> {
        let Some(path) = path else { return Vec::new() };
        let values = self.select(key, path).into_iter();
        values.filter_map(|value| self.convert(key, path, expected, value, &convert)).collect()
    }

    fn convert<T>(
        &mut self,
        key: &'static str,
        path: &ValuePath,
        expected: &str,
        value: &Value,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let converted = convert(value);
        if converted.is_none() {
            let quoted = plain_line(&value.to_string(), QUOTED_MAX);
            let message = format!("expected {expected} at `{path}`, found {quoted}");
            self.push(key, Finding::Mismatch(message));
        }
        converted
    }

    fn first(&mut self, key: &'static str, path: &ValuePath) -> Option<&'a Value> {
        self.select(key, path).into_iter().next()
    }

    fn select(&mut self, key: &'static str, path: &ValuePath) -> Vec<&'a Value> {
        let Selection { values, is_cut } = path.select(self.scope);
        if is_cut {
            let message = format!("`{path}` has too many values in one line: the rest is not read");
            self.push(key, Finding::Mismatch(message));
        }
        values
    }

    fn push(&mut self, key: &'static str, finding: Finding) {
        self.found.push(Found { rule: self.rule, key, finding });
    }
}

impl Literal {
    fn is_equal(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Bool(expected), Value::Bool(value)) => expected == value,
            (Self::Text(expected), Value::String(value)) => expected == value,
            // 1 and 1.0 are the same.
            (Self::Number(expected), Value::Number(value)) => {
                expected == value
                    || (expected.as_f64() == value.as_f64()
                        && (expected.is_f64() || value.is_f64()))
            }
            _ => false,
        }
    }
}
