//! Checks of `[[notify]]`.

use std::collections::BTreeSet;

use super::is_name;
use crate::diagnostics::Diagnostics;
use crate::model::{Notify, NotifyKind};

/// Checks the receivers, and gives each a name.
pub(super) fn check(receivers: &mut [Notify], diagnostics: &mut Diagnostics<'_>) {
    let mut names = BTreeSet::new();
    for (index, receiver) in receivers.iter_mut().enumerate() {
        let number = index.to_string();
        let Some(kind) = receiver.kind else {
            if !diagnostics.is_broken(&["notify", &number, "kind"]) {
                diagnostics.add_missing(&["notify", &number], "kind");
            }
            continue;
        };
        let path = ["notify", &number, "name"];
        let name = receiver.name.get_or_insert_with(|| kind.word().to_owned());
        if !is_name(name) {
            diagnostics.add(&path, format!("expected a name of one line, found {name:?}"));
        } else if !names.insert(name.clone()) {
            let message = format!("another receiver is called {name:?}; give each a `name`");
            diagnostics.add(&path, message);
        }
        if receiver.timeout.is_zero() {
            diagnostics.add(&["notify", &number, "timeout"], "must be greater than 0s");
        }
        if receiver.on.is_empty() {
            diagnostics.add(&["notify", &number, "on"], "names nothing that it is sent");
        }
        target(receiver, kind, &number, diagnostics);
    }
}

/// Checks the keys that say where the notices go: those that the kind needs are there, and no other.
fn target(receiver: &Notify, kind: NotifyKind, number: &str, diagnostics: &mut Diagnostics<'_>) {
    let word = kind.word();
    let given = [
        ("url", receiver.url.is_some(), kind.is_http()),
        ("url_env", receiver.url_env.is_some(), kind.is_http()),
        ("token_env", receiver.token_env.is_some(), kind.is_http()),
        ("secret_env", receiver.secret_env.is_some(), kind == NotifyKind::Webhook),
        ("command", !receiver.command.is_empty(), kind == NotifyKind::Command),
    ];
    for (key, _, _) in given.into_iter().filter(|(_, is_given, applies)| *is_given && !applies) {
        let message = format!("has no meaning for a receiver of the kind \"{word}\"");
        diagnostics.add(&["notify", number, key], message);
    }
    match (&receiver.url, &receiver.url_env) {
        _ if !kind.is_http() => {}
        (Some(_), Some(_)) => {
            diagnostics
                .add(&["notify", number, "url_env"], "`url` is given, too: only one can hold");
        }
        (None, None) => diagnostics.add_missing(&["notify", number], "url"),
        (Some(url), None) if !Notify::is_address(url) => {
            let message =
                "expected an address that begins with https:// or http:// and has no spaces";
            diagnostics.add(&["notify", number, "url"], message);
        }
        _ => {}
    }
    if kind == NotifyKind::Command && receiver.command.first().is_none_or(String::is_empty) {
        diagnostics.add_missing(&["notify", number], "command");
    }
}
