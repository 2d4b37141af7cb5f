//! Advice after a stop.

use std::time::Duration;

use ralph_orchestrator_config::{LoadedConfig, duration_text};
use ralph_orchestrator_machine::{
    BaselineMode, CompletionTrigger, FrozenPolicy, Limit, LimitValue, ResumeBlocker, RunLimits,
    RunUsage, State, StopKind,
};
use ralph_orchestrator_text::one_line;

use crate::words::limit_value;

/// Returns what to do next; `None` for a run that is active or complete. `program` is the command that invokes
/// this program for the run's configuration.
pub fn after(state: &State, program: &str) -> Option<String> {
    after_with(state, program, None)
}

/// The same where it is known which limits the next `run` has that names none.
pub fn after_with(state: &State, program: &str, plain: Option<&LoadedConfig>) -> Option<String> {
    if state.process.attached && state.completion().is_none() {
        return Some(format!(
            "go on in the session; `{program} hook status` shows whether it is still checked"
        ));
    }
    let blocker = state.resume_blocker()?;
    let advice = advise(state, &blocker, program, plain);
    let is_exhausted = matches!(blocker, ResumeBlocker::Limit(_) | ResumeBlocker::Stagnation);
    Some(match state.hidden_rejection().filter(|_| is_exhausted) {
        Some(names) => format!("{}; or {advice}", show_hidden(state, names, program)),
        None => advice,
    })
}

/// Returns what has checks see files that they need, or makes these for them.
fn show_hidden(state: &State, names: &str, program: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
    let names: Vec<&str> = names.split(", ").collect();
    let link = match names.iter().all(|name| name.chars().all(is_plain)) {
        true => {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            quoted.join(", ")
        }
        // What is not named, or would have to be escaped, is the user's to write.
        false => "…".to_owned(),
    };
    // What the agent has done is there from the start then.
    let accepted = match state.validation.baseline_mode {
        BaselineMode::MustFail => " --set completion.baseline=warn",
        BaselineMode::Warn | BaselineMode::Off => "",
    };
    format!(
        "give the checks what they do not see: `{program} run --restart{accepted} --set 'validation.link=[{link}]'` shows it \
         to them as the agent made it, and `validation.setup` names a command that makes it"
    )
}

fn advise(
    state: &State,
    blocker: &ResumeBlocker,
    program: &str,
    plain: Option<&LoadedConfig>,
) -> String {
    let resumes = resumes(state, program, plain);
    let restart = format!("`{program} run --restart` begins a new run");
    match blocker {
        ResumeBlocker::Limit(limit) => raise(state, *limit, program, plain),
        ResumeBlocker::Failures => format!(
            "fix what made the iterations fail (`{program} log` shows them), then {resumes}"
        ),
        ResumeBlocker::Protected => format!(
            "{}, then {resumes}; or, if the change is yours, {restart} with it",
            put_back(program)
        ),
        ResumeBlocker::Stagnation => advise_on_stagnation(state, program, &resumes, &restart),
        ResumeBlocker::Products(missing) => format!(
            "make what is missing ({}), or raise initializer.max_attempts, then {resumes}",
            one_line(&missing.join("; "), 200)
        ),
        ResumeBlocker::Unavailable => {
            format!("fix what `{program} doctor` reports, then {resumes}")
        }
        ResumeBlocker::NotFound => format!(
            "correct the model, or the address of the provider, in the configuration, then {resumes}"
        ),
        ResumeBlocker::Question(question) => format!(
            "`{program} answer \"…\"` answers the question \"{}\", then {resumes}",
            one_line(question, 120)
        ),
        ResumeBlocker::Login => format!("log the agent in, or set its key, then {resumes}"),
        ResumeBlocker::Credit => format!("add credit at the agent's provider, then {resumes}"),
        ResumeBlocker::Provider => format!(
            "raise {} to wait that long, or wait yourself: then {resumes}",
            with_value(state, Limit::Wait)
        ),
        ResumeBlocker::UserBudget => format!(
            "wait until the period of the budget ends (`{program} budget` shows when), or raise [budget] in the \
             user's configuration, which `{program} trust` accepts if an agent could have written it: then {resumes}"
        ),
        ResumeBlocker::Validator(name) => format!(
            "fix the validator `{}` (`{program} doctor` shows what it lacks), then {resumes}",
            one_line(name, 60)
        ),
        ResumeBlocker::Hook(event) => format!(
            "mend what `{}` needs (`{program} log` shows what it said), or take it out, then {resumes}",
            event.key()
        ),
        ResumeBlocker::Processes(names) => {
            format!("end {}, then {resumes}", one_line(&names.join(", "), 200))
        }
        ResumeBlocker::Unsteady => {
            format!("stop what changes the files, then {resumes}; or add the line, and {restart}")
        }
        ResumeBlocker::Baseline => format!(
            "correct what the check runs until it fails without the work, then {resumes}; {}",
            change_check(program)
        ),
        ResumeBlocker::Nothing => resumes,
    }
}

