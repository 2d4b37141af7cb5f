//! The one command that helps after a stop.

use ralph_orchestrator_core::machine::{ResumeBlocker, State};

use crate::render::text::{duration, one_line};

/// What to do next, for people; `None` for a run that goes on or is complete. `program` is how this
/// program is called for the run's configuration.
pub(crate) fn after(state: &State, program: &str) -> Option<String> {
    let resumes = format!("`{program} run` resumes");
    let restart = format!("`{program} run --restart` begins a new run");
    Some(match state.resume_blocker()? {
        ResumeBlocker::Limit(key @ ("limits.max_rejections" | "limits.max_stagnant")) => format!(
            "raise {key} ({}), then {resumes}; or correct the prompt or the check, and {restart}",
            value(state, key)
        ),
        ResumeBlocker::Limit(key) => {
            format!("raise {key} ({}), then {resumes}; or {restart}", value(state, key))
        }
        ResumeBlocker::Failures => format!(
            "fix what made the iterations fail (`{program} log` shows them), then {resumes}"
        ),
        ResumeBlocker::Stagnation => {
            format!("make the task smaller or clearer in the prompt, then {resumes}; or {restart}")
        }
        ResumeBlocker::Unavailable => {
            format!("fix what `{program} doctor` reports, then {resumes}")
        }
        ResumeBlocker::NotFound => format!(
            "correct the model, or the address of the provider, in the configuration, then {resumes}"
        ),
        ResumeBlocker::Question(question) => format!(
            "`{program} answer \"…\"` answers the question \"{}\", then {resumes}",
            one_line(&question, 120)
        ),
        ResumeBlocker::Login => format!("log the agent in, or set its key, then {resumes}"),
        ResumeBlocker::Credit => format!("add credit at the agent's provider, then {resumes}"),
        ResumeBlocker::Provider => format!(
            "raise limits.max_wait ({}) to wait that long, or come back later: {resumes}",
            value(state, "limits.max_wait")
        ),
        ResumeBlocker::Validator(name) => format!(
            "fix the validator `{}` (`{program} doctor` shows what it lacks), then {resumes}",
            one_line(&name, 60)
        ),
        ResumeBlocker::Processes(names) => {
            format!("end {}, then {resumes}", one_line(&names.join(", "), 200))
        }
        ResumeBlocker::Baseline => {
            format!("write a check that fails until the work is done, then {restart}")
        }
        ResumeBlocker::Nothing => resumes,
    })
}

/// The limit as it is now.
fn value(state: &State, key: &str) -> String {
    let limits = &state.limits;
    let value = match key {
        "limits.max_iterations" => limits.max_iterations.map(|max| max.to_string()),
        "limits.max_runtime" => limits.max_runtime_ms.map(duration),
        "limits.max_cost_usd" => limits.max_cost_usd.map(|max| max.to_string()),
        "limits.max_tokens" => limits.max_tokens.map(|max| max.to_string()),
        "limits.max_rejections" => Some(limits.max_rejections.to_string()),
        "limits.max_stagnant" => Some(limits.max_stagnant.to_string()),
        "limits.max_wait" => Some(duration(limits.max_wait_ms)),
        _ => None,
    };
    value.unwrap_or_else(|| "none".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_contract::{Claim, ClaimKind, ClaimSource, ErrorClass};
    use ralph_orchestrator_core::machine::{IterationOutcome, Stop, StopReason};

    fn stopped(reason: StopReason) -> State {
        let stop = Some(Stop { reason, message: String::new() });
        State { stop, ..State::default() }
    }

    fn failed(reason: StopReason, class: ErrorClass) -> State {
        let outcome = IterationOutcome::Failed { class, message: String::new() };
        State { last_outcome: Some(outcome), ..stopped(reason) }
    }

    #[test]
    fn answer_is_named_only_where_something_was_asked() {
        let text = "which?".to_owned();
        let question = Claim {
            kind: ClaimKind::NeedsHuman,
            detector: "d".into(),
            source: ClaimSource::Tool,
            text,
        };
        let mut asked = stopped(StopReason::NeedsHuman);
        asked.claims.human_request = Some(question);
        assert!(
            after(&asked, "r")
                .unwrap()
                .starts_with("`r answer \"…\"` answers the question \"which?\"")
        );
        let waiting =
            IterationOutcome::Deferred { class: ErrorClass::Overloaded, message: String::new() };
        let waiting = State { last_outcome: Some(waiting), ..stopped(StopReason::NeedsHuman) };
        for (state, helps) in [
            (failed(StopReason::NeedsHuman, ErrorClass::Unauthenticated), "log the agent in"),
            (failed(StopReason::NeedsHuman, ErrorClass::Billing), "credit"),
            (failed(StopReason::AgentUnavailable, ErrorClass::NotFound), "the model"),
            (failed(StopReason::AgentUnavailable, ErrorClass::Unavailable), "`r doctor`"),
            (waiting, "limits.max_wait"),
            (stopped(StopReason::NeedsHuman), "`r run` resumes"),
            (stopped(StopReason::Failures), "`r log`"),
            (stopped(StopReason::Stagnation), "the prompt"),
            (stopped(StopReason::Interrupted), "`r run` resumes"),
        ] {
            let hint = after(&state, "r").unwrap();
            assert!(hint.contains(helps) && !hint.contains("answer"), "{hint}");
        }
        assert_eq!(after(&State::default(), "r"), None);
        assert_eq!(after(&stopped(StopReason::Completed), "r"), None);
    }
}
