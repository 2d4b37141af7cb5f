//! The names of checks, and what a library's manifest and its `hello` call the same things.

use std::collections::BTreeSet;

use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_config::nearest;
use ralph_orchestrator_conformance::{BACKLOG_CHECKS, DETECTOR_CHECKS, Scenario, VALIDATOR_CHECKS};
use ralph_orchestrator_plugin_host::Manifest;
use ralph_orchestrator_plugin_protocol::{Item, ItemKind, PluginHello};

use super::config::ConformanceConfig;

/// Checks, before any check runs, that the plugin has each of these.
pub(super) fn check_only(
    only: &[String],
    items: &[Item],
    config: &ConformanceConfig,
) -> Result<(), CommandError> {
    let mut known = BTreeSet::new();
    for item in items {
        known.insert("opens".to_owned());
        let words: Vec<&str> = match item.kind {
            ItemKind::Agent => Scenario::ALL.into_iter().map(Scenario::word).collect(),
            ItemKind::Detector => DETECTOR_CHECKS.to_vec(),
            ItemKind::Validator => VALIDATOR_CHECKS.to_vec(),
            ItemKind::Backlog => BACKLOG_CHECKS.to_vec(),
            ItemKind::Unknown => Vec::new(),
        };
        known.extend(words.into_iter().map(str::to_owned));
        if matches!(item.kind, ItemKind::Detector | ItemKind::Validator) {
            known.extend(
                config.item(item).cases()?.iter().map(|case| case.title().replace(' ', "-")),
            );
        }
    }
    if items.iter().any(|item| item.kind == ItemKind::Unknown) {
        // Its own row says what is wrong.
        return Ok(());
    }
    let Some(unknown) = only.iter().find(|word| !known.contains(*word)) else { return Ok(()) };
    let message = format!("--only {unknown}: this plugin has no such check");
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = match nearest(unknown, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? There are: {}", names.join(", ")),
        None => format!("there are: {}", names.join(", ")),
    };
    Err(CommandError::user(message).hinted(hint))
}

/// Returns in what a library's `hello` and its manifest differ.
pub(super) fn differences(manifest: &Manifest, hello: &PluginHello) -> Vec<String> {
    let differ = |what: &str, said: &str, written: &str| {
        let text = format!("its `hello` says the {what} `{said}`, its manifest `{written}`");
        (said != written).then_some(text)
    };
    let items = |items: &[Item]| {
        let words = items.iter().map(|item| format!("{} {}", item.kind.word(), item.name));
        words.collect::<Vec<_>>().join(", ")
    };
    let schemas = |items: &[Item]| items.iter().map(|item| item.schema.clone()).collect::<Vec<_>>();
    // Only the manifest needs one.
    let version = (!hello.version.is_empty())
        .then(|| differ("version", &hello.version, &manifest.version))
        .flatten();
    let provides = differ("items", &items(&hello.provides), &items(&manifest.provides));
    let schema = (provides.is_none() && schemas(&hello.provides) != schemas(&manifest.provides))
        .then(|| "its `hello` and its manifest have different `schema`s".to_owned());
    differ("name", &hello.name, &manifest.name)
        .into_iter()
        .chain(version)
        .chain(provides)
        .chain(schema)
        .collect()
}
