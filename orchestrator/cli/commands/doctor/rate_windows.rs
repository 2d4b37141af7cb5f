//! Rate windows before whose end no iteration begins: whether the agent reports any.

use ralph_orchestrator_config::Limits;
use ralph_orchestrator_engine::ConfiguredAgent;

use super::Finding;

/// Warns of limits that have no effect, as the agent reports no windows.
pub(super) fn check(limits: &Limits, agent: &ConfiguredAgent) -> Option<Finding> {
    let is_reported = agent.agent().describe().capabilities.rate_windows;
    (!limits.max_window.is_empty() && !is_reported).then(|| {
        let detail = "the agent does not report its provider's rate windows, so limits.max_window has no effect";
        Finding::warning("limits", detail.to_owned())
    })
}
