//! Follows a stream from its first line to its last.

use std::collections::BTreeSet;

use ralph_adapter_common::LineParser;
use ralph_orchestrator_contract::{
    AgentError, ClaimKind, ErrorClass, Event, Report, Tokens, Usage,
};
use serde_json::Value;

use super::finding::{Finding, Found};
use super::keys::Counts;
use super::rules::Rules;
use crate::tail::TextTail;

/// Reads the lines of a stream by rules.
#[derive(Debug)]
pub(crate) struct StreamParser {
    rules: Rules,
    /// Some line was for some rule.
    has_matched: bool,
    session: Option<String>,
    model: Option<String>,
    pieces: TextTail,
    /// The pieces so far belong to a message that has ended.
    starts_over: bool,
    final_text: Option<String>,
    /// The sum of the figures of messages.
    summed: Usage,
    /// The largest of the figures of the session.
    cumulative: Usage,
    failure: Option<(ErrorClass, String)>,
    is_done: bool,
    /// The rules and keys of which a mismatch was reported.
    mismatched: BTreeSet<(usize, &'static str)>,
}

impl StreamParser {
    /// Creates a parser that has read nothing yet.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            has_matched: false,
            session: None,
            model: None,
            pieces: TextTail::default(),
            starts_over: false,
            final_text: None,
            summed: Usage::default(),
            cumulative: Usage::default(),
            failure: None,
            is_done: false,
            mismatched: BTreeSet::new(),
        }
    }

    /// Returns what the rules make of a line; `None` if it is not JSON.
    pub(crate) fn read(&self, line: &str) -> Option<Vec<Found>> {
        let value = serde_json::from_str::<Value>(line).ok()?;
        Some(self.rules.read(&value))
    }

    /// Takes over what was found in a line, and returns its events.
    pub(crate) fn apply(&mut self, mut found: Vec<Found>) -> Vec<Event> {
        self.has_matched |= !found.is_empty();
        // The end of a turn includes its text, and a turn may end in a failure, whichever rules say so.
        found.sort_by_key(|found| match found.finding {
            Finding::Failure { .. } => 2,
            Finding::End => 1,
            _ => 0,
        });
        found.into_iter().filter_map(|found| self.apply_finding(found)).collect()
    }

    /// Returns what was used so far.
    fn usage(&self) -> Usage {
        self.summed.max(self.cumulative)
    }

    fn apply_finding(&mut self, found: Found) -> Option<Event> {
        let Found { rule, key, finding } = found;
        match finding {
            Finding::NewMessage => {
                self.begin_message();
                None
            }
            Finding::Session(id) => self.change_session(Some(id), None),
            Finding::Model(model) => self.change_session(None, Some(model)),
            Finding::Text(text) => {
                self.add_text(&text);
                Some(Event::Text { text })
            }
            Finding::Thinking(text) => Some(Event::Thinking { text }),
            Finding::FinalText(text) => {
                self.final_text = Some(text);
                None
            }
            Finding::ToolCall { id, name, input } => {
                self.begin_message();
                Some(Event::ToolCall { id, name, input })
            }
            Finding::ToolResult { id, is_error, text } => {
                self.begin_message();
                Some(Event::ToolResult { id, is_error, text })
            }
            Finding::Usage { counts, usage } => self.count(counts, usage),
            Finding::Context { used, window } => Some(Event::Context { used, window }),
            Finding::RateWindow { name, used, resets_at_ms } => {
                Some(Event::RateWindow { name, used, resets_at_ms })
            }
            Finding::Question(text) => Some(Event::Claim { kind: ClaimKind::NeedsHuman, text }),
            Finding::Failure { class, message } => {
                self.failure = Some((class, message));
                None
            }
            Finding::End => {
                self.failure = None;
                self.is_done = true;
                None
            }
            Finding::Mismatch(message) => self.mismatched.insert((rule, key)).then(|| {
                let message = format!("[agent.config.stream] rule {rule}, `{key}`: {message}");
                Event::Warning { message }
            }),
        }
    }

    /// What follows is another message, of another turn if the agent was done.
    fn begin_message(&mut self) {
        self.starts_over = true;
        self.is_done = false;
    }

    fn add_text(&mut self, text: &str) {
        if std::mem::take(&mut self.starts_over) {
            self.pieces = TextTail::default();
        }
        self.is_done = false;
        self.pieces.push(text.as_bytes());
    }

    fn change_session(&mut self, id: Option<String>, model: Option<String>) -> Option<Event> {
        let (old, old_model) = (self.session.clone(), self.model.clone());
        self.session = id.or(old.clone());
        self.model = model.or(old_model.clone());
        let is_new = self.session != old || self.model != old_model;
        is_new.then(|| Event::Session {
            id: self.session.clone().unwrap_or_default(),
            model: self.model.clone(),
        })
    }

    fn count(&mut self, counts: Counts, usage: Usage) -> Option<Event> {
        let before = self.usage();
        match counts {
            Counts::Cumulative => self.cumulative = self.cumulative.max(usage),
            Counts::PerMessage => {
                let add = |sum: Option<Tokens>, tokens| sum.unwrap_or_default() + tokens;
                let sum = self.summed;
                self.summed.tokens =
                    usage.tokens.map(|tokens| add(sum.tokens, tokens)).or(sum.tokens);
                self.summed.cost =
                    usage.cost.map(|cost| sum.cost.unwrap_or_default() + cost).or(sum.cost);
            }
        }
        let usage = self.usage();
        (usage != before).then_some(Event::Usage { usage })
    }
}

impl LineParser for StreamParser {
    fn line(&mut self, line: &str) -> Vec<Event> {
        // Programs print other lines between those of their protocol.
        let found = self.read(line).unwrap_or_default();
        self.apply(found)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn account(self, _exit: &str) -> Result<Report, AgentError> {
        let usage = self.usage();
        let report = Report { usage, session: self.session, ..Report::default() };
        let crashed = |message: &str| (ErrorClass::Crashed, message.to_owned());
        let failure = if let Some((class, message)) = self.failure {
            let message =
                if message.is_empty() { "the agent failed without a reason" } else { &message };
            (class, message.to_owned())
        } else if !self.has_matched {
            crashed(
                "no line of the agent's output is one that a rule of [agent.config.stream] is for: \
                 `ralph-orchestrator agents try FILE` shows what the rules make of recorded output",
            )
        } else if self.rules.have_end() && !self.is_done {
            crashed("the agent ended without a line for which a rule has `end = true`")
        } else {
            let final_text = self.final_text.or_else(|| self.pieces.into_text());
            return Ok(Report { final_text, ..report });
        };
        let (class, message) = failure;
        Err(AgentError::new(class, message).with_report(report))
    }
}
