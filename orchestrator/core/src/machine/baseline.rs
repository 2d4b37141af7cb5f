//! The checks, before any work is done. One that accepts then proves nothing when it accepts later.

use super::boundary;
use super::input::BaselineCheck;
use super::limits::StopReason;
use super::record::{BaselineMode, Record};
use super::state::State;
use super::step::Turn;

const ALREADY: &str = "every check accepts the unchanged workspace";

/// Whether the checks have to be run before the first iteration.
pub(super) fn is_due(state: &State) -> bool {
    let Some(started) = &state.started else { return false };
    let again = match state.baseline {
        BaselineMode::Off => false,
        BaselineMode::Warn => state.baseline_accepted.is_none(),
        // Whoever starts the run again may have mended the check.
        BaselineMode::MustFail => state.baseline_accepted != Some(false),
    };
    let policy = &started.policy;
    again && state.iterations == 0 && policy.validates() && !policy.is_evidence_only()
}

pub(super) fn checked(turn: &mut Turn, check: BaselineCheck) {
    let was_interrupted = check.interrupted || turn.state.stopping;
    if !is_due(&turn.state) {
        return;
    }
    boundary::artefacts_left(turn, check.artefacts);
    if boundary::broken_off(turn, was_interrupted, check.out_of_time) {
        return;
    }
    let accepted = !check.verdicts.is_empty()
        && check.verdicts.iter().all(|named| named.verdict.is_accepted());
    let runtime_ms = turn.runtime_ms();
    for message in check.warnings {
        turn.record(Record::Warning { message });
    }
    turn.record(Record::Baseline {
        accepted,
        tree: check.tree,
        evidence: check.evidence,
        verdicts: check.verdicts,
        runtime_ms,
    });
    if accepted && turn.state.baseline == BaselineMode::MustFail {
        let message =
            format!("{ALREADY}, which completion.baseline = \"must_fail\" does not allow");
        return turn.finish(StopReason::NeedsHuman, message);
    }
    if accepted {
        let message = format!("{ALREADY}: {}", what_follows(&turn.state));
        turn.record(Record::Warning { message });
    }
    boundary::go_on(turn);
}

fn what_follows(state: &State) -> &'static str {
    let needs_more = state.policy().is_some_and(|policy| {
        policy.validators.iter().any(|validator| validator.required && !validator.runs_check)
    });
    if needs_more {
        "a claim needs nothing more than evidence files that the agent writes itself"
    } else if state.needs_no_claim() {
        "the first iteration that changes anything would complete the run"
    } else {
        "a claim would complete the run at once"
    }
}

/// What has to be said of a completion, as the end of a sentence.
pub(super) fn note(state: &State) -> &'static str {
    match state.baseline_accepted {
        Some(true) => ", but every check had accepted the unchanged workspace",
        Some(false) | None => "",
    }
}
