//! Maps how runs end to exit statuses.

use ralph_orchestrator_assembly::error::exit;
use ralph_orchestrator_machine::{StopKind, StopReason};

/// The exit status of a run that ended for this reason; `interrupted` is that of the signal.
pub(crate) const fn stop_exit_status(reason: StopReason, ended_well: bool, interrupted: u8) -> u8 {
    match reason.kind() {
        StopKind::Done => exit::OK,
        StopKind::Once if ended_well => exit::OK,
        StopKind::Once | StopKind::Limit | StopKind::Stuck => exit::LIMIT,
        StopKind::Human => exit::HUMAN,
        StopKind::Refused => exit::CONFIG,
        StopKind::Unavailable => exit::UNAVAILABLE,
        StopKind::Interrupted => interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_reason_has_the_documented_status() {
        let of = |reason| stop_exit_status(reason, true, 143);
        assert_eq!(of(StopReason::Completed), 0);
        assert_eq!(of(StopReason::Once), 0);
        assert_eq!(stop_exit_status(StopReason::Once, false, 130), 1);
        for reason in [
            StopReason::MaxIterations,
            StopReason::MaxRuntime,
            StopReason::MaxCost,
            StopReason::MaxTokens,
            StopReason::Budget,
            StopReason::Failures,
            StopReason::Stagnation,
            StopReason::Thrashing,
            StopReason::InitFailed,
        ] {
            assert_eq!(of(reason), 1, "{}", reason.word());
        }
        assert_eq!(of(StopReason::NeedsHuman), 2);
        assert_eq!(of(StopReason::Baseline), 78);
        assert_eq!(of(StopReason::AgentUnavailable), 69);
        assert_eq!(of(StopReason::Interrupted), 143);
    }
}
