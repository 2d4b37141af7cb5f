//! Checks of which agents work one after the other.

use std::collections::BTreeMap;

use super::fallback::check_names;
use crate::diagnostics::Diagnostics;
use crate::model::{AgentConfig, EscalateStart};

/// Checks that each name is that of an agent that does not escalate itself, and that no key is given without `escalate`.
pub(super) fn check(
    agent: &AgentConfig,
    agents: &BTreeMap<String, AgentConfig>,
    path: &[&str],
    diagnostics: &mut Diagnostics<'_>,
) {
    let find_problem = |other: &AgentConfig| {
        (!other.escalate.is_empty()).then_some("has an `escalate` of its own; name its agents here")
    };
    let key = [path, &["escalate"]].concat();
    check_names(agents, &agent.escalate, &key, find_problem, diagnostics);
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
