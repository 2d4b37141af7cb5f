//! `[[notify]]`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units;
use crate::strict::{self, strict_enum};

/// A receiver of notices about a run: sent from the journal, at least once, with an id that stays the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// What the receiver is: "command" runs `command` with the notice as JSON on standard input; "webhook" posts that
    /// JSON by the rules of Standard Webhooks; "ntfy", "slack" and "discord" post what these services expect; "desktop"
    /// shows it with `notify-send`; "autocoder" posts the progress of a backlog as AutoCoder does, whatever `on` says.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "strict::optional")]
    #[schemars(with = "NotifyKind")]
    pub kind: Option<NotifyKind>,
    /// What it is called in messages. Its kind if nothing else is given; two receivers need two names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub name: Option<String>,
    /// What it is sent: "started", "resumed", "progress" (an iteration ended), "rejected" (a claim of completion was not
    /// proved), "rate_limited", "agent_changed", "paused", "warning", "item_completed" (of a backlog), "completed", "needs_human",
    /// "stopped" (any other end).
    pub on: Vec<NoticeTopic>,
    /// The address that is posted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub url: Option<String>,
    /// The variable that holds the address, where that is a secret, as those of Slack and Discord are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub url_env: Option<String>,
    /// The variable that holds a token, sent as `Authorization: Bearer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub token_env: Option<String>,
    /// The variable that holds the secret with which a webhook is signed, such as "whsec_…".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("minLength" = 1))]
    pub secret_env: Option<String>,
    /// The program of "command" and its arguments. A path is relative to the folder of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Names of variables that the program of "command" is given beside those that agents are given by `[env]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<String>,
    /// After a notice on "progress", "rejected", "rate_limited", "agent_changed" or "warning", further ones on the same
    /// are not sent for this long.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema")]
    pub cooldown: Duration,
    /// The longest that the receiver may take to answer.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema")]
    pub timeout: Duration,
    /// Notices contain words of the agent and its checks: why a claim was rejected, what it claimed.
    pub content: bool,
}

impl Notify {
    /// The file in the workspace in which AutoCoder writes down what it has posted.
    pub const PROGRESS_CACHE: &'static str = ".progress_cache";

    /// Whether a text can be an address that notices are posted to.
    #[must_use]
    pub fn is_address(text: &str) -> bool {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
            && !text.chars().any(|c| c.is_whitespace() || c.is_control())
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self {
            kind: None,
            name: None,
            on: vec![NoticeTopic::Completed, NoticeTopic::NeedsHuman, NoticeTopic::Stopped],
            url: None,
            url_env: None,
            token_env: None,
            secret_env: None,
            command: Vec::new(),
            pass: Vec::new(),
            cooldown: Duration::from_secs(60),
            timeout: Duration::from_secs(10),
            content: false,
        }
    }
}

strict_enum! {
    /// What a receiver of notices is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    pub enum NotifyKind {
        /// A program.
        Command = "command",
        /// An address that takes Standard Webhooks.
        Webhook = "webhook",
        /// A topic of ntfy.
        Ntfy = "ntfy",
        /// An incoming webhook of Slack.
        Slack = "slack",
        /// A webhook of Discord.
        Discord = "discord",
        /// The desktop of this user.
        Desktop = "desktop",
        /// An address that takes the progress of a backlog in the form of AutoCoder.
        Autocoder = "autocoder",
    }
}

impl NotifyKind {
    /// Whether it is posted to an address.
    #[must_use]
    pub const fn is_http(self) -> bool {
        !matches!(self, Self::Command | Self::Desktop)
    }
}

strict_enum! {
    /// What a notice is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
    pub enum NoticeTopic {
        /// A run began.
        Started = "started",
        /// A run goes on.
        Resumed = "resumed",
        /// An iteration ended.
        Progress = "progress",
        /// A claim of completion was not proved.
        Rejected = "rejected",
        /// The provider refuses requests for a while.
        RateLimited = "rate_limited",
        /// Another agent took over.
        AgentChanged = "agent_changed",
        /// A person paused the run.
        Paused = "paused",
        /// Something the user should know.
        Warning = "warning",
        /// The run of an item of the backlog is complete.
        ItemCompleted = "item_completed",
        /// The run is complete.
        Completed = "completed",
        /// The run waits for a person.
        NeedsHuman = "needs_human",
        /// The run ended otherwise.
        Stopped = "stopped",
    }
}

impl NoticeTopic {
    /// Whether many of them can follow each other.
    #[must_use]
    pub const fn may_repeat(self) -> bool {
        matches!(
            self,
            Self::Progress
                | Self::Rejected
                | Self::RateLimited
                | Self::AgentChanged
                | Self::Warning
        )
    }
}
