//! What agents do to checks, tried as `rehearse` does.

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_init::{RehearsedRow, rehearse};
use ralph_orchestrator_terminal::validation_setup::{CheckProcesses, ValidationSetup};

use super::Finding;
use crate::commands::rehearse::{MAX_TIME, find_place};

const WHAT: &str = "rehearsal";

/// Tries it, unless a check failed or a run is at work; `None` if a stop was requested.
pub(super) async fn try_moves(
    context: &Context,
    setup: &ValidationSetup,
    processes: &CheckProcesses,
    (is_sound, is_free): (bool, bool),
) -> Result<Option<Vec<Finding>>, CommandError> {
    let blocker = match (is_sound, is_free) {
        (false, _) => Some("a check above failed"),
        (true, false) => Some("a run is active, or other checks"),
        (true, true) => None,
    };
    if let Some(why) = blocker {
        return Ok(Some(vec![Finding::skipped(WHAT, why)]));
    }
    let tried = rehearse(context, setup, (MAX_TIME, processes.take_stop_requests())).await;
    let report = match tried {
        Ok(Some(report)) => report,
        Ok(None) => return Ok(None),
        Err(error) => return Ok(Some(vec![Finding::skipped(WHAT, &error.detail())])),
    };
    let problems = report.rows.iter().filter(|row| row.verdict.is_problem());
    let mut findings: Vec<Finding> =
        problems.map(|row| Finding::warning(WHAT, describe(context, row))).collect();
    if findings.is_empty() {
        let cheats = report.rows.iter().filter(|row| !row.kind.is_honest()).count();
        findings.push(Finding::ok(WHAT, format!("none of {cheats} cheats would be accepted")));
    }
    Ok(Some(findings))
}

fn describe(context: &Context, row: &RehearsedRow) -> String {
    let RehearsedRow { check, kind, what, verdict, advice, .. } = row;
    let advice = advice.as_deref().unwrap_or_default();
    let place = find_place(context, check);
    format!("{}, {what}: {} by `{check}` ({place}); add {advice}", kind.name(), verdict.word())
}