/// Returns what helps a run that made no progress.
fn advise_on_stagnation(state: &State, program: &str, resumes: &str, restart: &str) -> String {
    if !state.agent.left_behind.is_empty() {
        return format!("{}, then {resumes}; or {restart}", wait_within(state));
    }
    if has_never_claimed(state) {
        return format!(
            "the agent never claimed completion, so the checks were not run: have the prompt say how to claim              (`{program} log 1 --prompt` shows it), then {resumes}; or `{program} run --restart --set              completion.when=proved` has them run without a claim"
        );
    }
    format!("make the task smaller or clearer in the prompt, then {resumes}; or {restart}")
}

/// Returns what else helps where the checks accept before any work.
fn change_check(program: &str) -> String {
    format!(
        "or change the check itself, and `{program} run --restart` begins a new run; or allow it: `{program} run --set \
         completion.baseline=warn`"
    )
}

/// Returns what to do where all work is rejected until then.
fn put_back(program: &str) -> String {
    format!("put back what is protected as it was when the run began (`{program} why` names it)")
}

/// Returns what resumes a run: with a pause that still holds, `run` alone would wait for its end, and with a limit that is
/// used up it would start nothing.
pub fn resumes(state: &State, program: &str, plain: Option<&LoadedConfig>) -> String {
    resumes_beside(state, program, plain, None)
}

/// The same once this limit is raised.
fn resumes_beside(
    state: &State,
    program: &str,
    plain: Option<&LoadedConfig>,
    raised: Option<Limit>,
) -> String {
    let next = next_limits(state, plain);
    let used_up = state.used_up(&next).find(|limit| Some(*limit) != raised);
    let raise = used_up.map(|limit| raise_used_up(state, limit, program, &next));
    let pause = state.is_pause_requested().then(|| format!("`{program} resume` ends the pause"));
    let run = format!("`{program} run` resumes");
    let steps: Vec<String> = raise.into_iter().chain(pause).chain([run]).collect();
    steps.join(", then ")
}

/// Returns the limits of the next `run` that names none.
fn next_limits(state: &State, plain: Option<&LoadedConfig>) -> RunLimits {
    state.next_limits(plain.map(|plain| &plain.config.limits))
}

/// Returns what raises a limit that is used up at the next `run`.
fn raise_used_up(state: &State, limit: Limit, program: &str, next: &RunLimits) -> String {
    let (value, more) = (next.value(limit), raised(state, limit, next));
    let flag = flag(limit).unwrap_or_default();
    format!(
        "`{program} limits {flag} {more}` raises {} ({}), which is used up",
        limit.key(),
        limit_value(value)
    )
}

/// Returns what begins a new run once this one is complete: in short where nothing has to be added to it.
pub fn restart(program: &str) -> String {
    let own = if program.contains(' ') { program } else { "" };
    let command = format!("{own} run --restart");
    format!("`{}` begins a new run", command.trim_start())
}

/// Whether the run stopped at a question that was answered since.
pub fn is_answered(state: &State) -> bool {
    state.stop.as_ref().is_some_and(|stop| stop.reason.kind() == StopKind::Human)
        && matches!(state.resume_blocker(), Some(ResumeBlocker::Nothing))
        && state.open_answers().any(|answer| answer.question.is_some())
}

