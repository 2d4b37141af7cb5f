//! Maps what only commands meet to exit statuses.

use ralph_orchestrator_bench::job::JobError;
use ralph_orchestrator_machine::StopReason;

use ralph_orchestrator_assembly::error::{CommandError, ErrorKind, exit};

/// The exit status of a run that ended for this reason; `interrupted` is that of the signal.
pub(crate) const fn stop_exit_status(reason: StopReason, ended_well: bool, interrupted: u8) -> u8 {
    match reason {
        StopReason::Completed | StopReason::Initialized => exit::OK,
        StopReason::Once if ended_well => exit::OK,
        StopReason::Once
        | StopReason::MaxIterations
        | StopReason::MaxRuntime
        | StopReason::MaxCost
        | StopReason::MaxTokens
        | StopReason::Failures
        | StopReason::Stagnation
        | StopReason::Thrashing
        | StopReason::InitFailed => exit::LIMIT,
        StopReason::NeedsHuman => exit::HUMAN,
        StopReason::Baseline => exit::CONFIG,
        StopReason::AgentUnavailable => exit::UNAVAILABLE,
        StopReason::Interrupted => interrupted,
    }
}

/// Returns the error of a command about a job.
pub(crate) fn job_error(error: JobError) -> CommandError {
    let kind = match &error {
        JobError::Busy { .. } => ErrorKind::Busy,
        JobError::Damaged { .. } => ErrorKind::Damaged,
        JobError::NoLock { .. } | JobError::NoJob { .. } | JobError::Exists { .. } => {
            ErrorKind::Usage
        }
        JobError::Format { .. } => ErrorKind::Config,
        JobError::Io { .. } => ErrorKind::Internal,
    };
    CommandError::new(kind, error)
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
