//! Lets a stronger agent take over, where the configuration names some.

use super::reached_limits;
use super::record::Record;
use super::state::State;
use super::transition::Transition;

/// Escalates if what has happened since the present agent took over asks for it.
pub(super) fn escalate_if_needed(next: &mut Transition) {
    if next.state.agent.retrying || next.state.is_initializing() {
        return;
    }
    // No agent takes over that does no work then.
    if reached_limits::find_exceeded_budget(&next.state).is_some() {
        return;
    }
    let Some((to, reason)) = find_escalation(&next.state) else { return };
    let from = next.state.agent.name.clone();
    next.record(Record::AgentChanged { from, to, reason, escalated: true });
}

/// Returns the agent that takes over, and why.
fn find_escalation(state: &State) -> Option<(String, String)> {
    let escalation = state.agent.escalation.as_ref()?;
    let to = escalation.next()?.agent.clone();
    let plan = &escalation.plan;
    let counts = [
        (escalation.rejections, plan.rejections, "rejections"),
        (state.agent.failures, plan.failures, "failed iterations in a row"),
        (state.progress.stagnant, plan.stagnant, "iterations without progress"),
    ];
    let reached = counts.into_iter().find(|(count, most, _)| count >= most);
    reached.map(|(count, _, what)| (to, format!("{what}: {count}")))
}
