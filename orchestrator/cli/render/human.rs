//! What people see: a few lines for each iteration, more with `--verbose`.

mod iteration;
mod ticker;

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ralph_orchestrator_contract::{ClaimKind, Verdict};
use ralph_orchestrator_core::engine::{Notice, Observer};
use ralph_orchestrator_core::machine::{StopReason, ValidatorVerdict};
use ralph_orchestrator_core::store::Layout;

use super::live::{Doing, Live};
use super::summary;
use super::terminal::{fold, has_cursor, stderr_width};
use super::text::{EVIDENCE_ONLY, cost, count, duration, escape, one_line};
use crate::output;
use iteration::stagnation;

/// However much happens, the live line is drawn no more often.
const REDRAW: Duration = Duration::from_millis(200);

/// Prints a run for people, on stderr; its last line, the result, on stdout.
pub(crate) struct Human {
    verbose: bool,
    colour: bool,
    view: Mutex<View>,
}

struct View {
    /// A live line is possible.
    has_line: bool,
    last_draw: Instant,
    live: Live,
    /// Where the state lies.
    state: Option<Layout>,
    /// The agent's text ended in the middle of a line.
    open_line: bool,
}

const BOLD: &str = "1";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const DIM: &str = "2";

impl Human {
    /// Ready to watch a run. On a terminal, a line shows how it goes on.
    pub(crate) fn watching(verbose: bool) -> Arc<Self> {
        let human = Arc::new(Self::new(verbose));
        if human.view.lock().is_ok_and(|view| view.has_line) {
            ticker::start(&human);
        }
        human
    }

