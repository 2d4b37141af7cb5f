//! What an agent reports of itself: figures, its context, and how that is told in messages.

use ralph_orchestrator_contract::{Event, Report, Tokens, Usage};

use crate::RecordingSink;
use crate::fixture::{FIRST, Fixture, LAST, Subject};
use crate::scenarios::{CheckResult, PROMPT, end_of, ended, said, said_after};

/// Returns with which text a run came to a good end, for messages.
pub(super) fn text_of(report: &Report) -> String {
    match &report.final_text {
        Some(text) => format!(" with the final text {:?}", end_of(text)),
        None => " without a final text".to_owned(),
    }
}

/// Returns tokens and cost in words.
fn figures(usage: &Usage) -> String {
    let tokens = usage.tokens.map(|tokens| {
        let Tokens { input, output, cache_read, cache_write } = tokens;
        format!("{input} input, {output} output, {cache_read} cache_read, {cache_write} cache_write tokens")
    });
    let cost = usage.cost.map(|cost| cost.to_string());
    let all: Vec<String> = tokens.into_iter().chain(cost).collect();
    if all.is_empty() { "no usage".to_owned() } else { all.join(" and ") }
}

pub(super) async fn start(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    said(&ended(fixture, subject, PROMPT, &sink).await?)?;
    grown(&sink).map(drop)
}

/// Returns the last figures; fails if one is less than it was.
fn grown(sink: &RecordingSink) -> Result<Usage, String> {
    let mut last = Usage::default();
    for usage in sink.usages() {
        // A figure that is not told is what it was.
        let fell = usage.tokens.is_some() && usage.tokens != last.max(usage).tokens
            || usage.cost.is_some_and(|cost| Some(cost) < last.cost);
        if fell {
            let (before, after) = (figures(&last), figures(&usage));
            return Err(format!(
                "its `usage` fell, but is the sum since the iteration began: {before}, then {after}"
            ));
        }
        last = last.max(usage);
    }
    Ok(last)
}

pub(super) async fn usage(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    let result = ended(fixture, subject, PROMPT, &sink).await?;
    said_after(&result)?;
    let report = result.map_err(|error| error.to_string())?;
    let last = grown(&sink)?;
    let can = subject.agent().describe().capabilities;
    let reported = figures(&report.usage);
    if can.tokens && report.usage.tokens != Some(FIRST + LAST) {
        let served = Usage { tokens: Some(FIRST + LAST), ..Usage::default() };
        return Err(format!("it reports {reported}, but the model served {}", figures(&served)));
    }
    if last.max(report.usage) != report.usage {
        let sums = figures(&last);
        return Err(format!("its report has {reported}, less than its events: {sums}"));
    }
    Ok(())
}

pub(super) async fn context(fixture: &Fixture, subject: &Subject) -> CheckResult {
    let sink = RecordingSink::new();
    said_after(&ended(fixture, subject, PROMPT, &sink).await?)?;
    let events = sink.events();
    let last = events.iter().rev().find_map(|event| match event {
        Event::Context { used, window } => Some((*used, *window)),
        _ => None,
    });
    let Some((used, window)) = last else {
        return Err("it reports no `context`".to_owned());
    };
    if used == 0 || used > LAST.total() || window.is_some_and(|window| window < used) {
        return Err(format!(
            "it reports {used} of {window:?} tokens in its context, but the last request had {}",
            LAST.total()
        ));
    }
    Ok(())
}
