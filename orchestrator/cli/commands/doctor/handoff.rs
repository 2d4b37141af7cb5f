//! What hands an iteration off to the next: the agent, its context, or time.

use ralph_orchestrator_config::{Handoff, duration_text};
use ralph_orchestrator_engine::ConfiguredAgent;

use super::{Finding, Severity};

const WHAT: &str = "handoff";

/// Says which bound applies to this agent, if any hand-off is configured or made by the agent itself.
pub(super) fn check(handoff: Handoff, agent: &ConfiguredAgent) -> Option<Finding> {
    let capabilities = agent.agent().describe().capabilities;
    let per_mille = handoff.per_mille();
    let ok = |detail: String| Some(Finding { what: WHAT, severity: Severity::Ok, detail });
    if capabilities.handoff {
        return ok("by the agent itself, at `handoff_at` of its own configuration".to_owned());
    }
    match (per_mille, handoff.after) {
        (None, None) => None,
        (Some(share), _) if capabilities.context => {
            let (whole, tenth) = (share / 10, share % 10);
            ok(format!("at {whole}.{tenth} % of the context of the last turn (handoff.at)"))
        }
        (_, Some(after)) if !capabilities.context => ok(format!(
            "the agent does not report its context: after {} (handoff.after)",
            duration_text(after)
        )),
        (Some(_), None) => Some(Finding::warning(
            WHAT,
            "the agent does not report its context, so handoff.at has no effect; set handoff.after"
                .to_owned(),
        )),
        (None, Some(_)) => Some(Finding::warning(
            WHAT,
            "the agent reports its context, so handoff.after has no effect; set handoff.at"
                .to_owned(),
        )),
        (Some(_), Some(_)) => None,
    }
}
