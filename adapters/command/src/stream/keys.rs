//! The keys of `[agent.config.stream]`.

use std::collections::BTreeMap;

use ralph_orchestrator_contract::{BuildError, ErrorClass};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use super::path::ValuePath;
use super::units::{CostUnit, TimeUnit, UsedUnit};

/// What the JSON lines that the program prints mean.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamKeys {
    /// The rules. All that fit a line apply to it, in this order.
    #[schemars(length(min = 1))]
    pub(crate) rule: Vec<RuleKeys>,
}

/// Which lines a rule is for, and what they mean.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RuleKeys {
    /// The rule is for each value at this path. What it maps begins with `@`, which is that value; conditions may, too.
    pub(crate) each: Option<ValuePath>,
    /// The rule is for lines in which one of the values at each of these paths is the one given.
    #[schemars(with = "BTreeMap<String, Literal>")]
    pub(crate) when: BTreeMap<ValuePath, Literal>,
    /// The rule is for lines in which there is something other than null at each of these paths.
    pub(crate) has: Vec<ValuePath>,
    /// A new message begins: the text before it is not part of the final message.
    pub(crate) new_message: bool,
    /// The session's id.
    pub(crate) session: Option<ValuePath>,
    /// The model in use.
    pub(crate) model: Option<ValuePath>,
    /// A piece of the agent's own text. Without a `final_text` the pieces after the last tool are the final message.
    pub(crate) text: Option<ValuePath>,
    /// A piece of the agent's reasoning.
    pub(crate) thinking: Option<ValuePath>,
    /// The final message, in which claims are looked for. The last one counts.
    pub(crate) final_text: Option<ValuePath>,
    /// The agent calls a tool.
    #[schemars(with = "ToolCallKeys")]
    pub(crate) tool_call: Option<ToolCallKeys>,
    /// A tool has answered.
    #[schemars(with = "ToolResultKeys")]
    pub(crate) tool_result: Option<ToolResultKeys>,
    /// What was used. Several values at a path are added up.
    #[schemars(with = "UsageKeys")]
    pub(crate) usage: Option<UsageKeys>,
    /// How full the context is.
    #[schemars(with = "ContextKeys")]
    pub(crate) context: Option<ContextKeys>,
    /// How much of a rate window of the provider is used.
    #[schemars(with = "RateWindowKeys")]
    pub(crate) rate_window: Option<RateWindowKeys>,
    /// A question to a human, as the agent's claim that it needs one.
    pub(crate) question: Option<ValuePath>,
    /// The agent cannot work, unless a line with `end` follows.
    #[schemars(with = "FailureKeys")]
    pub(crate) failure: Option<FailureKeys>,
    /// The agent is done: its process should exit. If any rule has this, output without such a line is a failed iteration.
    pub(crate) end: bool,
}

/// A value that a condition compares with.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a string, a number, true or false; quote a path with dots, as in \"$.delta.type\""
)]
pub(crate) enum Literal {
    Bool(bool),
    Number(Number),
    Text(String),
}

/// A path, or the value itself.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum PathOr<T> {
    Path(ValuePath),
    Value(T),
}

/// The parts of a tool's call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolCallKeys {
    /// What joins the call with its result.
    pub(crate) id: Option<ValuePath>,
    /// The tool's name.
    pub(crate) name: ValuePath,
    /// Its arguments.
    pub(crate) input: Option<ValuePath>,
}

/// The parts of a tool's result.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolResultKeys {
    /// What joins the result with its call.
    pub(crate) id: Option<ValuePath>,
    /// The result; what is no string is shown as JSON.
    pub(crate) text: Option<ValuePath>,
    /// Whether the tool failed: a path, true or false.
    pub(crate) is_error: Option<PathOr<bool>>,
}

/// What was used.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsageKeys {
    /// What the figures count.
    pub(crate) counts: Counts,
    /// Input tokens.
    pub(crate) input: Option<ValuePath>,
    /// Output tokens.
    pub(crate) output: Option<ValuePath>,
    /// Input tokens read from the cache.
    pub(crate) cache_read: Option<ValuePath>,
    /// Input tokens written to the cache.
    pub(crate) cache_write: Option<ValuePath>,
    /// `input` includes those of the cache, which are taken off it.
    #[serde(default)]
    pub(crate) input_includes_cache: bool,
    /// The cost.
    pub(crate) cost: Option<ValuePath>,
    /// The unit of the cost.
    #[serde(default)]
    pub(crate) cost_unit: CostUnit,
}

/// What figures count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Counts {
    /// What this message used: they are added up.
    PerMessage,
    /// What the session used so far: the largest counts.
    Cumulative,
}

