//! Words for what happens in a run.

use std::collections::BTreeMap;
use std::time::Duration;

use ralph_orchestrator_contract::{CancelReason, Capabilities, Tokens, Usd, Verdict};
use ralph_orchestrator_machine::{
    AgentUse, Changes, Control, ControlOrigin, FileChange, IterationOutcome, LimitChanges,
    LimitValue, State, Trigger, ValidatorVerdict,
};
use ralph_orchestrator_test_results::TestCounts;
use ralph_orchestrator_text::{count, duration, escape_line, len, one_line, short_number};
use serde_json::{Value, json};

/// What a completion rests on if no required validator runs anything.
pub const EVIDENCE_ONLY: &str = "by evidence files or reviews only: nothing that was run proves it";

/// How many digits of an object's id are shown.
const SHORT_ID: usize = 12;

/// An amount without cents if there are none.
pub fn short_usd(amount: Usd) -> String {
    let text = amount.to_string();
    text.strip_suffix(".00").map_or(text.clone(), str::to_owned)
}

/// What something cost, as far as that is known.
pub fn cost(amount: Usd, is_reported: bool, is_estimated: bool) -> String {
    match (is_reported, is_estimated) {
        (true, true) => format!("about {amount}"),
        (true, false) => amount.to_string(),
        (false, _) if amount == Usd::ZERO => "cost not reported".into(),
        (false, _) => format!("charged {amount}, cost not reported"),
    }
}

/// Tokens by class; those of the provider's cache only where there are any.
pub fn tokens(tokens: Tokens) -> String {
    let Tokens { input, output, cache_read, cache_write } = tokens;
    let mut text = format!("input {input}, output {output}");
    let cached = [("cache read", cache_read), ("cache write", cache_write)];
    for (class, count) in cached.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!(", {class} {count}"));
    }
    text
}

/// The same in few columns, such as `in 17.0k, out 31.2k, cache read 5.9M`.
pub fn short_tokens(tokens: Tokens) -> String {
    let Tokens { input, output, cache_read, cache_write } = tokens;
    let mut text = format!("in {}, out {}", short_number(input), short_number(output));
    let cached = [("cache read", cache_read), ("cache write", cache_write)];
    for (class, count) in cached.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!(", {class} {}", short_number(count)));
    }
    text
}

/// How long a validator took, and the tests that its check ran, such as `1.2 s; 3 passed, 1 failed`.
pub fn describe_execution(named: &ValidatorVerdict) -> String {
    let tests = named.tests.map_or_else(String::new, |tests| format!("; {tests}"));
    format!("{}{tests}", duration(named.duration_ms))
}

/// The tests that each validator ran, such as ` (unit: 3 passed; e2e: 1 passed, 1 failed)`; nothing where none were counted.
pub fn describe_tests<'a>(tests: impl IntoIterator<Item = (&'a String, TestCounts)>) -> String {
    let each = tests.into_iter().map(|(name, tests)| format!("{}: {tests}", one_line(name, 60)));
    let each: Vec<String> = each.collect();
    if each.is_empty() { String::new() } else { format!(" ({})", each.join("; ")) }
}

/// What was changed, such as `3 files, +41 -7`.
pub fn changes(changes: &Changes) -> String {
    if changes.is_empty() {
        return "no files".into();
    }
    let lines = if changes.counts_lines() {
        format!(", +{} -{}", changes.lines_added, changes.lines_removed)
    } else {
        String::new()
    };
    format!("{}{lines}", count(changes.files, "file"))
}

/// The files that were changed, at most so many, such as `src/lib.rs +3 -1`.
pub fn changed_files(changes: &Changes, most: usize) -> Vec<String> {
    let named = changes.paths.iter().take(most);
    let mut files: Vec<String> = named
        .map(|file| {
            let path = one_line(&file.path, 200);
            let lines = file.lines_added.zip(file.lines_removed);
            let lines = lines.filter(|lines| *lines != (0, 0));
            let lines = lines.map(|(added, removed)| format!(" +{added} -{removed}"));
            let what = match file.change {
                FileChange::Added => " (new)",
                FileChange::Removed => " (removed)",
                FileChange::Modified => "",
            };
            format!("{path}{what}{}", lines.unwrap_or_default())
        })
        .collect();
    let more = changes.files.saturating_sub(len(&files));
    files.extend((more > 0).then(|| format!("{more} more")));
    files
}