    fn new(verbose: bool) -> Self {
        let now = Instant::now();
        let view = View {
            has_line: std::io::stderr().is_terminal() && has_cursor() && !verbose,
            last_draw: now,
            live: Live::new(now),
            state: None,
            open_line: false,
        };
        Self { verbose, colour: output::colour(), view: Mutex::new(view) }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && !code.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// A line that begins with `head`, in this colour, and goes on with `tail`; on a terminal folded
    /// where it ends.
    fn line(&self, view: &mut View, code: &str, head: &str, tail: &str) {
        if std::mem::take(&mut view.open_line) {
            output::say("");
        }
        let text = format!("{head}{tail}");
        let indent = 2 + text.chars().take_while(|c| *c == ' ').count();
        let mut left = head.chars().count();
        for piece in fold(&text, indent, stderr_width().unwrap_or(usize::MAX)) {
            let painted: String = piece.chars().take(left).collect();
            let plain: String = piece.chars().skip(left).collect();
            // The space at which it was folded.
            left = left.saturating_sub(piece.chars().count() + 1);
            output::say(&format!("{}{plain}", self.paint(code, &painted)));
        }
    }

    /// A text that may have several lines of its own, each as it is.
    fn block(&self, view: &mut View, code: &str, head: &str, text: &str) {
        let text = escape(text);
        let mut lines = text.trim_end().lines();
        self.line(view, code, head, lines.next().unwrap_or_default());
        for line in lines {
            self.line(view, "", "      ", line);
        }
    }

    /// Draws the live line, unless that was done a moment ago.
    fn refresh(&self, view: &mut View) {
        if view.last_draw.elapsed() >= REDRAW {
            self.draw(view);
        }
    }

    /// Draws the live line, if anything goes on.
    fn draw(&self, view: &mut View) {
        if !view.has_line {
            return;
        }
        let now = Instant::now();
        let Some(width) = stderr_width() else { return };
        view.last_draw = now;
        output::live(view.live.line(width, now).map(|line| self.paint(DIM, &line)).as_deref());
    }

    fn verdicts(&self, view: &mut View, verdicts: &[ValidatorVerdict]) {
        for named in verdicts {
            let optional = if named.required { "" } else { " (not required)" };
            let name = &named.validator;
            let time = duration(named.duration_ms);
            match &named.verdict {
                Verdict::Accepted { summary, .. } => {
                    let tail = format!("{optional}: {} ({time})", one_line(summary, 160));
                    self.line(view, GREEN, &format!("  accepted by {name}"), &tail);
                }
                Verdict::Rejected { reasons } => {
                    let tail = format!("{optional} ({time}):");
                    self.line(view, RED, &format!("  rejected by {name}"), &tail);
                    for reason in reasons {
                        self.block(view, "", "    - ", reason);
                    }
                }
                Verdict::Error { message } => {
                    let head = format!("  {name} could not check{optional}: ");
                    self.block(view, RED, &head, message);
                }
            }
        }
    }

    /// What a check says before any work is done: only that it fails then makes it worth anything.
    fn baseline(&self, view: &mut View, named: &ValidatorVerdict) {
        let (name, time) = (&named.validator, duration(named.duration_ms));
        match &named.verdict {
            Verdict::Accepted { .. } => {
                let text = format!("  {name} accepts before any work is done ({time})");
                self.line(view, YELLOW, &text, "");
            }
            Verdict::Rejected { .. } => {
                let text =
                    format!("  {name} rejects before any work is done, as it should ({time})");
                self.line(view, DIM, &text, "");
            }
            Verdict::Error { message } => {
                self.block(view, RED, &format!("  {name} could not check: "), message);
            }
        }
    }

    fn finished(&self, view: &mut View, run: &str, notice: &Notice) {
        let Notice::RunFinished {
            stop_reason,
            message,
            validated,
            evidence_only,
            iterations,
            cost_usd,
            cost_estimated,
            cost_reported,
            runtime_ms,
            agent_changed,
            ..
        } = notice
        else {
            return;
        };
        view.live.begin(Doing::Nothing);
        let about = if *cost_estimated { "about " } else { "" };
        let cost = if *cost_reported { format!("{about}{cost_usd}, ") } else { String::new() };
        let by = agent_changed
            .as_ref()
            .map(|change| format!(", by {} instead of {}", change.to, change.from));
        let by = by.unwrap_or_default();
        let iterations = count(*iterations, "iteration");
        let figures = format!("{iterations}, {cost}{}{by}", duration(*runtime_ms));
        let text = match stop_reason {
            StopReason::Completed if *validated && *evidence_only => {
                format!("completed: {figures}; {EVIDENCE_ONLY}")
            }
            StopReason::Completed if *validated => format!("completed: {figures}"),
            StopReason::Completed => format!("completed WITHOUT validation: {figures}"),
            other => {
                // The message may begin with the same word.
                let rest = message.strip_prefix(other.word()).unwrap_or(message);
                let rest = one_line(rest.trim_start_matches([';', ':', ' ']), 400);
                format!("{}: {rest} ({figures})", other.word())
            }
        };
        let code = if *stop_reason == StopReason::Completed { GREEN } else { YELLOW };
        // Results may go elsewhere than to the terminal.
        let is_shown = output::is_shown();
        output::result(&if is_shown { self.paint(code, &text) } else { text });
        if let (StopReason::Completed, Some(note)) =
            (stop_reason, message.strip_prefix("validated, "))
        {
            self.line(view, YELLOW, &format!("  {note}"), "");
        }
        if let Some(layout) = &view.state {
            summary::print(layout, run);
        }
        if *stop_reason == StopReason::Completed {
            let next = "  next        review the changes; `run --restart` begins a new run";
            self.line(view, "", next, "");
        }
    }
}

impl Human {
    fn run(&self, view: &mut View, run: &str, notice: &Notice) {
        let head = format!("run {run}");
        match notice {
            Notice::RunStarted {
                agent,
                workspace,
                state_dir,
                max_runtime_ms,
                max_cost_usd,
                ..
            } => {
                view.state = Some(Layout::new(state_dir.clone()));
                (view.live.max_runtime_ms, view.live.max_cost) = (*max_runtime_ms, *max_cost_usd);
                view.live.set_runtime(0);
                view.live.begin(Doing::Scanning);
                self.line(view, BOLD, &head, &format!(": {agent} in {}", workspace.display()));
                self.policy(view, notice);
            }
            Notice::RunResumed {
                agent,
                state_dir,
                iterations,
                cost_usd,
                cost_reported,
                runtime_ms,
                max_runtime_ms,
                max_cost_usd,
                ..
            } => {
                view.state = Some(Layout::new(state_dir.clone()));
                (view.live.max_runtime_ms, view.live.max_cost) = (*max_runtime_ms, *max_cost_usd);
                (view.live.charged, view.live.cost_reported) = (*cost_usd, *cost_reported);
                view.live.set_runtime(*runtime_ms);
                view.live.begin(Doing::Scanning);
                let so_far = [
                    count(*iterations, "iteration"),
                    duration(*runtime_ms),
                    cost(*cost_usd, *cost_reported, false),
                ];
                let tail = format!(" goes on after {}: {agent}", so_far.join(", "));
                self.line(view, BOLD, &head, &tail);
            }
            Notice::AgentChanged { from, to, reason, .. } => {
                let text = format!("  {to} takes over from {from}: {}", one_line(reason, 300));
                self.line(view, YELLOW, &text, "");
            }
            _ => self.finished(view, run, notice),
        }
    }

