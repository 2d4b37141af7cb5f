//! Checks of which agents take over from which.

use std::collections::BTreeMap;

use crate::diagnostics::Diagnostics;
use crate::model::AgentConfig;
use crate::suggest::nearest;

type Agents = BTreeMap<String, AgentConfig>;

/// Checks that every name is that of an agent, and that no agent takes over from itself, directly or not.
pub(crate) fn check(first: &AgentConfig, agents: &Agents, diagnostics: &mut Diagnostics<'_>) {
    // With a mistake in them, nobody knows which agents there were to be.
    if diagnostics.is_damaged(&["agents"]) {
        return;
    }
    let none = |_: &AgentConfig| None;
    check_names(agents, &first.fallback, &["agent", "fallback"], none, diagnostics);
    for (name, agent) in agents {
        check_names(agents, &agent.fallback, &["agents", name, "fallback"], none, diagnostics);
        for (index, to) in agent.fallback.iter().enumerate() {
            // Each cycle is reported once, at its first name.
            if let Some(cycle) = find_cycle(agents, to, name)
                && cycle.iter().all(|other| *other >= name.as_str())
            {
                let message =
                    format!("{} takes over from itself: {name} -> {}", name, cycle.join(" -> "));
                diagnostics.add(&["agents", name, "fallback", &index.to_string()], message);
            }
        }
    }
}

/// Checks the names of a list: each is that of an agent, none comes twice, and of others `find_problem` says what is wrong.
pub(super) fn check_names(
    agents: &Agents,
    names: &[String],
    path: &[&str],
    find_problem: impl Fn(&AgentConfig) -> Option<&'static str>,
    diagnostics: &mut Diagnostics<'_>,
) {
    for (index, name) in names.iter().enumerate() {
        let number = index.to_string();
        let key = [path, &[number.as_str()]].concat();
        if !check_name(agents, name, &key, diagnostics) {
            continue;
        }
        if names.iter().take(index).any(|before| before == name) {
            diagnostics.add(&key, format!("{name:?} is named twice"));
        } else if let Some(problem) = agents.get(name).and_then(&find_problem) {
            diagnostics.add(&key, format!("{name:?} {problem}"));
        }
    }
}

/// Reports a name that no agent has. Returns whether one has it.
fn check_name(
    agents: &Agents,
    name: &str,
    key: &[&str],
    diagnostics: &mut Diagnostics<'_>,
) -> bool {
    if agents.contains_key(name) {
        return true;
    }
    let known = agents.keys().map(String::as_str);
    let help = nearest(name, known).map(|near| format!("did you mean \"{near}\"?"));
    let help = help.unwrap_or_else(|| format!("add a table [agents.{name}]"));
    diagnostics.add_with_help(key, format!("there is no agent called {name:?}"), Some(&help));
    false
}

/// Returns the names from `from` to `to` along fallbacks, both included.
fn find_cycle<'a>(agents: &'a Agents, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut paths = vec![vec![from]];
    let mut seen = Vec::new();
    while let Some(path) = paths.pop() {
        let Some(last) = path.last().copied() else { continue };
        if last == to {
            return Some(path);
        }
        if seen.contains(&last) {
            continue;
        }
        seen.push(last);
        for next in agents.get(last).into_iter().flat_map(|agent| &agent.fallback) {
            paths.push([&path[..], &[next.as_str()]].concat());
        }
    }
    None
}
