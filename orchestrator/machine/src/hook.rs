//! Points of a run at which commands of the user are run, and what is known of these commands.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A point of a run at which commands of the user are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// A start, before anything is done.
    BeforeRun,
    /// A start of the run of an item of a backlog.
    BeforeItem,
    /// An attempt at an iteration, before its prompt is read.
    BeforeIteration,
    /// The same: what its command prints is given to the agent.
    Context,
    /// The validation of a claim.
    BeforeValidation,
    /// The same, whatever was decided.
    AfterValidation,
    /// An attempt at an iteration has ended, however it did.
    AfterIteration,
    /// The run of an item has ended, for good or for now.
    AfterItem,
    /// The work is complete.
    AfterCompletion,
    /// The run has stopped without being complete.
    AfterStop,
    /// A start has ended, however it did.
    AfterRun,
}

impl HookEvent {
    /// All of them, in the order in which they come.
    pub const ALL: [Self; 11] = [
        Self::BeforeRun,
        Self::BeforeItem,
        Self::BeforeIteration,
        Self::Context,
        Self::AfterIteration,
        Self::BeforeValidation,
        Self::AfterValidation,
        Self::AfterItem,
        Self::AfterCompletion,
        Self::AfterStop,
        Self::AfterRun,
    ];

    /// Returns the key of the configuration that names its commands.
    #[must_use]
    pub fn key(self) -> String {
        match self {
            Self::Context => "context.command".to_owned(),
            event => format!("hooks.{}", event.word()),
        }
    }

    /// Returns its word, as in the journal.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::BeforeRun => "before_run",
            Self::BeforeItem => "before_item",
            Self::BeforeIteration => "before_iteration",
            Self::Context => "context",
            Self::BeforeValidation => "before_validation",
            Self::AfterValidation => "after_validation",
            Self::AfterIteration => "after_iteration",
            Self::AfterItem => "after_item",
            Self::AfterCompletion => "after_completion",
            Self::AfterStop => "after_stop",
            Self::AfterRun => "after_run",
        }
    }

    /// Whether nothing goes on if its commands fail.
    #[must_use]
    pub const fn is_before(self) -> bool {
        matches!(
            self,
            Self::BeforeRun
                | Self::BeforeItem
                | Self::BeforeIteration
                | Self::Context
                | Self::BeforeValidation
        )
    }

    /// Whether it belongs to the end of a run.
    pub(super) const fn is_end(self) -> bool {
        matches!(self, Self::AfterItem | Self::AfterCompletion | Self::AfterStop | Self::AfterRun)
    }
}

/// A command that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookCommand {
    /// The command as one would type it.
    pub command: String,
    /// How often it was started.
    pub attempts: u32,
    /// Why it failed the last time, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What it printed the last time, possibly cut.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// Something that has happened, or is about to, whose commands are to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueHook {
    /// What.
    pub event: HookEvent,
    /// What its commands are told of it beside what is known of the run.
    pub details: Value,
}

/// How the commands of an event ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookEnd {
    /// The event.
    pub event: HookEvent,
    /// Those that were run, in order.
    pub commands: Vec<HookCommand>,
    /// Ended by a request to stop.
    pub interrupted: bool,
    /// Ended by `limits.max_runtime`.
    pub out_of_time: bool,
}

impl HookEnd {
    /// Returns why the first one that failed did.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let mut failed = self.commands.iter().filter_map(|command| {
            command.problem.as_ref().map(|problem| format!("`{}` {problem}", command.command))
        });
        failed.next()
    }
}

/// What is known of the commands of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookState {
    /// The events for which this start has commands.
    pub events: BTreeSet<HookEvent>,
    /// What has happened and whose commands have not ended yet, in order.
    pub due: Vec<DueHook>,
    /// What was allowed to go on, and has not happened since.
    pub passed: BTreeSet<HookEvent>,
    /// How often the commands of an event have ended.
    pub count: u64,
    /// The event whose commands keep the run from going on.
    pub blocked: Option<HookEvent>,
}

impl HookState {
    /// Begins a start with commands for these events. What is due of the start before stays so.
    pub(super) fn begin(&mut self, events: &BTreeSet<HookEvent>) {
        self.events.clone_from(events);
        self.due.retain(|due| events.contains(&due.event));
        self.passed.clear();
        self.blocked = None;
    }

    /// Takes note of what has happened, if there are commands for it.
    pub(super) fn happen(&mut self, event: HookEvent, details: &Value) {
        if self.events.contains(&event) {
            self.due.push(DueHook { event, details: details.clone() });
        }
    }

    /// Takes note of the end of an event's commands, and of whether one failed.
    pub(super) fn end(&mut self, event: HookEvent, commands: &[HookCommand]) {
        let has_failed = commands.iter().any(|command| command.problem.is_some());
        self.count = self.count.saturating_add(1);
        if !event.is_before() {
            if let Some(at) = self.due.iter().position(|due| due.event == event) {
                self.due.remove(at);
            }
        } else if has_failed {
            self.blocked = Some(event);
        } else {
            self.passed.insert(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_the_word_of_the_journal() {
        for event in HookEvent::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), event.word());
        }
    }
}
