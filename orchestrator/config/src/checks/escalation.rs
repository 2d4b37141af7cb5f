//! Checks of which agents work one after the other.

use std::collections::BTreeMap;

use super::fallback::check_name;
use crate::diagnostics::Diagnostics;
use crate::model::{AgentConfig, EscalateStart};

/// Checks that each name is that of an agent that does not escalate itself, and that no key is given without `escalate`.
pub(super) fn check(
    agent: &AgentConfig,
    agents: &BTreeMap<String, AgentConfig>,
    path: &[&str],
    diagnostics: &mut Diagnostics<'_>,
) {
    for (index, name) in agent.escalate.iter().enumerate() {
        let number = index.to_string();
        let key = [path, &["escalate", &number]].concat();
        if !check_name(agents, name, &key, diagnostics) {
            continue;
        }
        if agent.escalate.iter().take(index).any(|before| before == name) {
            diagnostics.add(&key, format!("{name:?} is named twice"));
        } else if agents.get(name).is_some_and(|other| !other.escalate.is_empty()) {
            diagnostics
                .add(&key, format!("{name:?} has an `escalate` of its own; name its agents here"));
        }
    }
    let after = agent.escalate_after;
    let counts = [
        ("rejections", after.rejections),
        ("stagnant", after.stagnant),
        ("failures", after.failures),
    ];
    for (name, _) in counts.into_iter().filter(|(_, count)| *count == 0) {
        diagnostics.add(&[path, &["escalate_after", name]].concat(), "must be at least 1");
    }
    if agent.escalate.is_empty() && agent.start != EscalateStart::Cheapest {
        let message = "has no meaning without `escalate`";
        diagnostics.add(&[path, &["start"]].concat(), message);
    }
}