/// How full the context is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContextKeys {
    /// The tokens in it.
    pub(crate) used: ValuePath,
    /// The tokens that it can hold: a path, or their number.
    pub(crate) window: Option<PathOr<u64>>,
}

/// How much of a rate window is used.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateWindowKeys {
    /// Its name, in lower case letters, digits and `_`: a key of `limits.max_window`.
    #[schemars(regex(pattern = "^[a-z0-9_]{1,64}$"))]
    pub(crate) name: String,
    /// How much of it is used.
    pub(crate) used: ValuePath,
    /// The unit of `used`.
    pub(crate) used_unit: UsedUnit,
    /// When it is reset.
    pub(crate) reset: Option<ValuePath>,
    /// The unit of `reset`.
    #[serde(default)]
    #[schemars(with = "TimeUnit")]
    pub(crate) reset_unit: Option<TimeUnit>,
}

/// Why the agent cannot work.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailureKeys {
    /// The kind of failure. Found out from the message by default.
    pub(crate) class: Option<FailureClass>,
    /// What the agent says about it.
    pub(crate) message: Option<ValuePath>,
    /// When the provider takes requests again, if it refuses them for now.
    pub(crate) reset: Option<ValuePath>,
    /// The unit of `reset`.
    #[serde(default)]
    #[schemars(with = "TimeUnit")]
    pub(crate) reset_unit: Option<TimeUnit>,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureClass {
    RateLimited,
    Overloaded,
    Unauthenticated,
    Billing,
    InvalidRequest,
    NotFound,
    ContextExceeded,
    AgentLimit,
    Crashed,
    TimedOut,
}

impl FailureClass {
    /// Returns the class of an error, with when requests are accepted again.
    pub(crate) const fn to_error_class(self, until_ms: Option<u64>) -> ErrorClass {
        match self {
            Self::RateLimited => ErrorClass::RateLimited { until_ms },
            Self::Overloaded => ErrorClass::Overloaded,
            Self::Unauthenticated => ErrorClass::Unauthenticated,
            Self::Billing => ErrorClass::Billing,
            Self::InvalidRequest => ErrorClass::InvalidRequest,
            Self::NotFound => ErrorClass::NotFound,
            Self::ContextExceeded => ErrorClass::ContextExceeded,
            Self::AgentLimit => ErrorClass::AgentLimit,
            Self::Crashed => ErrorClass::Crashed,
            Self::TimedOut => ErrorClass::TimedOut,
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for PathOr<T> {
    /// An untagged enum would not say what is wrong with a path.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => text.parse().map(Self::Path).map_err(D::Error::custom),
            other => T::deserialize(other).map(Self::Value).map_err(D::Error::custom),
        }
    }
}

impl<T> PathOr<T> {
    fn path(&self) -> Option<&ValuePath> {
        match self {
            Self::Path(path) => Some(path),
            Self::Value(_) => None,
        }
    }
}

/// A key within a rule, and the path that it has.
type KeyPath<'a> = (&'static [&'static str], Option<&'a ValuePath>);

/// A key within a rule, none for the whole of it, and what is wrong there.
type RuleMistake = (&'static [&'static str], String);

impl StreamKeys {
    /// Checks what the types of the keys leave open.
    ///
    /// # Errors
    /// The first mistake, with its key below `[agent.config]`.
    pub(crate) fn validate(&self) -> Result<(), BuildError> {
        if self.rule.is_empty() {
            let message = "expected at least one rule, as [[agent.config.stream.rule]]";
            return Err(error_at(&["rule"], message));
        }
        for (index, rule) in self.rule.iter().enumerate() {
            rule.validate().map_err(|(key, message)| {
                let index = index.to_string();
                error_at(&[&["rule", &*index], key].concat(), message)
            })?;
        }
        Ok(())
    }
}

fn error_at(key: &[&str], message: impl Into<String>) -> BuildError {
    let key = ["stream"].iter().chain(key).map(|part| (*part).to_owned()).collect();
    BuildError { key, unknown_key: None, message: message.into() }
}

impl RuleKeys {
    fn validate(&self) -> Result<(), RuleMistake> {
        let is_constant = [
            ("new_message", self.new_message),
            ("end", self.end),
            ("failure", self.failure.is_some()),
        ];
        let is_for_all = self.when.is_empty() && self.has.is_empty() && self.each.is_none();
        let maps = self.mapped_paths();
        if maps.iter().all(|(_, path)| path.is_none()) && is_constant.iter().all(|(_, set)| !set) {
            return Err((&[], "this rule maps nothing: give it a key such as `text`".to_owned()));
        }
        for (key, set) in is_constant {
            if set && is_for_all {
                let message =
                    format!("`{key}` would hold for every line: give the rule `when` or `has`");
                return Err((&[], message));
            }
        }
        self.validate_elements(&maps)?;
        self.validate_parts()
    }

