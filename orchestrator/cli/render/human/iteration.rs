//! How an iteration goes on and ends.

use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{Event, Usage, Usd};
use ralph_orchestrator_core::engine::Notice;
use ralph_orchestrator_core::machine::{Changes, IterationOutcome};

use super::{BOLD, DIM, Human, RED, View, YELLOW};
use crate::output;
use crate::render::live::Doing;
use crate::render::text::{
    changed_files, changes, cost, duration, escape, fullness, one_line, outcome, tool_line, trigger,
};

/// Files that are named at the end of an iteration.
const MOST_FILES: usize = 3;

impl Human {
    pub(super) fn iteration(&self, view: &mut View, notice: &Notice) {
        match notice {
            Notice::IterationStarted {
                iteration,
                attempt,
                trigger: why,
                max_iterations,
                runtime_ms,
            } => {
                let live = &mut view.live;
                (live.iteration, live.max_iterations) = (*iteration, *max_iterations);
                (live.usage, live.context) = (Usage::default(), None);
                live.set_runtime(*runtime_ms);
                live.begin(Doing::Working(String::new()));
                let of = max_iterations.map(|max| format!("/{max}")).unwrap_or_default();
                let again =
                    if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                let text = format!("iteration {iteration}{of} started ({}{again})", trigger(*why));
                self.line(view, DIM, &text, "");
            }
            Notice::Paused { ms, .. } => {
                view.live.begin(Doing::Pausing(Instant::now() + Duration::from_millis(*ms)));
            }
            Notice::Waiting { ms, reason, .. } => self.waiting(view, *ms, reason),
            Notice::Changes { changes, stagnant, max_stagnant, claim_pending, .. } => {
                view.live.begin(Doing::Scanning);
                let stagnation = stagnation(*stagnant, *max_stagnant).filter(|_| !claim_pending);
                self.changes(view, changes, stagnation);
            }
            _ => self.ended(view, notice),
        }
        self.refresh(view);
    }

    fn waiting(&self, view: &mut View, ms: u64, reason: &str) {
        let until = Instant::now() + Duration::from_millis(ms);
        // An agent that waits itself goes on.
        if !matches!(view.live.doing, Doing::Working(_)) {
            view.live.begin(Doing::Waiting(until, reason.to_owned()));
        }
        let text = format!("  waiting {}: {}", duration(ms), one_line(reason, 160));
        self.line(view, YELLOW, &text, "");
    }

    fn ended(&self, view: &mut View, notice: &Notice) {
        let Notice::IterationFinished {
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
        view.live.begin(Doing::Scanning);
        view.live.charged = *total_cost_usd;
        view.live.usage = Usage::default();
        view.live.cost_reported |= usage.cost.is_some();
        let code = if *how == IterationOutcome::Succeeded { BOLD } else { YELLOW };
        let of = max_cost_usd.map(|max| format!(" of {max}")).unwrap_or_default();
        let total = if view.live.cost_reported || *total_cost_usd > Usd::ZERO {
            format!(", {total_cost_usd}{of} in all")
        } else {
            String::new()
        };
        let own = cost(*cost_usd, usage.cost.is_some(), usage.estimated);
        let own = if total.is_empty() { String::new() } else { format!(", {own}") };
        let head = format!("iteration {iteration} {}", outcome(how));
        self.line(
            view,
            code,
            &head,
            &format!("  ({agent}, {}{own}{total})", duration(*duration_ms)),
        );
    }

    fn changes(&self, view: &mut View, changed: &Changes, stagnation: Option<String>) {
        let files = changed_files(changed, MOST_FILES).join(", ");
        let what = match (changed.is_empty(), &stagnation) {
            (true, Some(_)) => "nothing new".to_owned(),
            (true, None) => "changed no files".to_owned(),
            (false, _) => format!("changed {}: {files}", changes(changed)),
        };
        let stagnation = stagnation.map(|count| format!(", {count}")).unwrap_or_default();
        let code = if stagnation.is_empty() { "" } else { YELLOW };
        self.line(view, code, &format!("  {what}{stagnation}"), "");
    }

    pub(super) fn agent(&self, view: &mut View, notice: &Notice) {
        match notice {
            Notice::AgentText { text, .. } => self.text(view, text),
            Notice::AgentTool { name, input, .. } => {
                let call = tool_line(name, input);
                if self.verbose {
                    self.line(view, "", &format!("  {call}"), "");
                }
                view.live.doing = Doing::Working(call);
            }
            Notice::AgentEvent { detail, .. } if self.verbose => self.detail(view, detail),
            Notice::Usage { usage, .. } => view.live.usage = *usage,
            Notice::Context { used, window, .. } => {
                view.live.context = Some(fullness(*used, *window));
            }
            Notice::Note { text, .. } => {
                self.line(view, "", &format!("  note: {}", one_line(text, 200)), "");
            }
            _ => {}
        }
        self.refresh(view);
    }

    fn text(&self, view: &mut View, text: &str) {
        if self.verbose {
            let text = escape(text);
            view.open_line = !text.ends_with('\n');
            output::say_part(&text);
        }
        // Its last line, which says what it is about to do.
        if let Some(line) = text.trim_end().lines().next_back() {
            view.live.doing = Doing::Working(line.to_owned());
        }
    }

    fn detail(&self, view: &mut View, detail: &Event) {
        match detail {
            Event::ToolResult { text, is_error, .. } => {
                let (code, mark) = if *is_error { (RED, "    failed:") } else { ("", "    ->") };
                self.line(view, code, mark, &format!(" {}", one_line(text, 160)));
            }
            Event::Stderr { text } => {
                self.line(view, DIM, &format!("  stderr: {}", one_line(text, 200)), "");
            }
            Event::Session { model: Some(model), .. } => {
                self.line(view, DIM, &format!("  model {}", one_line(model, 60)), "");
            }
            _ => {}
        }
    }
}

/// How far the run is from `limits.max_stagnant`, such as `4 of 10 without progress`.
pub(super) fn stagnation(count: u32, max: Option<u32>) -> Option<String> {
    let of = max.map(|max| format!(" of {max}")).unwrap_or_default();
    (count > 0).then(|| format!("{count}{of} without progress"))
}
