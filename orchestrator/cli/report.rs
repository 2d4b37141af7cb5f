//! A run as one page of HTML that needs nothing else: no script, no network, no font.
//!
//! What agents wrote is on it as text only. Everything on it is bounded, and it says what was left out.

mod patches;
mod pictures;
mod plot;

use std::collections::VecDeque;

use data_encoding::BASE64;
use jiff::Timestamp;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, escape_formatter};
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_machine::ValidatorVerdict;
use ralph_orchestrator_store::JournalEntry;
use ralph_orchestrator_story::records::RecordFormatter;
use ralph_orchestrator_story::run_summary::{IterationSummary, RunSummary};
use ralph_orchestrator_story::selected_run::SelectedRun;
use ralph_orchestrator_story::status;
use ralph_orchestrator_story::whole_state::whole_state;
use ralph_orchestrator_story::words::{changes, cost, describe_execution, outcome, tokens};
use ralph_orchestrator_text::{duration, escape, local};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use patches::Patches;
use pictures::Evidence;
use plot::{CostPlot, verdict_word};

const TEMPLATE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/style.css");
/// Lines of the story that are shown, the newest.
const MOST_LINES: usize = 2000;
/// Iterations that have a row, the newest.
const MOST_ITERATIONS: usize = 500;

/// Takes the records of a run, the oldest first.
pub(crate) struct RunReport {
    summary: RunSummary,
    formatter: RecordFormatter,
    story: VecDeque<String>,
    lines_left_out: usize,
}

impl Default for RunReport {
    fn default() -> Self {
        Self {
            summary: RunSummary::default(),
            formatter: RecordFormatter::new(None).with_whole_reasons(),
            story: VecDeque::new(),
            lines_left_out: 0,
        }
    }
}

impl RunReport {
    pub(crate) fn add(&mut self, entry: &JournalEntry) {
        self.summary.add(&entry.record);
        self.story.extend(self.formatter.lines(entry));
        while self.story.len() > MOST_LINES {
            self.story.pop_front();
            self.lines_left_out = self.lines_left_out.saturating_add(1);
        }
    }

    /// Adds what is stored beside the records.
    pub(crate) async fn finish(
        self,
        selected: &SelectedRun,
        context: &Context,
    ) -> Result<RunPage, CommandError> {
        let found = &selected.found;
        let whole = whole_state(&selected.layout, found);
        let iterations: Vec<_> =
            self.summary.iterations.values().filter(|one| !one.is_empty()).collect();
        let shown = iterations.iter().rev().take(MOST_ITERATIONS);
        let started = found.state.started.as_ref();
        let configured = &context.loaded.config.run.workspace;
        let workspace = started
            .map_or_else(|| configured.display().to_string(), |started| started.workspace.clone());
        let project = workspace.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&workspace);
        Ok(RunPage {
            project: project.to_owned(),
            facts: facts(selected, &workspace, &self.summary),
            headline: status::headline(&whole, selected.holder.as_ref()),
            phase: status::phase(&whole, selected.is_running()),
            made: local(Timestamp::now()),
            verdicts: self.summary.verdicts.iter().map(VerdictRow::new).collect(),
            plot: CostPlot::new(&iterations),
            iterations: shown.map(|one| IterationRow::new(one)).collect(),
            iterations_left_out: iterations.len().saturating_sub(MOST_ITERATIONS),
            patches: Patches::read(selected, &iterations, context).await,
            evidence: Evidence::read(selected),
            story: self.story,
            lines_left_out: self.lines_left_out,
        })
    }
}

/// What the template shows.
#[derive(Debug, Serialize)]
pub(crate) struct RunPage {
    project: String,
    facts: Vec<(&'static str, String)>,
    headline: String,
    phase: &'static str,
    made: String,
    verdicts: Vec<VerdictRow>,
    plot: Option<CostPlot>,
    iterations: Vec<IterationRow>,
    iterations_left_out: usize,
    patches: Patches,
    evidence: Evidence,
    story: VecDeque<String>,
    lines_left_out: usize,
}

/// The facts about a run, with their names.
fn facts(
    selected: &SelectedRun,
    workspace: &str,
    summary: &RunSummary,
) -> Vec<(&'static str, String)> {
    let state = &selected.found.state;
    let time = |time: Option<Timestamp>| time.map(local).unwrap_or_default();
    let all = [
        ("run", selected.found.run.clone()),
        ("workspace", workspace.to_owned()),
        ("agent", state.agent.name.clone()),
        ("began", time(selected.found.started)),
        ("last record", time(selected.found.ended)),
        ("iterations", state.iterations.to_string()),
        ("runtime", duration(selected.runtime_ms())),
        (
            "cost",
            cost(
                state.cost(),
                summary.iterations.values().any(|one| one.cost_reported),
                state.budget.cost_estimated,
            ),
        ),
        ("tokens", tokens(state.tokens())),
        ("changes", changes(&summary.changes)),
        (
            "made green",
            state.explained.as_ref().map(|found| found.summary.clone()).unwrap_or_default(),
        ),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

#[derive(Debug, Serialize)]
struct VerdictRow {
    validator: String,
    is_required: bool,
    word: &'static str,
    took: String,
    details: Vec<String>,
}

impl VerdictRow {
    fn new(verdict: &ValidatorVerdict) -> Self {
        let (word, details) = match &verdict.verdict {
            Verdict::Accepted { summary, .. } => ("accepted", vec![summary.clone()]),
            Verdict::Rejected { reasons } => ("rejected", reasons.clone()),
            Verdict::Error { message } => ("error", vec![message.clone()]),
        };
        Self {
            validator: verdict.validator.clone(),
            is_required: verdict.required,
            word,
            took: describe_execution(verdict),
            details,
        }
    }
}

#[derive(Debug, Serialize)]
struct IterationRow {
    iteration: u64,
    agent: String,
    outcome: String,
    /// "accepted", "rejected" or nothing.
    verdict: &'static str,
    cost: String,
    took: String,
    changes: String,
}

impl IterationRow {
    fn new(one: &IterationSummary) -> Self {
        Self {
            iteration: one.iteration,
            agent: one.agent.clone(),
            outcome: one.outcome.as_ref().map(outcome).unwrap_or_default(),
            verdict: verdict_word(one),
            cost: cost(one.cost_usd, one.cost_reported, one.cost_estimated),
            took: duration(one.duration_ms),
            changes: one.changes.as_ref().map(changes).unwrap_or_default(),
        }
    }
}

/// Returns the page.
///
/// # Errors
/// The template and what it is given do not match.
pub(crate) fn render_page(page: &RunPage) -> Result<String, minijinja::Error> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // What an agent wrote must not reorder or hide what stands beside it.
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) if value.kind() == ValueKind::String && !value.is_safe() => {
            escape_formatter(out, state, &Value::from(escape(text)))
        }
        _ => escape_formatter(out, state, value),
    });
    // Lines with a block only leave nothing behind.
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_template("page.html", TEMPLATE)?;
    environment.add_global("style", Value::from_safe_string(STYLE.to_owned()));
    environment
        .add_global("style_hash", Value::from_safe_string(BASE64.encode(&Sha256::digest(STYLE))));
    environment.add_global("page", Value::from(Serde(page)));
    environment.get_template("page.html")?.render(())
}