    /// What a completion has to pass.
    fn policy(&self, view: &mut View, notice: &Notice) {
        let Notice::RunStarted { validators, validation_required, evidence_only, .. } = notice
        else {
            return;
        };
        if *validation_required {
            let text = format!("  completion has to pass: {}", validators.join(", "));
            self.line(view, "", &text, "");
            if *evidence_only {
                self.line(view, YELLOW, &format!("  completion is proved {EVIDENCE_ONLY}"), "");
            }
        } else {
            let text = "  completion is NOT validated: the agent's claim is trusted";
            self.line(view, YELLOW, text, "");
        }
    }

    fn completion(&self, view: &mut View, notice: &Notice) {
        match notice {
            Notice::Claim { claim, .. } => {
                let what = match claim.kind {
                    ClaimKind::Complete => "claims completion",
                    ClaimKind::NeedsHuman => "asks for a human",
                };
                let text = one_line(&claim.text, 200);
                self.line(view, "", &format!("  {what} ({}): {text}", claim.detector), "");
            }
            Notice::NearMiss { near_miss, .. } => {
                let text = one_line(&near_miss.text, 80);
                let line = near_miss.line;
                let text = format!("  near miss, not a valid claim (line {line}): {text}");
                self.line(view, "", &text, "");
            }
            Notice::Validating { validators, .. } => {
                view.live.begin(Doing::Validating(validators.join(", ")));
                self.refresh(view);
            }
            Notice::Previewed { accepted: true, .. } => {
                view.live.begin(Doing::Working(String::new()));
                self.line(view, GREEN, "  the agent was told that this would be accepted", "");
            }
            Notice::Previewed { reasons, .. } => {
                view.live.begin(Doing::Working(String::new()));
                let text = "  the agent was told that this would be rejected, and goes on:";
                self.line(view, YELLOW, text, "");
                for reason in reasons {
                    self.block(view, "", "    - ", reason);
                }
            }
            Notice::Baseline { verdicts, .. } => {
                view.live.begin(Doing::Scanning);
                for named in verdicts {
                    self.baseline(view, named);
                }
            }
            Notice::Artefacts { validator, paths, .. } => {
                let whom = validator.as_deref().unwrap_or("a validator");
                let paths = one_line(&paths.join(", "), 160);
                self.line(view, "", &format!("  {whom} left {paths} (no part of the work)"), "");
            }
            Notice::Verdict { verdicts, accepted, reasons, stagnant, max_stagnant, .. } => {
                view.live.begin(Doing::Scanning);
                self.verdicts(view, verdicts);
                if !accepted {
                    self.rejected(view, verdicts, reasons);
                    if let Some(count) = stagnation(*stagnant, *max_stagnant) {
                        self.line(view, YELLOW, &format!("  {count}"), "");
                    }
                }
            }
            _ => {}
        }
    }

    /// What no verdict says: about the workspace, and protected paths.
    fn rejected(&self, view: &mut View, verdicts: &[ValidatorVerdict], reasons: &[String]) {
        let said = |reason: &&String| {
            verdicts.iter().any(|named| {
                reason.strip_prefix(&named.validator).is_some_and(|r| r.starts_with(':'))
            })
        };
        for reason in reasons.iter().filter(|reason| !said(reason)) {
            self.block(view, RED, "  rejected: ", reason);
        }
    }
}

impl Observer for Human {
    fn notice(&self, run: &str, notice: &Notice) {
        let mut guard = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let view = &mut *guard;
        match notice {
            Notice::RunStarted { .. }
            | Notice::RunResumed { .. }
            | Notice::AgentChanged { .. }
            | Notice::RunFinished { .. } => {
                self.run(view, run, notice);
            }
            Notice::IterationStarted { .. }
            | Notice::IterationFinished { .. }
            | Notice::Changes { .. }
            | Notice::Paused { .. }
            | Notice::Waiting { .. } => self.iteration(view, notice),
            Notice::AgentText { .. }
            | Notice::AgentTool { .. }
            | Notice::AgentEvent { .. }
            | Notice::Context { .. }
            | Notice::Note { .. }
            | Notice::Usage { .. } => self.agent(view, notice),
            Notice::Claim { .. }
            | Notice::NearMiss { .. }
            | Notice::Validating { .. }
            | Notice::Previewed { .. }
            | Notice::Verdict { .. }
            | Notice::Artefacts { .. }
            | Notice::Baseline { .. } => self.completion(view, notice),
            Notice::Warning { message, .. } => {
                let text = format!("  warning: {}", one_line(message, 400));
                self.line(view, YELLOW, &text, "");
            }
        }
    }
}
