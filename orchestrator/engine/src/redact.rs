//! Keeping secrets out of what is stored and shown.
//!
//! A secret is found as it is, escaped, percent-encoded, in base64 and in hexadecimal digits, also when
//! it is spread over lines; and so is what a cut has left of it at the end or the beginning of a text
//! or line.

mod canonical;
mod filter;
mod finder;
mod forms;
pub(super) mod stream;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ralph_orchestrator_config::Env;
use ralph_orchestrator_contract::{AgentError, Event, Report};
use ralph_orchestrator_machine::{Input, Validation};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use finder::{Edges, Finder};

/// What replaces a secret.
const MASK: &str = "***";

/// Removes the secrets of a run: the values of variables that `[env] pass` and `set` hand over, unless they are known
/// to be harmless, of those whose names mark them as secrets, and passwords in URLs.
#[derive(Clone, Default)]
pub struct Redactor {
    /// `None` if there are no secrets.
    finder: Option<Arc<Finder>>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({:?})", self.finder)
    }
}

impl Redactor {
    /// Returns a redactor for the secrets among these variables and those of `[env] set`.
    #[must_use]
    pub fn new<'a>(env: &'a Env, vars: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let all = env.set.iter().chain(vars);
        Self::from_values(all.flat_map(|(name, value)| {
            let whole = env.is_secret(name).then_some(value.as_str());
            whole.into_iter().chain(url_password(value))
        }))
    }

    fn from_values<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        Self { finder: Finder::new(values).map(Arc::new) }
    }

    /// Returns whether nothing is secret.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// Returns the text without secrets.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(finder) = &self.finder else { return Cow::Borrowed(text) };
        let found = finder.find(text, Edges::OPEN);
        if found.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(masked(text, &found)) }
    }

    /// Whether there is a secret in this.
    #[must_use]
    pub fn has_secret(&self, bytes: &[u8]) -> bool {
        self.bytes(bytes) != bytes
    }

    /// Returns the bytes without secrets. Where there are any, what is no text is replaced.
    #[must_use]
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_empty() {
            return Cow::Borrowed(bytes);
        }
        match self.text(&String::from_utf8_lossy(bytes)) {
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
        }
    }

    /// Returns the value without secrets in any of its texts.
    #[must_use]
    pub fn redact<T: Serialize + DeserializeOwned>(&self, whole: T) -> T {
        if self.finder.is_none() {
            return whole;
        }
        let Ok(mut value) = serde_json::to_value(&whole) else { return whole };
        if !self.value(&mut value, false) {
            return whole;
        }
        // Only a secret that is one of our own words, such as "accepted", could make it unreadable.
        serde_json::from_value(value).unwrap_or(whole)
    }

    /// Takes secrets out of an event.
    fn event(&self, mut event: Event) -> Event {
        match &mut event {
            Event::Raw { line: text }
            | Event::ToolResult { text, .. }
            | Event::Text { text }
            | Event::Thinking { text }
            | Event::Stderr { text } => {
                self.string(text);
                event
            }
            Event::ToolCall { name, input, .. } => {
                self.string(name);
                self.value(input, true);
                event
            }
            _ => self.redact(event),
        }
    }

    /// Removes secrets. Returns whether there were any.
    fn string(&self, text: &mut String) -> bool {
        let Cow::Owned(redacted) = self.text(text) else { return false };
        *text = redacted;
        true
    }

    /// Removes secrets. Returns whether there were any. Names are an agent's own only in some places.
    fn value(&self, value: &mut Value, names: bool) -> bool {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(list) => {
                list.iter_mut().fold(false, |any, item| self.value(item, names) | any)
            }
            Value::Object(map) => {
                let is_secret = |name: &String| matches!(self.text(name), Cow::Owned(_));
                let mut any = names && map.keys().any(is_secret);
                if any {
                    let whole = std::mem::take(map).into_iter();
                    map.extend(whole.map(|(name, item)| (self.text(&name).into_owned(), item)));
                }
                for item in map.values_mut() {
                    any |= self.value(item, names);
                }
                any
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Removes secrets from an input, so that the state never holds what the journal must not.
    pub(super) fn input(&self, mut input: Input) -> Input {
        match &mut input {
            Input::ClaimsFound(claims) => *claims = self.redact(std::mem::take(claims)),
            Input::Observed(look) => {
                look.near_misses = self.redact(std::mem::take(&mut look.near_misses));
                look.changes = self.redact(look.changes.take());
            }
            Input::Saved(result) => {
                result.skipped = self.redact(std::mem::take(&mut result.skipped));
                result.problems = self.redact(std::mem::take(&mut result.problems));
                result.commit_problem = self.redact(result.commit_problem.take());
            }
            Input::Artefacts(paths) => *paths = self.redact(std::mem::take(paths)),
            Input::SetupFinished(end) => end.problem = self.redact(end.problem.take()),
            Input::HookFinished(end, _) => {
                end.commands = self.redact(std::mem::take(&mut end.commands));
            }
            Input::Model(text)
            | Input::Note(text)
            | Input::AgentUnavailable(text)
            | Input::ProcessesSurvived(text)
            | Input::Warning(text) => *text = self.text(text).into_owned(),
            Input::Previewed { reasons, .. } => *reasons = self.redact(std::mem::take(reasons)),
            Input::Claimed(claim) => claim.text = self.text(&claim.text).into_owned(),
            Input::IterationEnded(ended) => {
                ended.outcome = self.redact(ended.outcome.clone());
                ended.left_behind = self.redact(std::mem::take(&mut ended.left_behind));
                ended.survived = self.redact(std::mem::take(&mut ended.survived));
            }
            Input::Baseline(check) => {
                check.verdicts = self.redact(std::mem::take(&mut check.verdicts));
                check.artefacts = self.redact(std::mem::take(&mut check.artefacts));
            }
            Input::Validated(validation) => self.validation(validation),
            Input::Control(received) => {
                received.control = self.redact(received.control.clone());
            }
            Input::Explained(found) => *found = self.redact(found.take()),
            Input::Started(_)
            | Input::ReviewStarted(_)
            | Input::ReviewEnded(_)
            | Input::TaskChanged(_)
            | Input::WorkspaceMade(_)
            | Input::Usage(_)
            | Input::Context(_)
            | Input::RateWindow(_)
            | Input::WaitFinished
            | Input::UserBudgetReached { .. }
            | Input::ProviderRefused(_)
            | Input::HoldFinished
            | Input::ObservationSkipped
            | Input::SetupStarted
            | Input::Prepared { .. }
            | Input::Timer(_)
            | Input::GuidanceTaken(_)
            | Input::Signal
            | Input::Hangup => {}
        }
        input
    }

    fn validation(&self, validation: &mut Validation) {
        validation.verdicts = self.redact(std::mem::take(&mut validation.verdicts));
        validation.tampering = self.redact(std::mem::take(&mut validation.tampering));
        validation.evidence = self.redact(std::mem::take(&mut validation.evidence));
        validation.warnings = self.redact(std::mem::take(&mut validation.warnings));
        validation.artefacts = self.redact(std::mem::take(&mut validation.artefacts));
    }

    /// Removes secrets from the result of an iteration.
    pub(super) fn result(&self, result: Result<Report, AgentError>) -> Result<Report, AgentError> {
        result.map(|report| self.redact(report)).map_err(|error| self.redact(error))
    }
}

/// Returns the password in a URL, which programs print without the rest of it.
fn url_password(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

/// Returns the text with these places masked, which are in order.
fn masked(text: &str, places: &[Range<usize>]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for place in places {
        shown.push_str(text.get(at..place.start).unwrap_or_default());
        shown.push_str(MASK);
        at = place.end;
    }
    shown.push_str(text.get(at..).unwrap_or_default());
    shown
}

#[cfg(test)]
mod tests;
