//! What a completed run proved and what it cost, in Markdown, for people who look at an issue or a pull request.
//!
//! What agents, checks and other people wrote stands in code spans: there a host notifies nobody, and links nothing.

use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_machine::State;
use ralph_orchestrator_text::{count, duration, one_line};

use crate::words::{EVIDENCE_ONLY, cost, describe_execution, tokens, used_by_agents};

/// What is shown of a text that others wrote, in characters.
const MOST_SHOWN: usize = 300;
/// The same of the sentences about the parts of the work.
const MOST_EXPLAINED: usize = 4000;
/// Most checks that are listed.
const MOST_CHECKS: usize = 50;

/// Returns the report of a run that is complete; only that it is not, of another one.
#[must_use]
pub fn describe_completion(run: &str, state: &State) -> String {
    let Some(completion) = state.completion() else {
        return format!("Run `{run}` is not complete.\n");
    };
    let mut text = match completion.validated {
        true => "**Complete.** The required checks accept the work.\n".to_owned(),
        false => format!("**Complete**, {EVIDENCE_ONLY}.\n"),
    };
    append_checks(&mut text, state);
    text.push('\n');
    for line in list_facts(run, state) {
        text.push_str(&format!("- {line}\n"));
    }
    text
}

fn append_checks(text: &mut String, state: &State) {
    let verdicts = state.completion().map(|done| done.verdicts.as_slice()).unwrap_or_default();
    if verdicts.is_empty() {
        return;
    }
    text.push_str("\n| check | result | took |\n|---|---|---|\n");
    for named in verdicts.iter().take(MOST_CHECKS) {
        let (word, said) = match &named.verdict {
            Verdict::Accepted { summary, .. } => ("accepted", summary.clone()),
            Verdict::Rejected { reasons } => ("rejected", reasons.join("; ")),
            Verdict::Error { message } => ("error", message.clone()),
        };
        let kind = if named.required { "" } else { " (not required)" };
        let said = if said.is_empty() { String::new() } else { format!(": {}", cell(&said)) };
        text.push_str(&format!(
            "| {}{kind} | {word}{said} | {} |\n",
            cell(&named.validator),
            describe_execution(named)
        ));
    }
    if let Some(more) = verdicts.len().checked_sub(MOST_CHECKS).filter(|more| *more > 0) {
        text.push_str(&format!("\nand {more} more checks\n"));
    }
}

/// Returns what else there is to know, a line each.
fn list_facts(run: &str, state: &State) -> Vec<String> {
    let mut facts = Vec::new();
    match state.validation.baseline_accepted {
        Some(true) => facts.push(
            "The checks had accepted the workspace before any work: that they accept it now proves nothing."
                .to_owned(),
        ),
        Some(false) => facts.push("The checks had rejected the workspace before any work.".to_owned()),
        None => {}
    }
    if let Some(explained) = &state.explained {
        facts.push(format!(
            "What made the checks green: {}",
            code(&explained.summary, MOST_EXPLAINED)
        ));
    }
    if let Some(completion) = state.completion() {
        facts.push(format!("The agent's claim: {}", code(&completion.claim.text, MOST_SHOWN)));
    }
    let budget = &state.budget;
    let spent = cost(state.cost(), budget.cost_reported, budget.cost_estimated);
    let spent = spent.strip_prefix("cost ").unwrap_or(&spent);
    facts.push(format!(
        "Cost: {spent}, {}, {}; tokens: {}",
        count(state.iterations, "iteration"),
        duration(budget.runtime_ms),
        tokens(state.tokens())
    ));
    if let Some(used) = used_by_agents(state) {
        facts.push(format!("Agents: {}", code(&used, MOST_SHOWN)));
    }
    facts.push(format!("Run: `{run}`"));
    facts
}

/// Returns a text in a code span, on one line.
fn code(text: &str, most: usize) -> String {
    let text = one_line(text, most).replace('`', "'");
    let text = text.trim();
    if text.is_empty() { "–".to_owned() } else { format!("`{text}`") }
}

/// The same in a cell of a table, whose columns a bar separates even in a code span.
fn cell(text: &str) -> String {
    code(text, MOST_SHOWN).replace('|', "¦")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_stays_in_its_code_span_and_cell() {
        let hostile = "a`@all`<!-- x -->\n| b | #1 \u{1b}[31m\u{202e}";
        let shown = cell(hostile);
        assert!(shown.starts_with('`') && shown.ends_with('`'), "{shown}");
        assert_eq!(shown.matches('`').count(), 2, "{shown}");
        assert!(!shown.contains(['|', '\n', '\u{1b}', '\u{202e}']), "{shown}");
        assert_eq!(code(" \n", 9), "–");
    }
}