/// The first digits of an object's id, which tell objects apart.
pub fn short_object_id(id: &str) -> String {
    id.chars().take(SHORT_ID).collect()
}

/// What was stored in git, such as `checkpoint 1a2b3c4d, commit 5e6f7a8b`; empty if nothing was.
pub fn saved(checkpoint: Option<&str>, commit: Option<&str>) -> String {
    let stored = [("checkpoint", checkpoint), ("commit", commit)];
    let stored =
        stored.iter().filter_map(|(what, id)| Some(format!("{what} {}", short_object_id((*id)?))));
    stored.collect::<Vec<_>>().join(", ")
}

/// What a person asked of a run, and why it was refused if it was.
pub fn control(origin: &ControlOrigin, control: &Control, refused: Option<&str>) -> String {
    let user = one_line(&origin.user, 40);
    let what = match control {
        Control::Steer { text } => format!("guidance by {user}: {}", one_line(text, 160)),
        Control::Answer { text } => format!("answer by {user}: {}", one_line(text, 160)),
        Control::Pause { now: false } => format!("pause requested by {user}"),
        Control::Pause { now: true } => format!("immediate pause requested by {user}"),
        Control::Resume => format!("pause ended by {user}"),
        Control::Limits(changes) => format!("limits changed by {user}: {}", limit_changes(changes)),
        Control::Stop => format!("stop requested by {user}"),
    };
    match refused {
        Some(reason) => format!("{what}: refused, {}", one_line(reason, 160)),
        None => what,
    }
}

/// That a running agent was given guidance.
pub fn describe_guidance(pieces: usize) -> String {
    match pieces {
        1 => "guidance delivered to the running agent".to_owned(),
        many => format!("{many} pieces of guidance delivered to the running agent"),
    }
}

/// The value of a limit, or that there is none.
pub fn limit_value(value: Option<LimitValue>) -> String {
    match value {
        Some(LimitValue::Count(count)) => count.to_string(),
        Some(LimitValue::Duration(ms)) => duration(ms),
        Some(LimitValue::Money(usd)) => usd.to_string(),
        None => "none".to_owned(),
    }
}

/// The value of a limit for programs: durations in seconds.
pub fn limit_json(value: LimitValue) -> Value {
    match value {
        LimitValue::Count(count) => json!(count),
        LimitValue::Duration(ms) => json!(Duration::from_millis(ms).as_secs_f64()),
        LimitValue::Money(usd) => json!(usd),
    }
}

fn limit_changes(changes: &LimitChanges) -> String {
    let cleared = changes.clear.then(|| "those of the configuration".to_owned());
    let set = changes.all().map(|(limit, max)| format!("{} {}", limit.name(), limit_value(max)));
    cleared.into_iter().chain(set).collect::<Vec<_>>().join(", ")
}

/// How an iteration ended.
pub fn outcome(outcome: &IterationOutcome) -> String {
    match outcome {
        IterationOutcome::Succeeded => "ended".into(),
        IterationOutcome::Failed { class, message } => {
            format!("FAILED ({}): {}", class.word(), one_line(message, 300))
        }
        IterationOutcome::Deferred { class, message } => {
            format!("deferred ({}): {}", class.word(), one_line(message, 200))
        }
        IterationOutcome::AgentLimit { message } => {
            format!("stopped by the agent's own limit: {}", one_line(message, 200))
        }
        IterationOutcome::Interrupted => "interrupted (the orchestrator died)".into(),
        IterationOutcome::StoppedEarly { reason: CancelReason::Handoff } => "handed off".into(),
        IterationOutcome::StoppedEarly { reason } => {
            format!("stopped by {}", reason.cause())
        }
    }
}