    /// Checks that what is mapped belongs to the value of `each` if, and only if, there is one: a figure of the whole line
    /// would count as often as there are values.
    fn validate_elements(&self, maps: &[KeyPath<'_>]) -> Result<(), RuleMistake> {
        let is_of_element = |path: &ValuePath| path.is_of_element();
        let mapped = |wrong: &dyn Fn(&ValuePath) -> bool| {
            maps.iter().find_map(|(key, path)| Some((*key, path.filter(|path| wrong(path))?)))
        };
        if let Some(each) = &self.each {
            if is_of_element(each) {
                return Err((&["each"], format!("`{each}` has to begin with `$`, the whole line")));
            }
            let advice = "begin it with `@`, or give it a rule without `each`";
            return match mapped(&|path| !is_of_element(path)) {
                None => Ok(()),
                Some((key, path)) => {
                    Err((key, format!("`{path}` would be read again for each value: {advice}")))
                }
            };
        }
        let condition = |key, path: Option<_>| path.map(|path| (key, path));
        let found = condition(&["when"][..], self.when.keys().find(|path| is_of_element(path)))
            .or_else(|| condition(&["has"][..], self.has.iter().find(|path| is_of_element(path))))
            .or_else(|| mapped(&is_of_element));
        let advice = "set `each`, or begin the path with `$`";
        found.map_or(Ok(()), |(key, path)| {
            let message =
                format!("`{path}` begins with `@`, the value that `each` has found: {advice}");
            Err((key, message))
        })
    }

    fn validate_parts(&self) -> Result<(), RuleMistake> {
        let unit = "say its unit in `reset_unit`".to_owned();
        if let Some(window) = &self.rate_window {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let is_name = (1..=64).contains(&window.name.len());
            if !is_name || !window.name.chars().all(is_plain) {
                let message =
                    "expected up to 64 lower case letters, digits and `_`, such as \"five_hour\"";
                return Err((&["rate_window", "name"], message.to_owned()));
            }
            if window.reset.is_some() && window.reset_unit.is_none() {
                return Err((&["rate_window", "reset"], unit));
            }
        }
        match &self.failure {
            Some(failure) if failure.reset.is_some() && failure.reset_unit.is_none() => {
                Err((&["failure", "reset"], unit))
            }
            _ => Ok(()),
        }
    }

    /// Returns every path by which something is mapped, with its key.
    fn mapped_paths(&self) -> Vec<KeyPath<'_>> {
        let (call, result) = (self.tool_call.as_ref(), self.tool_result.as_ref());
        let (usage, context) = (self.usage.as_ref(), self.context.as_ref());
        let (window, failure) = (self.rate_window.as_ref(), self.failure.as_ref());
        vec![
            (&["session"], self.session.as_ref()),
            (&["model"], self.model.as_ref()),
            (&["text"], self.text.as_ref()),
            (&["thinking"], self.thinking.as_ref()),
            (&["final_text"], self.final_text.as_ref()),
            (&["question"], self.question.as_ref()),
            (&["tool_call", "id"], call.and_then(|call| call.id.as_ref())),
            (&["tool_call", "name"], call.map(|call| &call.name)),
            (&["tool_call", "input"], call.and_then(|call| call.input.as_ref())),
            (&["tool_result", "id"], result.and_then(|result| result.id.as_ref())),
            (&["tool_result", "text"], result.and_then(|result| result.text.as_ref())),
            (
                &["tool_result", "is_error"],
                result.and_then(|result| result.is_error.as_ref()?.path()),
            ),
            (&["usage", "input"], usage.and_then(|usage| usage.input.as_ref())),
            (&["usage", "output"], usage.and_then(|usage| usage.output.as_ref())),
            (&["usage", "cache_read"], usage.and_then(|usage| usage.cache_read.as_ref())),
            (&["usage", "cache_write"], usage.and_then(|usage| usage.cache_write.as_ref())),
            (&["usage", "cost"], usage.and_then(|usage| usage.cost.as_ref())),
            (&["context", "used"], context.map(|context| &context.used)),
            (&["context", "window"], context.and_then(|context| context.window.as_ref()?.path())),
            (&["rate_window", "used"], window.map(|window| &window.used)),
            (&["rate_window", "reset"], window.and_then(|window| window.reset.as_ref())),
            (&["failure", "message"], failure.and_then(|failure| failure.message.as_ref())),
            (&["failure", "reset"], failure.and_then(|failure| failure.reset.as_ref())),
        ]
    }
}

impl UsageKeys {
    /// Returns whether it has any figure in tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        [&self.input, &self.output, &self.cache_read, &self.cache_write]
            .iter()
            .any(|path| path.is_some())
    }
}
