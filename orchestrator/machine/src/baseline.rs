//! The baseline: the checks, run once before any work. A check that accepts then proves nothing later.

use super::between_iterations;
use super::input::BaselineCheck;
use super::policy::BaselineMode;
use super::record::Record;
use super::state::State;
use super::stop::StopReason;
use super::transition::Transition;
use super::verdict::ValidatorVerdict;

const ALREADY_ACCEPTED: &str = "every check accepts the unchanged workspace";

pub(super) fn checked(next: &mut Transition, check: BaselineCheck) {
    let interrupted = check.interrupted || next.state.process.stop_requested;
    if !next.state.is_baseline_due() {
        return;
    }
    between_iterations::artefacts_of_validators(next, check.artefacts);
    if between_iterations::ignores_verdicts(next, interrupted, check.out_of_time) {
        return;
    }
    if !check.hopeless.is_empty() {
        // It is not recorded as done: the next start runs the checks again.
        next.warn(check.warnings);
        return next.finish(StopReason::Baseline, nothing_is_accepted(&check.hopeless));
    }
    let accepted = !check.verdicts.is_empty()
        && check.verdicts.iter().all(|named| named.verdict.is_accepted());
    let required = check.verdicts.iter().filter(|named| named.required);
    let names: Vec<String> = required.map(|named| format!("`{}`", named.validator)).collect();
    let runtime_ms = next.runtime_ms();
    next.warn(check.warnings);
    next.record(Record::Baseline {
        accepted,
        tree: check.tree,
        evidence: check.evidence,
        verdicts: check.verdicts,
        runtime_ms,
    });
    let must_fail = next.state.validation.baseline_mode == BaselineMode::MustFail;
    if accepted && must_fail {
        return next.finish(StopReason::Baseline, passes_already(&names));
    }
    if must_fail && !check.unable.is_empty() {
        return next.finish(StopReason::Baseline, cannot_run(&check.unable));
    }
    next.warn(describe_errors(&next.state));
    if accepted {
        let consequence = consequence(&next.state);
        next.warn([format!("{ALREADY_ACCEPTED}: {consequence}")]);
    }
    between_iterations::continue_run(next);
}

/// Says of required checks without a verdict that nothing can be accepted before somebody mends that.
fn describe_errors(state: &State) -> Vec<String> {
    let errors =
        state.validation.baseline_verdicts.iter().filter(|named| named.required_error().is_some());
    // Why is said with the verdict.
    let name = |named: &ValidatorVerdict| {
        format!(
            "NOTHING CAN BE ACCEPTED as long as the check `{}` comes to no verdict. Unless the task is to mend that, stop now: \
             the agent is paid for work that is never accepted",
            named.validator
        )
    };
    errors.map(name).collect()
}

/// Says of checks that accept what nobody has worked on that they cannot prove any work.
fn passes_already(names: &[String]) -> String {
    let (checks, pass, prove) = match names {
        [_] => ("check", "passes", "it proves"),
        _ => ("checks", "pass", "they prove"),
    };
    format!(
        "the {checks} {} {pass} already, before any work, so {prove} nothing; no agent was started \
         (completion.baseline = \"must_fail\")",
        names.join(", ")
    )
}

/// Says why no work could be accepted, so that an agent would be paid for nothing.
fn nothing_is_accepted(hopeless: &[String]) -> String {
    format!("nothing could be accepted: {}; no agent was started", hopeless.join("; "))
}

/// Says of checks whose program is missing that they would reject whatever is done.
fn cannot_run(unable: &[String]) -> String {
    format!(
        "a check cannot run, so it would reject all work: {}; no agent was started (completion.baseline = \"must_fail\")",
        unable.join("; ")
    )
}

fn consequence(state: &State) -> &'static str {
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