/// Returns the advice for a limit that a person has set by `limits`, or that is not the one which the next `run`
/// has: to raise it in the configuration would have no effect, or is not needed.
fn raise_override(
    state: &State,
    limit: Limit,
    program: &str,
    plain: Option<&LoadedConfig>,
) -> Option<String> {
    let (flag, value) = (flag(limit)?, with_value(state, limit));
    let more = raised(state, limit, &state.limits);
    let resumes = resumes_beside(state, program, plain, Some(limit));
    let configured = plain.map_or_else(
        || state.controls.configured_limits.value(limit),
        |plain| limit.configured(&plain.config.limits),
    );
    let allows = |max: Option<LimitValue>| max.is_none_or(|max| max.amount() > used(state, limit));
    if state.controls.set_by(limit).is_some() {
        let clear = match allows(configured) {
            true => format!(", `{program} limits --clear` returns to the configuration"),
            false => String::new(),
        };
        return Some(format!(
            "{value} was set by `limits` and holds whatever the configuration says: `{program} limits {flag} \
             {more}` raises it{clear}; then {resumes}"
        ));
    }
    let (plain, next) = (plain?, next_limits(state, plain).value(limit));
    (next != state.limits.value(limit) && allows(next)).then(|| {
        let origin = match state.controls.limits.origin(limit) {
            Some(_) => "set by `limits`".to_owned(),
            None => plain.origin(limit.key()).unwrap_or_default(),
        };
        let when = match state.controls.configured_limits.stated.contains(&limit) {
            true => "of this start only",
            false => "at the last start",
        };
        format!(
            "{value} was the limit {when}: {resumes}, up to {} ({origin}); \
             `{program} limits {flag} {more}` sets another one",
            limit_value(next)
        )
    })
}

/// Returns what to do about a limit that was reached.
fn raise(state: &State, limit: Limit, program: &str, plain: Option<&LoadedConfig>) -> String {
    let raise = raise_alone(state, limit, program, plain);
    let is_by_work = matches!(limit, Limit::Iterations | Limit::Rejections | Limit::Stagnant);
    match state.protected_rejection() {
        Some(_) => format!("{}, then {raise}", put_back(program)),
        None if is_by_work && !state.agent.left_behind.is_empty() => {
            format!("{}, then {raise}", wait_within(state))
        }
        None => raise,
    }
}

/// Returns what to do about an agent whose work never ends since its session does so before it.
fn wait_within(state: &State) -> String {
    format!(
        "the agent leaves work running in the background ({}), which is ended with its session: have the prompt say that \
         it has to wait for what it starts",
        one_line(&state.agent.left_behind.join(", "), 120)
    )
}

/// Returns what raises a limit that was reached.
fn raise_alone(state: &State, limit: Limit, program: &str, plain: Option<&LoadedConfig>) -> String {
    if let Some(advice) = raise_override(state, limit, program, plain) {
        return advice;
    }
    let (value, key) = (with_value(state, limit), limit.key());
    let more = raised(state, limit, &state.limits);
    let resumes = resumes_beside(state, program, plain, Some(limit));
    let restart = format!("`{program} run --restart` begins a new run");
    let otherwise = match limit {
        Limit::Rejections | Limit::Stagnant => {
            format!("or correct the prompt or the check, and {restart}")
        }
        _ => format!("or {restart}"),
    };
    // To raise it in a file that an agent can write would be asked for.
    let flag = flag(limit);
    let command = match &flag {
        Some(flag) => format!("limits {flag} {more}` raises {value}"),
        None => format!("run --set {key}={more}` raises {value} for one start"),
    };
    match flag {
        // That is a start itself.
        None => match resumes.strip_suffix(&format!("`{program} run` resumes")) {
            Some(before) => format!("{before}`{program} {command}, and resumes; {otherwise}"),
            None => format!("{resumes}; {otherwise}"),
        },
        Some(_) => format!("`{program} {command}, then {resumes}; {otherwise}"),
    }
}

/// Whether validators were waiting for a claim that no agent made.
fn has_never_claimed(state: &State) -> bool {
    let waits =
        |policy: &FrozenPolicy| policy.when == CompletionTrigger::Claimed && policy.validates();
    state.claims.stats.claims == 0 && state.policy().is_some_and(waits)
}

/// Returns the option of `limits` that changes this limit, if it has one.
fn flag(limit: Limit) -> Option<String> {
    limit.row().budget.map(|row| format!("--{}", row.option))
}

/// Returns how much is used of a limit on what the run may use.
fn used(state: &State, limit: Limit) -> u64 {
    limit.row().budget.map_or(0, |row| row.used(&RunUsage::from_state(state)))
}

/// Returns twice the limit's value, or twice what is used where that is more already, as it is typed.
fn raised(state: &State, limit: Limit, limits: &RunLimits) -> String {
    let unit = limit.row().unit;
    let more = |max: LimitValue| unit.to_value(max.amount().max(used(state, limit)));
    match limits.value(limit).map(more) {
        Some(LimitValue::Count(count)) => count.saturating_mul(2).to_string(),
        Some(LimitValue::Duration(ms)) => {
            let seconds = Duration::from_millis(ms).as_secs().saturating_mul(2).max(1);
            duration_text(Duration::from_secs(seconds)).replace(' ', "")
        }
        Some(LimitValue::Money(usd)) => format!("{}", usd.dollars() * 2.0),
        None => "none".to_owned(),
    }
}

