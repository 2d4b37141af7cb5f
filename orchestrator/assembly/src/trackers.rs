//! Backlogs that are issues of a code host.

use std::path::PathBuf;
use std::sync::Arc;

use ralph_orchestrator_backlog::{Backlog, ItemOrder};
use ralph_orchestrator_config::BacklogLabels;
use ralph_orchestrator_contract::{BuildError, parse_config};
use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_engine::registry::FactoryMap;
use ralph_orchestrator_forge::{
    CodeHost, HostClient, IssueBacklog, IssueBacklogSettings, MaskText, StatusLabels, check_label,
};
use serde_json::Value;

use crate::context::Context;
use crate::host_programs::HostPrograms;

/// The label of the issues that are items, unless another one is configured.
const LABEL: &str = "ralph";

/// What a tracker is given of `[backlog]`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TrackerKeys {
    #[serde(default)]
    repository: Option<String>,
    #[serde(default = "default_label")]
    label: String,
    #[serde(default)]
    labels: BacklogLabels,
    #[serde(default)]
    order: Option<ItemOrder>,
    /// For a message of its own.
    #[serde(default)]
    path: Option<PathBuf>,
}

fn default_label() -> String {
    LABEL.to_owned()
}

/// Makes the trackers known.
pub(crate) fn register(formats: &mut FactoryMap<dyn Backlog>, context: &Context) {
    let redactor = Redactor::new(&context.loaded.config.env, &context.vars);
    let mask: MaskText = Arc::new(move |text: &str| redactor.text(text).into_owned());
    for host in CodeHost::ALL {
        let mask = Arc::clone(&mask);
        let programs = Arc::new(HostPrograms::new(
            &context.vars,
            context.agent_places(),
            context.loaded.configured_workspace(),
        ));
        formats.add(host.name(), move |table, _| {
            let (repository, settings) = read_keys(host, table)?;
            let client = HostClient::new(host, programs.clone(), repository);
            Ok(Box::new(IssueBacklog::new(client, settings, mask.clone())) as Box<dyn Backlog>)
        });
    }
}

fn read_keys(
    host: CodeHost,
    table: Value,
) -> Result<(Option<String>, IssueBacklogSettings), BuildError> {
    let TrackerKeys { repository, label, labels, order, path } = parse_config(table)?;
    if path.is_some() {
        let message = format!("the issues of {} are in no file; remove it", host.title());
        return Err(BuildError::at("path", message));
    }
    if let Some(repository) = repository.as_ref().filter(|name| !is_repository(name)) {
        let message = format!(
            "expected a repository, such as \"acme/widgets\" or \"https://host/acme/widgets\", found {repository:?}"
        );
        return Err(BuildError::at("repository", message));
    }
    if let Some(message) = check_label(&label) {
        return Err(BuildError::at("label", message));
    }
    let BacklogLabels { in_progress, done, blocked } = labels;
    let of_statuses = [("in_progress", &in_progress), ("done", &done), ("blocked", &blocked)];
    let mut known = vec![label.to_lowercase()];
    for (key, name) in of_statuses {
        let at = |message| BuildError {
            key: vec!["labels".to_owned(), key.to_owned()],
            unknown_key: None,
            message,
        };
        if let Some(message) = check_label(name) {
            return Err(at(message));
        }
        if known.contains(&name.to_lowercase()) {
            return Err(at(format!(
                "{name:?} is the label of something else here; choose another"
            )));
        }
        known.push(name.to_lowercase());
    }
    let statuses = StatusLabels { in_progress, done, blocked };
    Ok((repository, IssueBacklogSettings { label, statuses, order }))
}

/// Whether a text names a repository by its path on a host, or by an address.
fn is_repository(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic();
    let has_parts = text.split('/').filter(|part| !part.is_empty()).count() >= 2;
    text.chars().all(is_plain) && has_parts && !text.starts_with(['-', '/', '.'])
}
