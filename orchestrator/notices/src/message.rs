//! What each kind of receiver is sent.

use std::borrow::Cow;

use ralph_orchestrator_config::{NoticeTopic, NotifyKind};
use serde_json::{Value, json};

use crate::backlog_progress::BacklogProgress;
use crate::notice::Notice;
use crate::signature::signature;

/// Slack and Discord refuse longer texts than these, in characters.
const MOST_CHAT: usize = 1900;

/// What is posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) headers: Vec<(Cow<'static, str>, String)>,
    pub(crate) body: String,
}

/// Returns the notice as JSON: what a program reads, and the body of a webhook.
pub(crate) fn json_of(notice: &Notice) -> Value {
    json!({
        "type": format!("run.{}", notice.topic.word()),
        "timestamp": notice.time,
        "data": notice,
    })
}

/// Returns what is posted for a notice, `now` seconds after the Unix epoch.
pub(crate) fn post(notice: &Notice, kind: NotifyKind, secret: Option<&str>, now: i64) -> Post {
    match kind {
        NotifyKind::Ntfy => ntfy(notice),
        NotifyKind::Slack => json_post(&json!({"text": slack(notice)})),
        NotifyKind::Discord => json_post(&json!({
            "content": chat(notice, "**"),
            // Nobody is called by a name that stands in a text.
            "allowed_mentions": {"parse": []},
        })),
        NotifyKind::Autocoder => json_post(&BacklogProgress::test(notice).body()),
        NotifyKind::Webhook | NotifyKind::Command | NotifyKind::Desktop => {
            webhook(notice, secret, now)
        }
    }
}

fn json_post(body: &Value) -> Post {
    Post {
        headers: vec![("Content-Type".into(), "application/json".to_owned())],
        body: body.to_string(),
    }
}

fn webhook(notice: &Notice, secret: Option<&str>, now: i64) -> Post {
    let mut post = json_post(&json_of(notice));
    post.headers.push(("webhook-id".into(), notice.id.clone()));
    post.headers.push(("webhook-timestamp".into(), now.to_string()));
    let signed = secret.and_then(|secret| signature(secret, &notice.id, now, &post.body));
    post.headers.extend(signed.map(|signed| ("webhook-signature".into(), signed)));
    post
}

fn ntfy(notice: &Notice) -> Post {
    let (priority, tag) = match notice.topic {
        NoticeTopic::NeedsHuman => ("high", "question"),
        NoticeTopic::Completed | NoticeTopic::ItemCompleted => ("default", "white_check_mark"),
        NoticeTopic::Stopped => ("high", "octagonal_sign"),
        _ => ("low", "repeat"),
    };
    // A header is ASCII.
    let title: String =
        notice.title().chars().map(|c| if c.is_ascii_graphic() { c } else { ' ' }).collect();
    Post {
        headers: vec![
            ("Content-Type".into(), "text/plain; charset=utf-8".to_owned()),
            ("Title".into(), title),
            ("Priority".into(), priority.to_owned()),
            ("Tags".into(), tag.to_owned()),
        ],
        body: notice.text(),
    }
}

/// A text whose words are no command of Slack.
fn slack(notice: &Notice) -> String {
    chat(notice, "*").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn chat(notice: &Notice, bold: &str) -> String {
    let text: String = notice.text().chars().take(MOST_CHAT).collect();
    format!("{bold}{}{bold}\n{text}", notice.title())
}