/// Returns the limit's key and its present value.
fn with_value(state: &State, limit: Limit) -> String {
    format!("{} ({})", limit.key(), limit_value(state.limits.value(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_contract::{Claim, ClaimKind, ClaimSource, ErrorClass, Verdict};
    use ralph_orchestrator_machine::{
        Control, ControlOrigin, IterationOutcome, LimitChanges, Record, Rejection, Stop,
        StopReason, ValidatorVerdict,
    };

    fn stopped(reason: StopReason) -> State {
        let stop = Some(Stop { reason, message: String::new() });
        State { stop, ..State::default() }
    }

    fn failed(reason: StopReason, class: ErrorClass) -> State {
        let outcome = IterationOutcome::Failed { class, message: String::new() };
        State { last_outcome: Some(outcome), ..stopped(reason) }
    }

    /// A run that has used four iterations, with this limit.
    fn used(reason: StopReason, max: u64) -> State {
        let mut state = State { iterations: 4, ..stopped(reason) };
        let limits = RunLimits { max_iterations: Some(max), ..RunLimits::default() };
        (state.limits, state.controls.configured_limits) = (limits.clone(), limits);
        state
    }

    #[test]
    fn what_is_used_up_is_raised_before_the_run_resumes() {
        let raise = "`r limits --max-iterations 8` raises limits.max_iterations (2), which is used up, then ";
        let resumes = format!("{raise}`r run` resumes");
        assert_eq!(after(&used(StopReason::Interrupted, 2), "r").unwrap(), resumes);
        assert_eq!(after(&used(StopReason::Interrupted, 5), "r").unwrap(), "`r run` resumes");
        let thrashing = after(&used(StopReason::Thrashing, 2), "r").unwrap();
        assert!(thrashing.starts_with(&format!("{raise}`r run --set limits.")), "{thrashing}");
        for (configured, helps) in [(2, false), (5, true)] {
            let mut set = used(StopReason::MaxIterations, configured);
            let max = Some(LimitValue::Count(4));
            set.apply(&Record::ControlReceived {
                origin: ControlOrigin {
                    id: "a".into(),
                    user: "ada".into(),
                    program: "command line".into(),
                    sent_ms: 1,
                },
                control: Control::Limits(LimitChanges::default().with(Limit::Iterations, max)),
                refused: None,
            });
            let advice = after(&set, "r").unwrap();
            assert!(advice.contains("`r limits --max-iterations 8` raises it"), "{advice}");
            assert_eq!(advice.contains("--clear"), helps, "{advice}");
        }
    }

    #[test]
    fn what_checks_need_and_do_not_see_is_shown_to_them_first() {
        for (reason, baseline, command) in [
            (
                "green only with out/a.py, b, which git ignores and more",
                BaselineMode::Warn,
                "`r run --restart --set 'validation.link=[\"out/a.py\", \"b\"]'` shows",
            ),
            (
                "green only with .git as it is now: more",
                BaselineMode::Warn,
                "'validation.link=[\".git\"]'` shows",
            ),
            (
                "green only with it's \"x\", b, which git ignores",
                BaselineMode::MustFail,
                "`r run --restart --set completion.baseline=warn --set 'validation.link=[…]'` shows",
            ),
        ] {
            let mut state = stopped(StopReason::Thrashing);
            let verdict = ValidatorVerdict {
                validator: "v".to_owned(),
                required: true,
                duration_ms: 1,
                verdict: Verdict::Rejected { reasons: vec![reason.to_owned()] },
                tests: None,
            };
            state.validation.rejection = Some(Rejection {
                reasons: Vec::new(),
                verdicts: vec![verdict],
                work: (String::new(), String::new()),
                times: 1,
            });
            state.validation.baseline_mode = baseline;
            let advice = after(&state, "r").unwrap();
            assert!(advice.contains(command), "{advice}");
            assert!(advice.contains("`validation.setup`") && advice.contains("; or "), "{advice}");
            // What it was asked to stop for has nothing to do with it.
            state.stop = stopped(StopReason::Interrupted).stop;
            assert_eq!(after(&state, "r").unwrap(), "`r run` resumes");
        }
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
