//! Prints the progress and the end of an iteration.

use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{Event, Usage, Usd};
use ralph_orchestrator_engine::RunEvent;
use ralph_orchestrator_machine::{Changes, IterationOutcome};
use ralph_orchestrator_story::words::{
    changed_files, changes, context_usage, cost, outcome, saved, tool_line, trigger,
};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::{duration, escape, one_line};

use super::{BOLD, DIM, HumanReporter, RED, ReporterState, YELLOW, describe_stagnation};
use crate::render::live::LiveActivity;

/// Files that are named at the end of an iteration.
const MOST_FILES: usize = 3;

impl HumanReporter {
    pub(super) fn iteration(&self, state: &mut ReporterState, notice: &RunEvent) {
        match notice {
            RunEvent::IterationStarted {
                iteration,
                attempt,
                trigger: why,
                max_iterations,
                role,
                runtime_ms,
                ..
            } => {
                let live = &mut state.live;
                (live.iteration, live.max_iterations) = (*iteration, *max_iterations);
                (live.usage, live.context) = (Usage::default(), None);
                live.set_runtime(*runtime_ms);
                live.begin(LiveActivity::Working(String::new()));
                let of = max_iterations.map(|max| format!("/{max}")).unwrap_or_default();
                let again =
                    if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                let role = role.as_ref().map_or_else(String::new, |role| format!(" as {role}"));
                let why = trigger(*why);
                let text = format!("Iteration {iteration}{of} started{role} ({why}{again})");
                self.line(state, DIM, &text, "");
            }
            RunEvent::Paused { ms, .. } => {
                state
                    .live
                    .begin(LiveActivity::Pausing(Instant::now() + Duration::from_millis(*ms)));
            }
            RunEvent::Waiting { ms, reason, .. } => self.waiting(state, *ms, reason),
            RunEvent::Changes {
                changes, stagnant, max_stagnant, claim_pending, rejected, ..
            } => {
                state.live.begin(LiveActivity::Scanning);
                let stagnation =
                    describe_stagnation(*stagnant, *max_stagnant).filter(|_| !claim_pending);
                self.changes(state, changes, stagnation);
                if let Some(reason) = rejected {
                    let tail = one_line(reason.lines().next().unwrap_or_default(), 300);
                    self.line(
                        state,
                        YELLOW,
                        "  still rejected, as nothing was changed since: ",
                        &tail,
                    );
                }
            }
            RunEvent::Saved { checkpoint, commit, .. } => {
                self.saved(state, checkpoint.as_deref(), commit.as_deref());
            }
            _ => self.ended(state, notice),
        }
        self.refresh(state);
    }

    fn waiting(&self, state: &mut ReporterState, ms: u64, reason: &str) {
        let until = Instant::now() + Duration::from_millis(ms);
        // An agent that waits by itself keeps its activity.
        if !matches!(state.live.activity, LiveActivity::Working(_)) {
            state.live.begin(LiveActivity::Waiting(until, reason.to_owned()));
        }
        // An agent that has to try again at once says so itself.
        let wait = if ms == 0 { String::new() } else { format!("waiting {}: ", duration(ms)) };
        let text = format!("  {wait}{}", one_line(reason, 160));
        self.line(state, YELLOW, &text, "");
    }

    fn ended(&self, state: &mut ReporterState, notice: &RunEvent) {
        let RunEvent::IterationFinished {
            iteration,
            outcome: how,
            cost_usd,
            total_cost_usd,
            max_cost_usd,
            duration_ms,
            usage,
            agent,
        } = notice
        else {
            return;
        };
        state.live.begin(LiveActivity::Scanning);
        state.live.charged = *total_cost_usd;
        state.live.max_cost = *max_cost_usd;
        state.live.tokens += usage.tokens.unwrap_or_default();
        state.live.usage = Usage::default();
        state.live.cost_reported |= usage.cost.is_some();
        let code = if *how == IterationOutcome::Succeeded { BOLD } else { YELLOW };
        let of = max_cost_usd.map(|max| format!(" of {max}")).unwrap_or_default();
        let total = if state.live.cost_reported || *total_cost_usd > Usd::ZERO {
            format!(", {total_cost_usd}{of} in all")
        } else {
            String::new()
        };
        let own = cost(*cost_usd, usage.cost.is_some(), usage.estimated);
        let own = if total.is_empty() { String::new() } else { format!(", {own}") };
        let head = format!("iteration {iteration} {}", outcome(how));
        self.line(
            state,
            code,
            &head,
            &format!("  ({agent}, {}{own}{total})", duration(*duration_ms)),
        );
    }

    fn changes(&self, state: &mut ReporterState, changed: &Changes, stagnation: Option<String>) {
        let files = changed_files(changed, MOST_FILES).join(", ");
        let what = if changed.is_empty() {
            "changed no files".to_owned()
        } else {
            format!("changed {}: {files}", changes(changed))
        };
        let stagnation = stagnation.map(|count| format!(", {count}")).unwrap_or_default();
        let code = if stagnation.is_empty() { "" } else { YELLOW };
        self.line(state, code, &format!("  {what}{stagnation}"), "");
    }

    fn saved(&self, state: &mut ReporterState, checkpoint: Option<&str>, commit: Option<&str>) {
        let text = saved(checkpoint, commit);
        if !text.is_empty() {
            self.line(state, DIM, &format!("  {text}"), "");
        }
    }

    pub(super) fn agent(&self, state: &mut ReporterState, notice: &RunEvent) {
        match notice {
            RunEvent::AgentText { text, .. } => self.text(state, text),
            RunEvent::AgentTool { name, input, .. } => {
                let call = tool_line(name, input);
                if self.verbose {
                    self.line(state, "", &format!("  {call}"), "");
                }
                state.live.activity = LiveActivity::Working(call);
            }
            RunEvent::AgentEvent { detail, .. } if self.verbose => self.detail(state, detail),
            RunEvent::Usage { usage, .. } => state.live.usage = *usage,
            RunEvent::Context { used, window, .. } => {
                state.live.context = Some(context_usage(*used, *window));
            }
            RunEvent::Note { text, .. } => {
                self.line(state, "", &format!("  note: {}", one_line(text, 200)), "");
            }
            _ => {}
        }
        self.refresh(state);
    }

    fn text(&self, state: &mut ReporterState, text: &str) {
        if self.verbose {
            let text = escape(text);
            state.open_line = !text.ends_with('\n');
            output::info_part(&text);
        }
        // Its last line, which says what it is about to do.
        if let Some(line) = text.trim_end().lines().next_back() {
            state.live.activity = LiveActivity::Working(line.to_owned());
        }
    }

    fn detail(&self, state: &mut ReporterState, detail: &Event) {
        match detail {
            Event::ToolResult { text, is_error, .. } => {
                let (code, mark) = if *is_error { (RED, "    failed:") } else { ("", "    ->") };
                self.line(state, code, mark, &format!(" {}", one_line(text, 160)));
            }
            Event::Stderr { text } => {
                self.line(state, DIM, &format!("  stderr: {}", one_line(text, 200)), "");
            }
            Event::Session { model: Some(model), .. } => {
                self.line(state, DIM, &format!("  model {}", one_line(model, 60)), "");
            }
            _ => {}
        }
    }
}
