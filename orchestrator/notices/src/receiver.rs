//! A receiver with all that is needed to reach it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ralph_orchestrator_config::{NoticeTopic, Notify, NotifyKind};

use crate::signature;

/// The variable that leads `notify-send` to the desktop.
const DESKTOP_BUS: &str = "DBUS_SESSION_BUS_ADDRESS";

/// Where notices go.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// An address.
    Http {
        /// What is posted.
        kind: NotifyKind,
        /// The address.
        url: String,
        /// Sent as `Authorization: Bearer`.
        token: Option<String>,
        /// What signs a webhook.
        secret: Option<String>,
    },
    /// A program and its arguments.
    Command(Vec<String>),
    /// The desktop of this user.
    Desktop,
}

/// A receiver of `[[notify]]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Its name.
    pub name: String,
    /// Where its notices go.
    pub target: Target,
    /// What it is sent.
    pub on: Vec<NoticeTopic>,
    /// How long after a notice another on the same is not sent, where they can be many.
    pub cooldown: Duration,
    /// The longest that it may take to answer.
    pub timeout: Duration,
    /// It is sent words of the agent and its checks.
    pub content: bool,
    /// Variables that its command is given beside those of `[env]`.
    pub variables: BTreeMap<String, String>,
    /// Its command runs in the sandbox.
    pub is_confined: bool,
    /// The files that its command runs with the user's rights though the agent can write them.
    pub scripts: Vec<PathBuf>,
}

impl Receiver {
    /// Whether it is sent notices; otherwise it is posted the progress of a backlog.
    #[must_use]
    pub const fn takes_notices(&self) -> bool {
        !matches!(self.target, Target::Http { kind: NotifyKind::Autocoder, .. })
    }

    /// Returns the receiver that the configuration describes, with what its variables hold.
    ///
    /// # Errors
    /// A variable is missing or cannot be used, in words for people. No value is named.
    pub fn resolve(notify: &Notify, vars: &BTreeMap<String, String>) -> Result<Self, String> {
        let value = |name: &String| match vars.get(name).filter(|value| !value.is_empty()) {
            Some(value) if value.chars().any(char::is_control) => {
                Err(format!("the variable {name} holds more than one line"))
            }
            Some(value) => Ok(value.clone()),
            None => Err(format!("the variable {name} is not set")),
        };
        let optional = |name: &Option<String>| name.as_ref().map(value).transpose();
        let kind = notify.kind.ok_or("it has no `kind`")?;
        let target = match kind {
            NotifyKind::Command => Target::Command(notify.command.clone()),
            NotifyKind::Desktop => Target::Desktop,
            _ => {
                let url = match &notify.url {
                    Some(url) => Some(url.clone()),
                    None => optional(&notify.url_env)?,
                };
                let url = url.ok_or("it has no `url`")?;
                if !Notify::is_address(&url) {
                    let problem =
                        "its address does not begin with https:// or http://, or has spaces";
                    return Err(problem.to_owned());
                }
                let secret = optional(&notify.secret_env)?;
                if secret.as_deref().is_some_and(|secret| signature::key(secret).is_none()) {
                    return Err("its secret is no base64 after `whsec_`".to_owned());
                }
                Target::Http { kind, url, token: optional(&notify.token_env)?, secret }
            }
        };
        Ok(Self {
            name: notify.name.clone().unwrap_or_else(|| kind.word().to_owned()),
            target,
            on: notify.on.clone(),
            cooldown: notify.cooldown,
            timeout: notify.timeout,
            content: notify.content,
            variables: select_variables(notify, kind, vars),
            is_confined: false,
            scripts: Vec::new(),
        })
    }
}

/// Returns the variables that a program is given because its table names them, or it shows notices on the desktop.
fn select_variables(
    notify: &Notify,
    kind: NotifyKind,
    vars: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let is_given = |name: &String| {
        notify.pass.contains(name) || (kind == NotifyKind::Desktop && name == DESKTOP_BUS)
    };
    let given = vars.iter().filter(|(name, _)| is_given(name));
    given.map(|(name, value)| (name.clone(), value.clone())).collect()
}