/// Why an iteration began.
pub const fn trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Initial => "initial",
        Trigger::Continued => "continued",
        Trigger::Rejected => "rejected",
        Trigger::Failed => "failed",
        Trigger::Resumed => "resumed",
    }
}

/// What an agent can do, in words.
pub fn capability_names(can: &Capabilities) -> Vec<&'static str> {
    let named = [
        (can.free, "free"),
        (can.cost && !can.free, "cost"),
        (can.tokens, "tokens"),
        (can.context, "context"),
        (can.rate_windows, "rate windows"),
        (can.tool_calls, "tool calls"),
        (can.interrupt, "interrupt"),
        (can.handoff, "hand-off"),
        (can.in_session_validation, "in-session validation"),
        (can.resume, "resume"),
    ];
    named.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect()
}

/// How full a context is, such as `71 %` or `123k tokens`.
pub fn context_usage(used: u64, window: Option<u64>) -> String {
    match window.filter(|window| *window > 0) {
        Some(window) => format!("{} %", used.saturating_mul(100) / window),
        None if used < 1000 => count(used, "token"),
        None => format!("{}k tokens", used / 1000),
    }
}

/// A tool call in one line: the argument that says most.
pub fn tool_line(name: &str, input: &Value) -> String {
    let telling =
        ["command", "file_path", "path", "pattern", "query", "url", "description", "prompt"];
    let argument =
        telling.iter().find_map(|key| input.get(key).and_then(Value::as_str)).map_or_else(
            || if input.is_null() { String::new() } else { input.to_string() },
            str::to_owned,
        );
    format!("[{}] {}", one_line(name, 40), one_line(&argument, 160))
}

/// Returns what each agent has used, and its attempts, where several have worked.
#[must_use]
pub fn used_by_agents(state: &State) -> Option<String> {
    describe_uses(&state.agent.used, state.budget.cost_reported)
}

/// Returns the same of what was used in several runs.
#[must_use]
pub fn describe_uses(used: &BTreeMap<String, AgentUse>, is_reported: bool) -> Option<String> {
    let row = |(name, used): (&String, &AgentUse)| {
        let name = escape_line(name);
        if is_reported || used.cost_usd > Usd::ZERO {
            format!("{name} {} ({})", used.cost_usd, used.attempts)
        } else {
            format!("{name} ({})", used.attempts)
        }
    };
    (used.len() > 1).then(|| used.iter().map(row).collect::<Vec<_>>().join(", "))
}

/// Returns what the reviews of the last validation said, one on a line.
#[must_use]
pub fn reviews(state: &State) -> Vec<String> {
    let rejected = state.validation.rejection.as_ref().map(|rejection| &rejection.verdicts);
    let verdicts = state.completion().map(|completion| &completion.verdicts).or(rejected);
    let verdicts = verdicts.into_iter().flatten();
    let reviews = verdicts.filter(|named| state.validation.reviews.contains(&named.validator));
    let line = |named: &ValidatorVerdict| {
        let said = match &named.verdict {
            Verdict::Accepted { summary, .. } => escape_line(summary),
            Verdict::Rejected { reasons } => {
                format!("rejected: {}", escape_line(&reasons.join("; ")))
            }
            Verdict::Error { message } => format!("no verdict: {}", escape_line(message)),
        };
        let optional = if named.required { "" } else { " (not required)" };
        format!("{}{optional}: {said}", escape_line(&named.validator))
    };
    reviews.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_right_plural_and_costs_say_what_is_known() {
        assert_eq!(count(1_u64, "file"), "1 file");
        assert_eq!(count(0_u64, "file"), "0 files");
        let dollar = Usd::from_dollars(1.0).unwrap();
        assert_eq!(cost(Usd::ZERO, false, false), "cost not reported");
        assert_eq!(cost(Usd::ZERO, true, false), "$0.00");
        assert_eq!(cost(dollar, true, true), "about $1.00");
        assert_eq!(cost(dollar, false, false), "charged $1.00, cost not reported");
        assert_eq!(short_usd(dollar), "$1");
    }
}
