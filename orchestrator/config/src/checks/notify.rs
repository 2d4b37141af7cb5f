//! Checks of `[[notify]]` and `[telemetry]`: where something is sent to.

use std::collections::BTreeSet;

use super::is_name;
use crate::diagnostics::Diagnostics;
use crate::model::{Notify, NotifyKind, Telemetry};

const ADDRESS: &str = "expected an address that begins with https:// or http:// and has no spaces";

/// Checks the receivers, and gives each a name.
pub(super) fn check(receivers: &mut [Notify], diagnostics: &mut Diagnostics<'_>) {
    let (mut names, mut has_progress) = (BTreeSet::new(), false);
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
        let is_second = kind == NotifyKind::Autocoder && std::mem::replace(&mut has_progress, true);
        if is_second {
            let message = "another receiver has this kind: what was posted is written down once";
            diagnostics.add(&["notify", &number, "kind"], message);
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

/// Checks the address of the collector.
pub(super) fn check_collector(telemetry: &Telemetry, diagnostics: &mut Diagnostics<'_>) {
    if telemetry.otlp.as_deref().is_some_and(|url| !Notify::is_address(url)) {
        diagnostics.add(&["telemetry", "otlp"], ADDRESS);
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
        ("pass", !receiver.pass.is_empty(), kind == NotifyKind::Command),
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
            diagnostics.add(&["notify", number, "url"], ADDRESS);
        }
        _ => {}
    }
    if kind == NotifyKind::Command && receiver.command.first().is_none_or(String::is_empty) {
        diagnostics.add_missing(&["notify", number], "command");
    }
}
