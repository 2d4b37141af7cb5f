//! Which agents take over from which.

use std::collections::BTreeMap;

use super::model::{AgentConfig, Config};
use super::nearest::nearest;
use super::problem::Problems;

type Agents = BTreeMap<String, AgentConfig>;

impl Config {
    /// The names of the agents that take over from the one of `[agents.NAME]`, or of `[agent]`, in
    /// order: each is followed by those that take over from it. None comes twice.
    #[must_use]
    pub fn fallback<'a>(&'a self, name: Option<&str>) -> Vec<&'a str> {
        let first = match name {
            Some(name) => self.agents.get(name),
            None => Some(&self.agent),
        };
        let names = |agent: &'a AgentConfig| agent.fallback.iter().rev().map(String::as_str);
        let mut order: Vec<&str> = Vec::new();
        let mut open: Vec<&str> = first.into_iter().flat_map(names).collect();
        while let Some(to) = open.pop() {
            if name != Some(to) && !order.contains(&to) {
                order.push(to);
                open.extend(self.agents.get(to).into_iter().flat_map(names));
            }
        }
        order
    }
}

/// Every name has to be that of an agent, and no agent may take over from itself, by whatever detour.
pub(super) fn check(first: &AgentConfig, agents: &Agents, problems: &mut Problems<'_>) {
    // With a mistake in them, nobody knows which agents there were to be.
    if problems.is_damaged(&["agents"]) {
        return;
    }
    check_names(agents, first, &["agent"], problems);
    for (name, agent) in agents {
        check_names(agents, agent, &["agents", name], problems);
        for (index, to) in agent.fallback.iter().enumerate() {
            // Told once for each circle, at its first name.
            if let Some(way) = way_back(agents, to, name)
                && way.iter().all(|other| *other >= name.as_str())
            {
                let message =
                    format!("{} takes over from itself: {name} -> {}", name, way.join(" -> "));
                problems.at(&["agents", name, "fallback", &index.to_string()], message);
            }
        }
    }
}

fn check_names(agents: &Agents, agent: &AgentConfig, path: &[&str], problems: &mut Problems<'_>) {
    for (index, name) in agent.fallback.iter().enumerate() {
        let number = index.to_string();
        let key = [path, &["fallback", &number]].concat();
        if !agents.contains_key(name) {
            let known = agents.keys().map(String::as_str);
            let help = nearest(name, known).map(|near| format!("did you mean \"{near}\"?"));
            let help = help.unwrap_or_else(|| format!("add a table [agents.{name}]"));
            problems.with_help(&key, format!("there is no agent called {name:?}"), Some(&help));
        } else if agent.fallback.iter().take(index).any(|before| before == name) {
            problems.at(&key, format!("{name:?} is named twice"));
        }
    }
}

/// The names from `from` to `to` along fallbacks, both included.
fn way_back<'a>(agents: &'a Agents, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![from]];
    let mut seen = Vec::new();
    while let Some(way) = ways.pop() {
        let Some(last) = way.last().copied() else { continue };
        if last == to {
            return Some(way);
        }
        if seen.contains(&last) {
            continue;
        }
        seen.push(last);
        for next in agents.get(last).into_iter().flat_map(|agent| &agent.fallback) {
            ways.push([&way[..], &[next.as_str()]].concat());
        }
    }
    None
}
